"""A plan beside each cluster alone: every number is that of a problem solved apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import hetopt
from hetopt.cost.build import build_table
from hetopt.planning.asked import Search
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.pins import ANY
from hetopt.whatif import mixing as tested
from hetopt.whatif.mixing import (
    ALONE_LIMIT_S,
    Mixing,
    alone_problem,
    hetero_speedup_ratio,
    mixing,
)
from hetopt.whatif.solving import Answer

if TYPE_CHECKING:
    from typing import Literal

FAST = """\
  - {name: fast, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
"""
SLOW = """\
  - {name: slow, accelerator: A40, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
"""
HEAD = """\
model: {layers: 6, hidden: 2048, heads: 16, ffn: 8192, vocab: 32000}
clusters:
"""
LINKS = "links: {default: {bandwidth: 200 Gbps, latency: 5 us}}\n"
TRAINING = "training: {global_batch: 16, seq_len: 2048}\n"
TOKENS = 16 * 2048
BOTH = HEAD + FAST + SLOW + LINKS + TRAINING
ASKED = Search(problem=read_problem_text(BOTH), time="closed", jobs=1)


def seconds(text: str, objective: Literal["closed", "simulated"]) -> float:
    best = hetopt.plan(read_problem_text(text), objective=objective, jobs=1).best
    assert best is not None
    return best.time_s(objective)


def mixed(
    problem: Problem, asked: Search = ASKED, said: list[str] | None = None
) -> Mixing:
    """Return the best plan of a problem beside each of its clusters."""
    table = build_table(problem)
    objective = asked.time or "closed"
    best = hetopt.plan(problem, table=table, objective=objective, jobs=1).best
    assert best is not None
    told = [] if said is None else said
    price = hetopt.price(best.plan, table)
    found = mixing(problem, best.plan, price, asked, told.append)
    assert found is not None
    return found


@pytest.mark.parametrize("objective", ["closed", "simulated"])
def test_all_numbers_are_those_of_problems_solved_apart(
    objective: Literal["closed", "simulated"],
) -> None:
    """HeteroSpeedupRatio is N TGS over the sum of N_i TGS_i (H2, section 6.2)."""
    said: list[str] = []
    asked = replace(ASKED, time=objective)
    found = mixed(read_problem_text(BOTH), asked, said)
    fast_s, slow_s = (seconds(HEAD + own + TRAINING, objective) for own in (FAST, SLOW))
    mix_s = seconds(BOTH, objective)
    assert found.objective == objective
    assert found.time_s == pytest.approx(mix_s)
    assert [each.cluster for each in found.alone] == ["fast", "slow"]
    assert [each.time_s for each in found.alone] == pytest.approx([fast_s, slow_s])
    assert [each.status for each in found.alone] == ["optimal", "optimal"]
    # Tokens per second and device, as in the paper: 4 devices, 2 and 2.
    tgs, *own = (
        TOKENS / time_s / devices
        for time_s, devices in ((mix_s, 4), (fast_s, 2), (slow_s, 2))
    )
    ratio = 4 * tgs / (2 * own[0] + 2 * own[1])
    assert found.hetero_speedup_ratio == pytest.approx(ratio)
    assert 0.5 < ratio < 1
    assert found.over_fastest == pytest.approx(fast_s / mix_s)
    assert found.tokens_per_s == pytest.approx(TOKENS / mix_s)
    assert said == ["1 of 2 searched", "2 of 2 searched"]
    assert found.devices == sum(each.devices for each in found.alone)


def test_the_ratio_of_the_paper() -> None:
    """H2's Exp-A-2 (section 6.2.1) has 109.03% of Table 6's chips A, B and C."""
    apart = [256 * 136.9, 256 * 143.7, 256 * 46.2]
    assert hetero_speedup_ratio(768 * 118.77, apart) == pytest.approx(1.0903, abs=1e-4)


def test_one_cluster_says_nothing() -> None:
    one = read_problem_text(HEAD + FAST + TRAINING)
    out = read_problem_text(BOTH + "pin: {clusters: {slow: {stages: 0}}}\n")
    ordered = read_problem_text(BOTH + "pin: {order: [fast]}\n")
    empty = read_problem_text(BOTH + "pin: {clusters: {slow: {units: 0}}}\n")
    barred = "pin: {forbid: {clusters: {slow: {stages: [1, 2]}}}}\n"
    for problem in (one, out, ordered, empty, read_problem_text(BOTH + barred)):
        table = build_table(problem)
        best = hetopt.plan(problem, table=table, objective="closed", jobs=1).best
        assert best is not None
        price = hetopt.price(best.plan, table)
        assert mixing(problem, best.plan, price, ASKED, print) is None


def test_a_cluster_that_does_not_fit_adds_nothing() -> None:
    small = SLOW.replace("A40,", "A40, memory: 2.5 GB,")
    found = mixed(read_problem_text(HEAD + FAST + small + LINKS + TRAINING))
    fast, slow = found.alone
    assert (slow.status, slow.time_s, slow.tokens_per_s) == ("infeasible", None, 0)
    assert str(slow.reason).startswith("memory")
    assert fast.tokens_per_s is not None
    ratio = found.tokens_per_s / fast.tokens_per_s
    assert found.hetero_speedup_ratio == pytest.approx(ratio)
    assert found.over_fastest == pytest.approx(ratio)


def test_pins_of_the_mix_are_lifted_and_those_of_strategies_stay() -> None:
    pins = "pin: {stages: 2, order: [slow, fast], units: [3, 5], microbatches: 8, "
    pins += "clusters: {fast: {stages: 1, dp: 2}, slow: {cp: 1}}}\n"
    problem = read_problem_text(BOTH + pins)
    alone = alone_problem(problem, problem.clusters[0])
    assert [cluster.name for cluster in alone.clusters] == ["fast"]
    assert (alone.pins.stages, alone.pins.order, alone.pins.units) == (ANY, None, None)
    assert alone.pins.microbatches == problem.pins.microbatches
    assert alone.pins.of("fast").stages == ANY
    assert alone.pins.of("fast").dp == problem.pins.of("fast").dp


def test_the_devices_are_those_of_the_plan() -> None:
    """The slow link leaves one cluster unused."""
    links = "links: {default: {bandwidth: 1 Mbps, latency: 10 ms}}\n"
    found = mixed(read_problem_text(HEAD + FAST + SLOW + links + TRAINING))
    assert found.devices == 2
    assert found.over_fastest == pytest.approx(1)


class Searches:
    """Stands for the searches: the first cluster is not proven, the second unknown."""

    asked: Search

    def __init__(self, variants: object, asked: Search, told: object) -> None:
        Searches.asked = asked

    def answers(self) -> list[Answer]:
        text = HEAD + FAST + TRAINING
        result = hetopt.plan(read_problem_text(text), objective="closed", jobs=1)
        open_ = replace(result, status="feasible", gap=0.25)
        return [Answer(result=open_), Answer(result=None, failure="not searched")]


@pytest.mark.parametrize("limit_s", [None, 7.0])
def test_searches_are_bounded_and_unknown_ones_leave_no_ratio(
    limit_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tested, "Solving", Searches)
    found = mixed(read_problem_text(BOTH), replace(ASKED, time_limit_s=limit_s))
    assert Searches.asked.time_limit_s == (limit_s or ALONE_LIMIT_S)
    fast, slow = found.alone
    assert (fast.status, fast.gap) == ("feasible", 0.25)
    assert (slow.status, slow.tokens_per_s, slow.reason) == (
        "failed",
        None,
        "not searched",
    )
    assert found.over_fastest is not None
    assert found.hetero_speedup_ratio is None
