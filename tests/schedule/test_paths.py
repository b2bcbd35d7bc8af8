"""No path is longer than the simulated time, under any schedule and on any links.

``pytest tests/schedule/test_paths.py -m slow -s`` prints bound over simulated time.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.closed_forms import KINDS, TAU, Kind, draw
from hetopt.problem.training.choices import FOLDED
from hetopt.schedule.paths import folded_trips, folded_weights, path_bound_ns
from hetopt.schedule.run import simulate
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.shares import SharedLinks, sharing_of
from hetopt.schedule.times import Chunks, PipelineTimes
from hetopt.schedule.warmup import warmup_counts

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from hetopt.problem.training.choices import ScheduleName

#: Longest boundary as a share of a stage's time.
SLOW = (0.0, 0.2, 0.5, 10.0)
#: Deviations of stages from their mean.
APART = (0.0, 0.04, 0.25, 0.9)


def pipeline(rng: Random, kind: Kind) -> PipelineTimes:
    """Draw a pipeline, with ends of the model, few micro-batches and any g."""
    times = draw(rng, kind, rng.choice(APART), rng.choice(SLOW))
    p, few = times.stages, times.microbatches
    if rng.random() < 0.3 and times.fold is None:
        few = p if times.chunks is not None else rng.randint(1, p)
    phi, beta = list(times.forward_ns), list(times.backward_ns)
    chunks = times.chunks
    if chunks is not None:
        ends = [[rng.randint(0, TAU) for _ in range(2)] for _ in range(2)]
        chunks = Chunks(
            count=chunks.count,
            way_back_ns=chunks.way_back_ns,
            way_back_occupancy_ns=chunks.way_back_occupancy_ns,
            lead_ns=(ends[0][0], ends[0][1]),
            trail_ns=(ends[1][0], ends[1][1]),
        )
        for stage, (forward, backward) in zip((0, -1), ends, strict=True):
            phi[stage] += forward // chunks.count
            beta[stage] += backward // chunks.count
    return replace(
        times,
        microbatches=few,
        forward_ns=tuple(phi),
        backward_ns=tuple(beta),
        chunks=chunks,
        sync_ns=tuple(round(rng.uniform(0, 1) * TAU) for _ in range(p)),
        warmups=warmup_counts(
            kind.schedule,
            microbatches=few,
            crosses=[rng.random() < 0.5 for _ in range(p - 1)],
            round_trip_ns=times.round_trip_ns,
            transfer_ns=times.transfer_ns,
            chunks=kind.chunks,
        ),
    )


def unshared(rng: Random, times: PipelineTimes) -> PipelineTimes:
    return times


def staged(rng: Random, times: PipelineTimes) -> PipelineTimes:
    """Transfers that follow each other sooner than they arrive, or later."""
    omegas = tuple(round(rng.uniform(0, 1.5) * k) for k in times.transfer_ns)
    chunks = times.chunks
    if chunks is not None:
        chunks = replace(chunks, way_back_occupancy_ns=chunks.way_back_ns // 2)
    return replace(times, occupancy_ns=omegas, chunks=chunks)


def free(rng: Random, times: PipelineTimes) -> PipelineTimes:
    none = (0,) * (times.stages - 1)
    chunks = times.chunks
    if chunks is not None:
        chunks = replace(chunks, way_back_ns=0, way_back_occupancy_ns=0)
    return replace(times, transfer_ns=none, occupancy_ns=none, chunks=chunks)


def shared(rng: Random, times: PipelineTimes) -> PipelineTimes:
    """Links and uplinks that boundaries take turns on."""
    p = times.stages
    clusters = [rng.randint(0, 2) for _ in range(p)]
    busy = [round(rng.uniform(0, 1) * TAU) for _ in range(12)]
    of_links = [[0, busy[3], busy[4]], [busy[3], 0, busy[5]], [busy[4], busy[5], 0]]
    links = SharedLinks(uplink_ns=_array(busy[:3]), link_ns=_array(of_links))
    omegas = times.occupancy_ns
    if times.chunks is not None:
        omegas = (*omegas, times.chunks.way_back_occupancy_ns)
    sharing = sharing_of(links, times.schedule, clusters, omegas)
    return replace(times, sharing=sharing)


def _array(rows: object) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64)


def mixed(rng: Random, times: PipelineTimes) -> PipelineTimes:
    """Sequences of up to three lengths, the longest first."""
    left, share = times.microbatches, 1.0
    parts: list[PipelineTimes] = []
    while left:
        count = left if len(parts) == 2 else rng.randint(1, left)
        left -= count
        parts.append(
            replace(
                times,
                microbatches=count,
                forward_ns=_times(share, times.forward_ns),
                backward_ns=_times(share, times.backward_ns),
                transfer_ns=_times(share, times.transfer_ns),
                occupancy_ns=_times(share, times.occupancy_ns),
            )
        )
        share *= rng.uniform(0.2, 1)
    return replace(times, mixed=tuple(parts))


def _times(share: float, each: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(share * one) for one in each)


LINKS: dict[str, Callable[[Random, PipelineTimes], PipelineTimes]] = {
    "unshared": unshared,
    "shared": shared,
    "staged": staged,
    "free": free,
    "lengths": mixed,
}


def ratios(kind: Kind, links: str, cases: int) -> list[float]:
    """Return bound over simulated time of drawn pipelines."""
    rng, found = Random(f"paths {kind.label} {links}"), []
    for _ in range(cases):
        times = LINKS[links](rng, pipeline(rng, kind))
        bound, simulated = path_bound_ns(times), simulate(times).makespan_ns
        assert bound <= simulated, times
        found.append(bound / simulated)
    return found


def named(links: str) -> list[Kind]:
    """Return the kinds of pipelines that may have such links."""
    rules = {kind: rule_of(kind.schedule) for kind in KINDS}
    if links == "lengths":
        return [kind for kind, rule in rules.items() if rule.mixes]
    if links == "shared":
        # Transfers that block share no links.
        return [kind for kind, rule in rules.items() if not rule.blocking]
    return list(KINDS)


CASES = [(kind, links) for links in LINKS for kind in named(links)]


@pytest.mark.parametrize(("kind", "links"), CASES, ids=str)
def test_no_path_is_longer_than_the_simulated_time(kind: Kind, links: str) -> None:
    ratios(kind, links, 12)


def test_an_uplink_between_two_clusters_is_busy_like_a_stage() -> None:
    each, few = 10, 8
    times = PipelineTimes(
        schedule="1f1b",
        microbatches=few,
        forward_ns=(1, 1, 1),
        backward_ns=(1, 1, 1),
        transfer_ns=(each, each),
        occupancy_ns=(each, each),
        sync_ns=(0, 0, 0),
        warmups=(3, 2, 1),
    )
    none = np.zeros((3, 3), dtype=np.int64)
    links = SharedLinks(uplink_ns=_array([0, each, 0]), link_ns=none)
    sharing = sharing_of(links, "1f1b", (0, 1, 2), times.occupancy_ns)
    fill = 6 + 4 * each
    assert path_bound_ns(times) < path_bound_ns(replace(times, sharing=sharing))
    assert path_bound_ns(replace(times, sharing=sharing)) == (
        fill + (few - 2 + few - 1) * each
    )


def folded_bounds(times: PipelineTimes) -> list[float]:
    """Return fill, excess and end of each folded stage, and those of trips."""
    whole = times.schedule, times.stages, times.microbatches
    kappa, w = sum(times.transfer_ns), times.later_ns
    there = sum(times.forward_ns) + kappa
    back = sum(times.backward_ns) - sum(w) + kappa
    end = times.weights_ns(0)[0] + times.sync_ns[0]
    found: list[float] = [a * there + b * back + end for a, b in folded_trips(*whole)]
    for i, weights in enumerate(folded_weights(*whole).T.tolist()):
        rows = *times.durations_ns(i), times.weights_ns(i)
        chunk = [(up + min(down, up)) / 2 for down, up in rows]
        excess = sum(n * each for n, each in zip(weights[:3], chunk, strict=True))
        found.append(there + back + excess + end)
    return found


def ensure_folded(schedule: ScheduleName, cases: int) -> None:
    rng = Random(f"folded {schedule}")
    for _ in range(cases):
        times = pipeline(rng, Kind(schedule=schedule))
        fold = times.fold
        assert fold is not None
        rows = (times.forward_ns, times.backward_ns, times.later_ns)
        # Chunks may differ; each chunk's w is at most half of its backward.
        names = ("forward_ns", "backward_ns", "weight_ns")
        shares = rng.uniform(0.1, 0.9), *[rng.uniform(0.1, 0.9)] * 2
        first = {
            name: tuple(int(share * each) for each in row)
            for name, share, row in zip(names, shares, rows, strict=True)
        }
        times = replace(times, fold=replace(fold, **first))
        bound, most = path_bound_ns(times), max(folded_bounds(times))
        assert most <= bound <= simulate(times).makespan_ns, times


@pytest.mark.parametrize("schedule", FOLDED)
def test_no_fill_excess_or_trip_is_longer(schedule: ScheduleName) -> None:
    ensure_folded(schedule, 40)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", FOLDED)
def test_no_fill_excess_or_trip_of_many_is_longer(schedule: ScheduleName) -> None:
    ensure_folded(schedule, 1000)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "links"), CASES, ids=str)
def test_paths_of_many_pipelines(kind: Kind, links: str) -> None:
    found = sorted(ratios(kind, links, 300))
    print(f"\n{kind.label}, {links}: least {found[0]:.3f}, ", end="")
    print(f"5% below {found[15]:.3f}, median {median(found):.3f}")
