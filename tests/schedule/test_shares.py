from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest

from hetopt.check.plan.schedule.meeting import Alone, ways_of
from hetopt.check.plan.schedule.times import Times, last_ends
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.shares import Share, SharedLinks, Sharing, sharing_of
from hetopt.schedule.simulator import simulate
from hetopt.schedule.times import PipelineTimes
from tests.schedule.as_checked import makespan_of
from tests.schedule.pipelines import pipeline

if TYPE_CHECKING:
    from hetopt.cost.table.slice import TableSlice


def shared(uplinks: list[int], link: int = 0) -> SharedLinks:
    size = len(uplinks)
    links = np.full((size, size), link, dtype=np.int64)
    return SharedLinks(uplink_ns=np.array(uplinks, dtype=np.int64), link_ns=links)


def test_only_a_cluster_between_two_shares_its_uplink() -> None:
    found = sharing_of(shared([5, 7, 9]), "1f1b", [0, 0, 1, 1, 2], (1, 7, 1, 9))
    assert found is not None
    assert found.shares == (
        Share(service_ns=7, boundaries=(1, 3), outward=(False, True)),
    )
    assert found.contended() == (1, 14, 1, 14)


@pytest.mark.parametrize("clusters", [[0, 0], [0, 1], [1, 1, 0]])
def test_one_boundary_shares_nothing(clusters: list[int]) -> None:
    occupancy = (1,) * (len(clusters) - 1)
    assert sharing_of(shared([5, 7], 3), "1f1b", clusters, occupancy) is None
    assert sharing_of(None, "1f1b", [0, 1, 0], (1, 1)) is None


def test_a_link_is_shared_by_visits_and_in_phases_by_those_of_one_direction() -> None:
    there_and_back = [0, 1, 0, 1]
    steady = sharing_of(shared([0, 0], 4), "1f1b", there_and_back, (4, 4, 4))
    phases = sharing_of(shared([0, 0], 4), "gpipe", there_and_back, (4, 4, 4))
    assert steady is not None
    assert phases is not None
    assert steady.contended() == (12, 12, 12)
    assert phases.contended() == (8, 8, 8)


def test_transfers_take_turns() -> None:
    times = pipeline([9, 4, 9], [9, 6, 9], [10, 10], microbatches=6, warmups=[5, 3, 1])
    share = Share(service_ns=10, boundaries=(0, 1), outward=(False, True))
    sharing = Sharing(all_first=False, occupancy_ns=(10, 10), shares=(share,))
    alone, together = simulate(times), simulate(replace(times, sharing=sharing))
    # The stage in the middle sends activations on and gradients back.
    gaps = [
        later - earlier
        for starts in (alone.starts_ns, together.starts_ns)
        for earlier, later in pairwise(sorted([*starts[2, 1], *starts[3, 1]]))
    ]
    assert min(gaps[:11]) < 10 <= min(gaps[11:])
    assert alone.makespan_ns < together.makespan_ns


def drawn(rng: Random) -> tuple[PipelineTimes, Times, list[int]]:
    """Draw a pipeline that shares something, as simulator and checker have it."""
    while True:
        order = [0] if rng.random() < 0.5 else [0, 0]
        for _ in range(rng.randint(1, 3)):
            order += [rng.choice([j for j in range(3) if j != order[-1]])]
            order += [order[-1]] * rng.randint(0, 1)
        p, q = len(order), rng.choice((1, 2, 5, 12))
        links = shared([rng.randint(0, 9) for _ in range(3)], rng.randint(0, 9))
        transfer = tuple(rng.randint(9, 20) for _ in range(p - 1))
        occupancy = tuple(rng.randint(9, most) for most in transfer)
        sharing = sharing_of(links, "1f1b", order, occupancy)
        if sharing is not None:
            break
    forward = tuple(rng.randint(1, 20) for _ in order)
    backward = tuple(rng.randint(1, 40) for _ in order)
    warmups = [rng.randint(1, 2)]
    for _ in order[1:]:
        warmups.append(warmups[-1] + rng.randint(0, 2))
    times = PipelineTimes(
        schedule="1f1b",
        microbatches=q,
        forward_ns=forward,
        backward_ns=backward,
        transfer_ns=transfer,
        occupancy_ns=sharing.contended(),
        sync_ns=tuple(rng.randint(0, 5) for _ in order),
        warmups=tuple(warmups[::-1]),
        sharing=sharing,
    )
    part = cast("TableSlice", SimpleNamespace(shared=links))
    alone = Alone(in_phases=False, occupancy=occupancy, ways=ways_of(part, order))
    other = Times(
        schedule="1f1b",
        microbatches=q,
        forward=(forward,),
        backward=(backward,),
        transfer=transfer,
        occupancy=alone.together(),
        sync=times.sync_ns,
        alone=alone,
    )
    return times, other, order


@pytest.mark.parametrize("seed", range(200))
def test_simulator_and_checker_agree(seed: int) -> None:
    times, other, _ = drawn(Random(seed))
    simulation = simulate(times)
    assert other.occupancy == times.occupancy_ns
    ended = last_ends([other], times.warmups)
    together = [end + g for end, g in zip(ended, times.sync_ns, strict=True)]
    assert max(together) == makespan_of(times) == simulation.makespan_ns
    # Waiting for others never helps.
    bare = replace(times, sharing=None, occupancy_ns=other.alone.occupancy)  # type: ignore[union-attr]
    assert simulate(bare).makespan_ns <= simulation.makespan_ns
    assert closed_form_ns(bare) <= closed_form_ns(times)
    path = simulation.critical_path()
    assert path[0].start_ns == 0
    assert path[-1].end_ns == simulation.makespan_ns
    assert all(a.end_ns == b.start_ns for a, b in pairwise(path))
