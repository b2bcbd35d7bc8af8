"""Gradients of weights that run later: order, simulation, period and closed form."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from hetopt.check.plan.pricing import split_bytes
from hetopt.check.plan.schedule import run
from hetopt.schedule import simulator
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.events import BACKWARD, FORWARD, WEIGHT
from hetopt.schedule.period import period_by_recursion
from hetopt.schedule.shares import Share, Sharing
from hetopt.schedule.simulator import simulate
from hetopt.schedule.times import PipelineTimes
from hetopt.schedule.weights import held_and_waiting, split_order
from tests.oracle import weights as oracle
from tests.schedule.as_checked import closed_form_of, makespan_of
from tests.schedule.pipelines import Edge, Event, longest_paths


def split_pipeline(
    random: Random, *, stages: int | None = None, alike: bool = False
) -> PipelineTimes:
    """Draw a pipeline of backward passes in two; a third of times are nearly alike."""
    p = stages or random.randint(1, 6)
    q = random.randint(1, 12)
    spread = 0 if alike else random.choice((2, 20, 60))
    forward, before, later = (
        [random.randint(60 - spread, 60 + spread) for _ in range(p)] for _ in range(3)
    )
    backward = [max(b, w) + w for b, w in zip(before, later, strict=True)]
    slow = random.choice((0, 10, 80))
    transfer = [random.randint(0, slow) for _ in range(p - 1)]
    return PipelineTimes(
        schedule="zb-h1",
        microbatches=q,
        forward_ns=tuple(forward),
        backward_ns=tuple(backward),
        weight_ns=tuple(later),
        transfer_ns=tuple(transfer),
        occupancy_ns=tuple(random.randint(0, kappa) for kappa in transfer),
        sync_ns=tuple(random.randint(0, 50) for _ in range(p)),
        warmups=tuple(range(p, 0, -1)),
    )


def passes(p: int, q: int, stage: int) -> list[tuple[str, int]]:
    """What a stage runs, as PyTorch's loop over operations counts it."""
    ahead = min(p - 1 - stage, q)
    listed: list[tuple[str, int]] = [("F", m) for m in range(ahead)]
    weights = 0
    for inputs in range(q):
        if inputs + ahead < q:
            listed.append(("F", inputs + ahead))
        listed.append(("B", inputs))
        if inputs >= stage:
            listed.append(("W", weights))
            weights += 1
    return listed + [("W", m) for m in range(weights, q)]


def split_graph(times: PipelineTimes) -> list[Edge]:
    """Every wait of the schedule as an edge between starts of events."""
    p, q, later = times.stages, times.microbatches, times.later_ns
    edges: list[Edge] = []

    def lasts(kind: str, stage: int) -> int:
        backward = times.backward_ns[stage] - later[stage]
        return {"F": times.forward_ns[stage], "B": backward, "W": later[stage]}[kind]

    for stage in range(p):
        order = passes(p, q, stage)
        for (kind, m), (after, n) in pairwise(order):
            event: Event = (after, stage, n)
            edges.append((event, (kind, stage, m), lasts(kind, stage)))
        final, m = order[-1]
        end = lasts(final, stage) + times.sync_ns[stage]
        edges.append((("end", 0, 0), (final, stage, m), end))
        for m in range(q):
            for kind, sent, boundary, to in (
                ("F", "S", stage, stage + 1),
                ("B", "G", stage - 1, stage - 1),
            ):
                if not 0 <= to < p:
                    continue
                edges.append(((sent, stage, m), (kind, stage, m), lasts(kind, stage)))
                kappa = times.transfer_ns[boundary]
                edges.append(((kind, to, m), (sent, stage, m), kappa))
                if m:
                    omega = times.occupancy_ns[boundary]
                    edges.append(((sent, stage, m), (sent, stage, m - 1), omega))
    return edges


def agrees(times: PipelineTimes) -> None:
    """Fail unless the simulation starts every event when the graph says so."""
    starts = longest_paths(split_graph(times))
    run = simulate(times)
    assert run.makespan_ns == starts["end", 0, 0]
    assert run.weight_start_ns is not None
    for stage in range(times.stages):
        for m in range(times.microbatches):
            assert run.forward_start_ns[stage, m] == starts["F", stage, m]
            assert run.backward_start_ns[stage, m] == starts["B", stage, m]
            assert run.weight_start_ns[stage, m] == starts["W", stage, m]


@pytest.mark.parametrize("seed", range(60))
def test_simulation_is_the_longest_path(seed: int) -> None:
    agrees(split_pipeline(Random(seed)))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 2000, 100))
def test_simulation_is_the_longest_path_of_many(first: int) -> None:
    for seed in range(1000 + first, 1100 + first):
        agrees(split_pipeline(Random(seed)))


@pytest.mark.parametrize("seed", range(60))
def test_critical_path_has_no_gap(seed: int) -> None:
    run = simulate(split_pipeline(Random(seed)))
    path = run.critical_path()
    assert path[0].start_ns == 0
    assert all(a.end_ns == b.start_ns for a, b in pairwise(path))
    assert path[-1].kind == "sync"
    assert path[-1].end_ns == run.makespan_ns


@pytest.mark.parametrize("p", range(1, 6))
@pytest.mark.parametrize("q", [1, 3, 5, 8])
def test_every_stage_holds_as_many_as_there_are(p: int, q: int) -> None:
    for stage in range(p):
        warmup = p - stage
        held, waiting = held_and_waiting(warmup, p, q)
        assert held + waiting == min(p, q)
        before = behind = most = 0
        kept, waits = Random(stage).choice(((5, 3), (3, 5), (4, 4)))
        for kind, _ in split_order(min(warmup, q), stage, q):
            if kind == FORWARD:
                before += 1
            elif kind == BACKWARD:
                # What waits is made while the activation is still there.
                before, behind = before - 1, behind + 1
            else:
                assert kind == WEIGHT
                behind -= 1
            assert before <= held
            assert before + behind <= min(p, q)
            most = max(most, before * kept + behind * waits)
        assert most <= split_bytes(kept, waits, warmup, p, q)
        assert before == behind == 0


@pytest.mark.parametrize("seed", range(80))
def test_closed_form_and_simulation_are_those_of_the_checker(seed: int) -> None:
    times = split_pipeline(Random(seed))
    assert closed_form_of(times) == closed_form_ns(times)
    plain = simulate(times)
    assert makespan_of(times) == plain.makespan_ns
    with pytest.MonkeyPatch.context() as patch:
        for module in (run, simulator):
            patch.setattr(module, "PAYS_FROM", 0)
        assert makespan_of(times) == plain.makespan_ns
        events = list(simulate(times).critical_path())
        assert events == list(plain.critical_path())
    _, exact = oracle.closed_form(
        times.microbatches,
        times.forward_ns,
        times.backward_ns,
        times.later_ns,
        times.transfer_ns,
        times.occupancy_ns,
        times.sync_ns,
    )
    assert exact == closed_form_ns(times)


@pytest.mark.parametrize("seed", range(20))
def test_exact_where_stages_are_alike_and_transfers_free(seed: int) -> None:
    random = Random(seed)
    p = random.randint(1, 6)
    forward, before = random.randint(1, 90), random.randint(30, 90)
    later = random.randint(0, before)
    times = PipelineTimes(
        schedule="zb-h1",
        microbatches=random.randint(p, 3 * p),
        forward_ns=(forward,) * p,
        backward_ns=(before + later,) * p,
        weight_ns=(later,) * p,
        transfer_ns=(0,) * (p - 1),
        occupancy_ns=(0,) * (p - 1),
        sync_ns=(0,) * p,
        warmups=tuple(range(p, 0, -1)),
    )
    bubble = (p - 1) * (forward + before - later)
    busy = times.microbatches * (forward + before + later)
    # Where w is longer than a forward pass, what is longer is paid at every boundary.
    longer = (p - 1) * max(later - forward, 0)
    assert closed_form_ns(times) == busy + bubble
    assert simulate(times).makespan_ns == busy + bubble + longer


def test_period_is_the_pace_of_many_microbatches() -> None:
    for seed in range(40):
        random = Random(seed)
        times = split_pipeline(random, stages=random.randint(2, 4))
        period = period_by_recursion(times)

        def pace(times: PipelineTimes = times) -> Fraction:
            runs = []
            for q in (120, 240):
                many = {n: getattr(times, n) for n in times.__dataclass_fields__}
                run = simulate(PipelineTimes(**{**many, "microbatches": q}))
                runs.append(run.makespan_ns)
            return Fraction(runs[1] - runs[0], 120)

        # Within 0.6% (MODEL.md section 4).
        assert abs(pace() / period - 1) < 0.006


def test_shared_links_take_turns() -> None:
    alone = split_pipeline(Random(3), stages=4)
    omega = (70,) * 3
    many = {name: getattr(alone, name) for name in alone.__dataclass_fields__}
    many |= {"transfer_ns": (80,) * 3, "occupancy_ns": omega}
    share = Share(service_ns=70, boundaries=(0, 2), outward=(True, True))
    shared = Sharing(all_first=False, occupancy_ns=omega, shares=(share,))
    apart = simulate(PipelineTimes(**many)).makespan_ns
    together = simulate(PipelineTimes(**{**many, "sharing": shared})).makespan_ns
    assert together > apart


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weight_ns": None}, "zb-h1 with gradients of weights not apart"),
        ({"schedule": "1f1b"}, "1f1b with gradients of weights apart"),
        ({"weight_ns": (1,)}, "weight_ns has 1 entries, expected 2"),
        ({"weight_ns": (1, 6)}, "weight_ns holds 6, expected at most half of 10"),
        ({"weight_ns": (1, -1)}, "weight_ns holds -1"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {
        "schedule": "zb-h1",
        "microbatches": 4,
        "forward_ns": (5, 5),
        "backward_ns": (10, 10),
        "weight_ns": (5, 5),
        "transfer_ns": (1,),
        "occupancy_ns": (1,),
        "sync_ns": (0, 0),
        "warmups": (2, 1),
    }
    with pytest.raises(ValueError, match=message):
        PipelineTimes(**{**given, **changed})
