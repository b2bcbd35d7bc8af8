"""Moves from plan to plan: nothing is missing, and no quicker way is."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import product

import pytest

from hetopt.check.plan.moves import check_moves
from hetopt.cost.build import build_table
from hetopt.cost.communication.migration import Network
from hetopt.errors import InputError
from hetopt.formulations.migration.program import Demand
from hetopt.plans.plan import Plan
from hetopt.plans.strategy import Strategy
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.replanning.holdings import States, bytes_held
from hetopt.replanning.layouts import layout_of
from hetopt.replanning.moves import Moves, moves_between
from hetopt.replanning.nodes import nodes_of, without
from hetopt.solvers.migration.senders import least_time
from tests.replanning.fleet import fleet, plan_of

D1, D2, D4 = (Strategy(dp=d, cp=1, tp=1) for d in (1, 2, 4))
T2, T4 = (Strategy(dp=1, cp=1, tp=t) for t in (2, 4))
TWO = Strategy(dp=2, cp=1, tp=2)


def moved(
    problems: tuple[Problem, Problem],
    plans: tuple[Plan, Plan],
    lost: list[str],
    checkpoint: float | None = None,
) -> tuple[Moves, list[str]]:
    """Return the moves, and what the checker finds wrong with them."""
    before = nodes_of(problems[0])
    after = without(before, lost)
    left = [node.device(k) for node in after for k in range(len(node.devices))]
    states = States.of(problems[0], plans)
    places = (
        layout_of(problems[0], plans[0], before),
        layout_of(problems[1], plans[1], after),
    )
    held = states.held(plans[0], places[0])
    held = {device: held[device] for device in left if device in held}
    needed = states.held(plans[1], places[1])
    network = Network(problems[1], after, checkpoint)
    found = moves_between(held, needed, states, network)
    old, new = (
        [[[d.name for d in own] for own in stages] for stages in place]
        for place in places
    )
    names = {device.name for device in left}
    text = found.to_csv()
    return found, check_moves(problems[1], text, plans, (old, new), names)


@pytest.mark.parametrize("zero", [0, 1, 3])
@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (([3, 3], [T2, T2]), ([6], [D2]), ["a/1"]),
        (([6], [TWO]), ([2, 4], [D1, T2]), ["a/1:0"]),
        (([6], [D4]), ([3, 3], [T2, D1]), ["a/0:1"]),
        (([1, 5], [T2, D2]), ([5, 1], [D2, D2]), []),
    ],
)
def test_every_device_gets_what_it_needs(
    zero: int,
    old: tuple[list[int], list[Strategy]],
    new: tuple[list[int], list[Strategy]],
    lost: list[str],
) -> None:
    before = fleet((2, 2), zero)
    sizes = [len(node.devices) for node in without(nodes_of(before), lost)]
    found, findings = moved(
        (before, fleet(sizes, zero)), (plan_of(*old), plan_of(*new)), lost, 1e9
    )
    assert findings == []
    # Data parallelism alone has everything everywhere.
    assert bool(found.rows) == (zero > 0 or old[1] != [D4])
    assert found.least_s <= found.seconds * (1 + 1e-6)
    assert found.seconds == pytest.approx(found.least_s, rel=1e-3)


@pytest.mark.parametrize("zero", [1, 3])
def test_ranks_of_every_group_share_shards(zero: int) -> None:
    alike = fleet((2, 2), zero)
    grouped = replace(alike, training=replace(alike.training, shard_group=2))
    plans = plan_of([6], [D4]), plan_of([3, 3], [D2, T2])
    ways = [moved((each, each), plans, [], 1e9) for each in (alike, grouped)]
    assert [findings for _, findings in ways] == [[], []]
    # A group of two holds everything, so less is missing.
    sent = [sum(row.bytes for row in found.rows) for found, _ in ways]
    assert 0 < sent[1] < sent[0]


def test_devices_hold_the_parameters_of_the_model() -> None:
    problem = fleet((2, 2), zero=1)
    plan = plan_of([3, 3], [T2, D2])
    states = States.of(problem, (plan,))
    layout = layout_of(problem, plan, nodes_of(problem))
    held = states.held(plan, layout)
    # Two plain stages: what the latency table's memory says, less the gradients.
    table = build_table(problem)
    costs = table.slices[0].clusters[0]
    for stage, devices in zip(plan.pipeline.stages, layout[0], strict=True):
        row = next(
            k
            for k, own in enumerate(costs.strategies)
            if (own.dp, own.cp, own.tp, own.recompute)
            == (stage.strategy.dp, 1, stage.strategy.tp, "none")
        )
        units = range(stage.first_unit, stage.end_unit)
        bytes_ = sum(int(costs.state_bytes[row, table.units[unit]]) for unit in units)
        gradients = sum(
            (sizes.split / stage.strategy.tp + sizes.whole) * 4
            for sizes in map(states.sizes, units)
        )
        for device in devices:
            own = bytes_held(held[device], states)
            # The table spreads the final norm over all stages.
            assert own == pytest.approx(bytes_ - gradients, rel=2e-3)


def test_a_lost_owner_takes_what_nobody_else_has() -> None:
    problems = fleet((2, 2), zero=1), fleet((2, 1), zero=1)
    plans = plan_of([6], [D4]), plan_of([6], [D2])
    with pytest.raises(InputError, match="--checkpoint-bandwidth"):
        moved(problems, plans, ["a/1:1"])
    found, findings = moved(problems, plans, ["a/1:1"], 1e9)
    assert findings == []
    states = States.of(problems[0], plans)
    numbers = sum(sum(states.sizes(unit)) for unit in range(6))
    stored = found.sent["checkpoint"][1]
    # A quarter of all optimizer states, of 12 bytes each.
    assert stored == pytest.approx(numbers / 4 * 12, rel=1e-4)


def test_experts_move_by_their_own_ranks() -> None:
    text = """\
model: {layers: 2, hidden: 64, heads: 4, ffn: 128, vocab: 200,
  experts: {number: 8, per_token: 2, ffn: 32}}
clusters:
  - {name: a, accelerator: A100-40GB, nodes: %s, inter_node: {bandwidth: 1 GB/s}}
training: {global_batch: 12, seq_len: 64, zero: 1, schedule: 1f1b}
"""
    before, after = (read_problem_text(text % n) for n in ("[2, 2]", "[2, 1]"))
    strategies = (
        Strategy(dp=2, cp=1, tp=2, ep=2, etp=2),
        Strategy(dp=2, cp=1, tp=1, ep=2),
    )
    units = len(before.model.units)
    plans = plan_of([units], strategies[:1]), plan_of([units], strategies[1:])
    found, findings = moved((before, after), plans, ["a/1:0"], 1e9)
    assert findings == []
    assert any(move.slice.tensor.part == "routed" for move in found.rows)


@pytest.mark.parametrize("seed", range(8))
def test_no_other_choice_of_senders_is_quicker(seed: int) -> None:
    draw = random.Random(seed)
    rates = [draw.choice([1e9, 2e9, 5e9]) for _ in range(6)]
    # Whole units of 1 GB, of which any may go any way.
    demands = []
    for _ in range(4):
        senders = sorted(draw.sample(range(3), draw.randint(1, 3)))
        ways = tuple((s, 3 + draw.randrange(3)) for s in senders)
        demands.append(Demand(bytes=10**9, senders=tuple(senders), ways=ways))
    answer = least_time(demands, rates)

    def seconds(shares: tuple[tuple[float, ...], ...]) -> float:
        used = [0.0] * len(rates)
        for demand, own in zip(demands, shares, strict=True):
            for share, way in zip(own, demand.ways, strict=True):
                for limit in way:
                    used[limit] += share * demand.bytes / rates[limit]
        return max(used)

    parts = 3
    choices = [_shares(len(demand.ways), parts) for demand in demands]
    best = min(seconds(choice) for choice in product(*choices))
    assert answer.seconds <= best + 1e-9
    found = tuple(
        tuple(size / demand.bytes for size in own)
        for demand, own in zip(demands, answer.bytes, strict=True)
    )
    assert seconds(found) == pytest.approx(answer.seconds, rel=1e-5)
    # Rounded to such parts, no share grows by one of them.
    assert best <= answer.seconds + max(
        sum(
            demand.bytes / parts
            for demand in demands
            for way in demand.ways
            if k in way
        )
        / rate
        for k, rate in enumerate(rates)
    )


def _shares(ways: int, parts: int) -> list[tuple[float, ...]]:
    """Return every way to share one demand out in equal parts."""
    counts = product(range(parts + 1), repeat=ways)
    return [tuple(n / parts for n in own) for own in counts if sum(own) == parts]


def test_the_checker_finds_what_is_wrong() -> None:
    problems = fleet((2, 2)), fleet((2, 1))
    plans = plan_of([3, 3], [T2, T2]), plan_of([3, 3], [T2, D1])
    before = nodes_of(problems[0])
    after = without(before, ["a/1:1"])
    found, findings = moved(problems, plans, ["a/1:1"], 1e9)
    assert findings == []
    names = tuple(
        [
            [[d.name for d in own] for own in stages]
            for stages in layout_of(problem, plan, nodes)
        ]
        for problem, plan, nodes in zip(problems, plans, (before, after), strict=True)
    )
    left = {node.device(k).name for node in after for k in range(len(node.devices))}

    def wrong(text: str) -> list[str]:
        return check_moves(problems[1], text, plans, (names[0], names[1]), left)

    head, first, *rest = found.to_csv().splitlines()
    tensor, _, end, sender, receiver, size = first.split(",")
    cases = {
        "gets it 0 times": rest,
        "gets it 2 times": [first, first, *rest],
        "is not a move": ["what", first, *rest],
        "does not have it": [first.replace(sender, "a-node-2:1"), *rest],
        "no tensor is named": [first.replace(tensor, "unit-9.dense.weights"), *rest],
        " bytes, expected ": [first.removesuffix(size) + "1", *rest],
        "has no positions": [first.replace(f",{end},", ",99999999,"), *rest],
        "does not need it": [first, first.replace(receiver, "a-node-1:0"), *rest],
    }
    unnamed = first.replace(tensor, tensor.removeprefix("unit-"))
    assert "no tensor is named" in wrong("\n".join([head, unnamed, *rest]))[0]
    for why, lines in cases.items():
        assert any(why in each for each in wrong("\n".join([head, *lines]))), why
    assert wrong("")[0].startswith("line 1")


def test_folded_pipelines_are_refused() -> None:
    plan = replace(plan_of([6], [D2]), schedule="zb-v")
    with pytest.raises(InputError, match="folded"):
        States.of(fleet((2, 2)), (plan,))
