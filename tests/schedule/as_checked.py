"""What the checker makes of a pipeline."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from hetopt.check.plan.schedule.closed_form import closed_form
from hetopt.check.plan.schedule.meeting import Alone, Way
from hetopt.check.plan.schedule.times import Times, alike, last_ends

if TYPE_CHECKING:
    from hetopt.check.plan.schedule.times import ByChunk
    from hetopt.schedule.shares import Sharing
    from hetopt.schedule.times import PipelineTimes


def makespan_of(times: PipelineTimes) -> int:
    """Return the checker's simulated time."""
    ended = last_ends(as_checked(times), times.warmups)
    return max(end + g for end, g in zip(ended, times.sync_ns, strict=True))


def closed_form_of(times: PipelineTimes) -> Fraction:
    return closed_form(as_checked(times), times.warmups)


def as_checked(times: PipelineTimes) -> list[Times]:
    """Return the times of each length."""
    return [_checked(each) for each in times.lengths]


def _checked(times: PipelineTimes) -> Times:
    stages = range(times.stages)
    later = [times.weights_ns(i) for i in stages]
    forward = [times.durations_ns(i)[0] for i in stages]
    backward = [
        [spent + w for spent, w in zip(times.durations_ns(i)[1], later[i], strict=True)]
        if times.weight_ns
        else times.durations_ns(i)[1]
        for i in stages
    ]
    transfer, occupancy = times.transfer_ns, times.occupancy_ns
    if times.chunks is not None:
        transfer = (*transfer, times.chunks.way_back_ns)
        occupancy = (*occupancy, times.chunks.way_back_occupancy_ns)
    crossing: tuple[ByChunk, ByChunk] = (), ()
    if times.chunks is not None:
        v = times.chunks.count
        kappa, omega = alike(transfer, v), alike(occupancy, v)
        if (own := times.chunks.uneven) is not None:
            kappa, omega = (
                tuple(zip(*each, strict=True))
                for each in (own.transfer_ns, own.occupancy_ns)
            )
        crossing = kappa, omega
    return Times(
        crossing=crossing,
        schedule=times.schedule,
        microbatches=times.microbatches,
        forward=tuple(zip(*forward, strict=True)),
        backward=tuple(zip(*backward, strict=True)),
        weight=tuple(zip(*later, strict=True)) if times.weight_ns else (),
        transfer=transfer,
        occupancy=occupancy,
        sync=times.sync_ns,
        alone=None if times.sharing is None else _alone(times.sharing),
        handed=None if times.fold is None else times.fold.handed_on_ns,
        filled=None if times.fold is None else times.fold.fill_ns,
    )


def _alone(sharing: Sharing) -> Alone:
    ways: list[list[Way]] = [[] for _ in sharing.occupancy_ns]
    for number, share in enumerate(sharing.shares):
        for boundary, outward in zip(share.boundaries, share.outward, strict=True):
            side = 1 if outward else -1
            ways[boundary].append(Way(frozenset({number}), side, share.service_ns))
    return Alone(
        in_phases=sharing.all_first,
        occupancy=sharing.occupancy_ns,
        ways=tuple(map(tuple, ways)),
    )
