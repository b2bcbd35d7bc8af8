"""Why a measured iteration time differs from the simulated one.

The simulator runs again with measured instead of predicted durations: first those of
the stages' passes, then also of their synchronisation, then also of transfers. The
change at each step is attributed to it. The rest is what no mean duration explains:
gaps between events that the simulation does not have, and passes or transfers of one
kind that differed in length.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetopt.cost.table.ticks import TICK_S
from hetopt.schedule.orders import FOLDED_CHUNKS
from hetopt.schedule.run import simulate
from hetopt.schedule.times import Chunks, Fold, PipelineTimes, Uneven

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.training.choices import ScheduleName
    from hetopt.running.measured import Measured, MeasuredChunks


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """Iteration times in seconds.

    Attributes
    ----------
    predicted_s
        Simulated with predicted durations only.
    passes_s, sync_s, replayed_s
        Simulated with measured passes; with measured synchronisation, too; with
        measured transfers, too, so that no duration is predicted.
    measured_s
        Median of the measured iterations.
    """

    predicted_s: float
    passes_s: float
    sync_s: float
    replayed_s: float
    measured_s: float

    @property
    def parts_s(self) -> tuple[tuple[str, float], ...]:
        """The parts of the difference between measured and predicted time."""
        return (
            ("passes of stages", self.passes_s - self.predicted_s),
            ("gradients and optimizer", self.sync_s - self.passes_s),
            ("boundaries", self.replayed_s - self.sync_s),
            ("none of these", self.measured_s - self.replayed_s),
        )


def explain_run(times: PipelineTimes, measured: Measured) -> Explained:
    """Return the parts of the difference between measured and simulated time."""
    stages = measured.stages
    chunks = _chunks(measured, times.chunks)
    passes = replace(
        times,
        forward_ns=_ticks([stage.forward_s for stage in stages]),
        backward_ns=_ticks([stage.backward_s for stage in stages]),
        weight_ns=_weights(measured),
        fold=_fold(measured),
        chunks=_passes_of(chunks, times.chunks),
    )
    sync = replace(passes, sync_ns=_ticks([stage.sync_s for stage in stages]))
    transfer = _boundaries(measured)
    occupied = _occupied(transfer, times.transfer_ns, times.occupancy_ns)
    every = replace(sync, transfer_ns=transfer, occupancy_ns=occupied, chunks=chunks)
    simulated = [simulate(each).makespan_ns for each in (times, passes, sync, every)]
    predicted_s, passes_s, sync_s, replayed_s = (each * TICK_S for each in simulated)
    return Explained(
        predicted_s=predicted_s,
        passes_s=passes_s,
        sync_s=sync_s,
        replayed_s=replayed_s,
        measured_s=measured.time_s,
    )


def replayed_s(
    measured: Measured,
    warmups: Sequence[int],
    microbatches: int,
    schedule: ScheduleName,
) -> float:
    """Return the simulated time of an iteration with measured durations only."""
    transfer, fold, weight_ns = (
        _boundaries(measured),
        _fold(measured),
        _weights(measured),
    )
    times = PipelineTimes(
        schedule=schedule,
        microbatches=microbatches,
        forward_ns=_ticks([stage.forward_s for stage in measured.stages]),
        backward_ns=_ticks([stage.backward_s for stage in measured.stages]),
        sync_ns=_ticks([stage.sync_s for stage in measured.stages]),
        transfer_ns=transfer,
        occupancy_ns=transfer,
        warmups=tuple(warmups),
        chunks=_chunks(measured, None),
        weight_ns=weight_ns,
        fold=fold,
    )
    return simulate(times).makespan_ns * TICK_S


def _chunks(measured: Measured, planned: Chunks | None) -> Chunks | None:
    """Return the measured times of chunks; None if stages hold one.

    Parameters
    ----------
    planned
        Its ratio of occupancy to transfer time is used for the way back; None for 1.
    """
    own = measured.chunks
    if own is None:
        return None
    (way_back,) = _ticks([own.way_back_s])
    occupied = way_back
    if planned is not None and planned.way_back_ns:
        occupied = way_back * planned.way_back_occupancy_ns // planned.way_back_ns

    def ends(more_s: tuple[float, float], stage: int) -> tuple[int, int]:
        # Limited, since with means the remaining time of a pass could be negative.
        of = measured.stages[stage]
        means = _ticks([of.forward_s, of.backward_s])
        forward, backward = (
            min(more, own.count * mean)
            for more, mean in zip(_ticks(more_s), means, strict=True)
        )
        return forward, backward

    return Chunks(
        count=own.count,
        way_back_ns=way_back,
        way_back_occupancy_ns=occupied,
        lead_ns=ends(own.lead_s, 0),
        trail_ns=ends(own.trail_s, -1),
        uneven=_uneven(measured, own, None if planned is None else planned.uneven),
    )


def _uneven(
    measured: Measured, own: MeasuredChunks, planned: Uneven | None
) -> Uneven | None:
    """Return the measured times of chunks that differ, with mean transfers."""
    pairs = [stage.by_chunk_s for stage in measured.stages]
    if not pairs[0]:
        return None
    forward, backward = (
        tuple(_ticks([times_s[kind] for times_s in stage]) for stage in pairs)
        for kind in range(2)
    )
    means = _ticks([*measured.boundaries_s, own.way_back_s])
    transfer = tuple((each,) * own.count for each in means)
    planned_ns = (transfer,) * 2
    if planned is not None:
        planned_ns = planned.transfer_ns, planned.occupancy_ns
    return Uneven(
        forward_ns=forward,
        backward_ns=backward,
        transfer_ns=transfer,
        occupancy_ns=tuple(map(_occupied, transfer, *planned_ns)),
    )


def _passes_of(own: Chunks | None, planned: Chunks | None) -> Chunks | None:
    """Return chunks whose passes are measured, and whose transfers are predicted."""
    if own is None or planned is None:
        return None
    uneven = planned.uneven
    if own.uneven is not None and uneven is not None:
        forward, backward = own.uneven.forward_ns, own.uneven.backward_ns
        uneven = replace(uneven, forward_ns=forward, backward_ns=backward)
    return replace(planned, lead_ns=own.lead_ns, trail_ns=own.trail_ns, uneven=uneven)


def _occupied(
    transfer: tuple[int, ...], planned: tuple[int, ...], occupancy: tuple[int, ...]
) -> tuple[int, ...]:
    """Return how long transfers occupy boundaries: the share of time as predicted."""
    parts = zip(transfer, planned, occupancy, strict=True)
    return tuple(own * busy // whole if whole else own for own, whole, busy in parts)


def _boundaries(measured: Measured) -> tuple[int, ...]:
    """Return kappa of every boundary, summed over both chunks if stages are folded."""
    count = 1 if measured.stages[0].first_chunk_s is None else FOLDED_CHUNKS
    return _ticks([count * each for each in measured.boundaries_s])


def _weights(measured: Measured) -> tuple[int, ...] | None:
    """Return the times of W passes, at most half of a backward pass, as modelled."""
    found = []
    for stage in measured.stages:
        if stage.weight_s is None:
            return None
        weight, backward = _ticks([stage.weight_s, stage.backward_s])
        found.append(min(weight, backward // 2))
    return tuple(found)


def _fold(measured: Measured) -> Fold | None:
    """Return the measured times of folded stages; None if they are not folded."""
    rows = []
    for stage, kept in zip(measured.stages, _weights(measured) or (), strict=False):
        if stage.first_chunk_s is None:
            return None
        forward, backward, weight = _ticks(stage.first_chunk_s)
        (both,) = _ticks([stage.weight_s or 0.0])
        rows.append((forward, backward, weight * kept // both if both else 0))
    if not rows:
        return None
    first_ns, backward_ns, weight_ns = zip(*rows, strict=True)
    # The simulation needs no closed form.
    nothing = (0,) * len(rows)
    return Fold(
        forward_ns=first_ns,
        backward_ns=backward_ns,
        weight_ns=weight_ns,
        handed_on_ns=nothing,
        fill_ns=nothing,
    )


def _ticks(seconds: Sequence[float]) -> tuple[int, ...]:
    return tuple(round(each / TICK_S) for each in seconds)
