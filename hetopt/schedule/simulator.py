"""Event-by-event simulation of a pipeline under any warm-up counts.

Rules (MODEL.md section 4, HAPT section 4.2.1). Stage i runs forwards F_1..F_W,
then B_1, F_(W+1), B_2, ..., with W = min(W_i, q); gpipe is W = q. A forward's
output is sent when the forward ends, if the link is free: transfers in one direction
start at least omega apart, and each arrives kappa after its start. The two directions
do not affect each other. Transfers of boundaries that share a link or an uplink take
turns; stages may hold several chunks, or compute gradients of weights later
(``hetopt.schedule.shared_run``). If transfers block, both stages wait for them
(``hetopt.schedule.blocking_run``). Every event starts as early as these rules allow, so
the makespan is the longest path in the event graph; the simulator returns one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.compiled import FITS, PAYS_FROM, as_written
from hetopt.schedule.blocking_run import run_blocking
from hetopt.schedule.chunks import backward_number
from hetopt.schedule.critical_path import KINDS, CriticalPath
from hetopt.schedule.events import (
    BACKWARD,
    FORWARD,
    SEND_BACKWARD,
    SEND_FORWARD,
    WEIGHT,
    run,
    walk_back,
)
from hetopt.schedule.period import check_warmups_fall
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.shared_run import run_sharing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.schedule.blocking_run import BlockingRun
    from hetopt.schedule.shared_run import SharedRun
    from hetopt.schedule.times import PipelineTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class StageActivity:
    """What one stage does during the iteration.

    Attributes
    ----------
    busy_ns
        Time in which it computes all micro-batches, plus its g.
    idle_share
        1 - busy_ns / makespan, from 0 to 1; 0 if the makespan is 0.
    """

    busy_ns: int
    idle_share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """Outcome of one simulated iteration of p stages and q micro-batches.

    Attributes
    ----------
    makespan_ns
        Largest end of a stage's last pass plus its g.
    stages
        One entry per stage.
    starts_ns
        By kind (forward, backward, send-forward, send-backward), stage and micro-batch
        (or pass); a transfer belongs to the sending stage. Shape (4, p, passes).
    weight_start_ns
        Start of each weight gradient that is computed later, by stage and micro-batch
        (or pass); shape (p, passes). None if it is part of the backward pass.
    """

    times: PipelineTimes
    makespan_ns: int
    stages: tuple[StageActivity, ...]
    starts_ns: NDArray[np.int64]
    weight_start_ns: NDArray[np.int64] | None = None

    @property
    def forward_start_ns(self) -> NDArray[np.int64]:
        """Start of each forward; shape (p, passes)."""
        return self._starts_ns(FORWARD)

    @property
    def forward_end_ns(self) -> NDArray[np.int64]:
        """End of each forward; shape (p, passes)."""
        return self._ends_ns(FORWARD)

    @property
    def backward_start_ns(self) -> NDArray[np.int64]:
        """Start of each backward; shape (p, passes)."""
        return self._starts_ns(BACKWARD)

    @property
    def backward_end_ns(self) -> NDArray[np.int64]:
        """End of each backward, without later weight gradients; shape (p, passes)."""
        return self._ends_ns(BACKWARD)

    @property
    def send_forward_start_ns(self) -> NDArray[np.int64]:
        """Shape (p, passes); if a pass sends nothing, its end."""
        return self._starts_ns(SEND_FORWARD)

    @property
    def send_backward_start_ns(self) -> NDArray[np.int64]:
        """Shape (p, passes); if a pass sends nothing, its end."""
        return self._starts_ns(SEND_BACKWARD)

    @property
    def last_end_ns(self) -> tuple[int, ...]:
        """End of each stage's last pass; length p."""
        return tuple(_last_ends_ns(self.times, self.starts_ns, self.weight_start_ns))

    def _starts_ns(self, kind: int) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = self.starts_ns[kind]
        return rows

    def _ends_ns(self, kind: int) -> NDArray[np.int64]:
        rows: NDArray[np.int64] = self.starts_ns[kind] + _durations_ns(self.times, kind)
        return rows

    def critical_path(self) -> CriticalPath:
        """Return a longest chain of events, from time 0 to the makespan."""
        times = self.times
        final = _last_backward(times)
        kind = BACKWARD if self.weight_start_ns is None else WEIGHT
        ends = _last_ends_ns(times, self.starts_ns, self.weight_start_ns)
        stage = int(np.argmax(np.array(ends) + np.array(times.sync_ns)))
        last = (KINDS.index("sync"), stage, final, ends[stage], self.makespan_ns)
        if (other := _run_apart(times)) is not None:
            rows = other.path(kind, stage, final)
            return CriticalPath(np.array([*rows, last]))
        path = np.empty((self._walk_back(stage, np.empty((0, 5), int)), 5), int)
        self._walk_back(stage, path)
        return CriticalPath(np.vstack((path[::-1], last)))

    def _all_starts_ns(self) -> NDArray[np.int64]:
        """Return the start times in the layout of ``events.run``."""
        if self.weight_start_ns is None:
            return self.starts_ns
        found = np.zeros((_rows(self.times), *self.starts_ns.shape[1:]), np.int64)
        found[: len(self.starts_ns)], found[WEIGHT] = (
            self.starts_ns,
            self.weight_start_ns,
        )
        return found

    def _walk_back(self, stage: int, path: NDArray[np.int64]) -> int:
        """Fill ``path`` with the events that end with a stage; return their number."""
        fixed, starts = _fixed(self.times), self._all_starts_ns()
        if _is_large(self.times):
            return walk_back(np.array(fixed), starts, stage, path)
        return as_written(walk_back)(fixed, starts.tolist(), stage, path)


def simulate(times: PipelineTimes) -> Simulation:
    """Simulate one iteration.

    Raises
    ------
    ValueError
        If the schedule deadlocks: warm-up counts, cut to q, rise downstream.
    """
    check_warmups_fall(times.inflight)
    p, q = times.stages, times.microbatches
    weights = None
    if (other := _run_apart(times)) is not None:
        starts_ns = other.starts[: SEND_BACKWARD + 1]
        if times.weight_ns is not None:
            weights = other.starts[WEIGHT]
    else:
        starts_ns = np.zeros((_rows(times), p, q), np.int64)
        if _is_large(times):
            run(np.array(_fixed(times)), starts_ns, np.zeros((4, p), np.int64))
        else:
            starts = starts_ns.tolist()
            as_written(run)(_fixed(times), starts, [[0] * p for _ in range(4)])
            starts_ns = np.array(starts, dtype=np.int64)
        if times.weight_ns is not None:
            weights = starts_ns[WEIGHT]
        starts_ns = starts_ns[: SEND_BACKWARD + 1]
    ends = _last_ends_ns(times, starts_ns, weights)
    makespan = max(end + g for end, g in zip(ends, times.sync_ns, strict=True))
    return Simulation(
        times=times,
        makespan_ns=makespan,
        stages=tuple(
            _activity(busy + sync, makespan)
            for busy, sync in zip(times.busy_ns, times.sync_ns, strict=True)
        ),
        starts_ns=starts_ns,
        weight_start_ns=weights,
    )


def _last_ends_ns(
    times: PipelineTimes,
    starts_ns: NDArray[np.int64],
    weights: NDArray[np.int64] | None,
) -> list[int]:
    """Return the end of each stage's last pass.

    Parameters
    ----------
    starts_ns, weights
        As in ``Simulation``.
    """
    final, durations = _last_backward(times), _durations_ns(times, BACKWARD)
    starts = starts_ns[BACKWARD, :, final]
    lengths = durations[:, final if times.chunks or times.mixed else 0]
    if weights is not None:
        starts = weights[:, final]
        lengths = np.array([times.weights_ns(stage)[0] for stage in range(len(starts))])
    return [a + b for a, b in zip(starts.tolist(), lengths.tolist(), strict=True)]


def _run_apart(times: PipelineTimes) -> BlockingRun | SharedRun | None:
    """Run what ``events.run`` cannot, or return None if it can."""
    # With a single stage there are no transfers that could block.
    if rule_of(times.schedule).blocking and times.stages > 1:
        return run_blocking(times)
    alike = times.sharing is None and times.chunks is None and not times.mixed
    return None if alike and times.fold is None else run_sharing(times)


def _rows(times: PipelineTimes) -> int:
    """Return the number of rows in ``starts`` of ``events.run``."""
    return SEND_BACKWARD + 1 if times.weight_ns is None else WEIGHT + 1


def _durations_ns(times: PipelineTimes, kind: int) -> NDArray[np.int64]:
    """Return the passes' durations by kind: (p, passes), or (p, 1) if all are alike."""
    if times.mixed:
        each = [_durations_ns(own, kind) for own in times.mixed]
        return np.repeat(
            np.hstack(each), [own.microbatches for own in times.mixed], axis=1
        )
    of_chunk = np.array([times.durations_ns(i)[kind] for i in range(times.stages)])
    if times.fold is not None:
        return np.tile(of_chunk, times.microbatches)
    if times.chunks is None:
        return of_chunk
    rounds = np.arange(times.passes) // times.stages
    by_pass: NDArray[np.int64] = of_chunk[:, rounds % times.chunks.count]
    return by_pass


def _last_backward(times: PipelineTimes) -> int:
    """Return the micro-batch (or pass) whose backward is the last on every stage."""
    last, chunks = times.passes - 1, times.chunks
    if times.fold is not None:
        # The last backward is that of the first chunk.
        return last - 1
    if chunks is None:
        return last
    return backward_number(last, times.stages, chunks.count)


def _activity(busy_ns: int, makespan_ns: int) -> StageActivity:
    idle = 1 - busy_ns / makespan_ns if makespan_ns else 0.0
    return StageActivity(busy_ns=busy_ns, idle_share=idle)


def _is_large(times: PipelineTimes) -> bool:
    """Whether compiled code pays off and all times among the events fit 64 bits."""
    at_most = times.microbatches * (
        sum(times.round_trip_ns) + 2 * sum(times.transfer_ns)
    )
    many = times.stages * times.microbatches >= PAYS_FROM
    return many and at_most < FITS


def _fixed(times: PipelineTimes) -> list[list[int]]:
    """Return, by kind and (sending) stage, the delay from an event to its successor.

    The last two rows are the micro-batches that a stage holds, and by how many
    micro-batches it postpones gradients of weights.
    """
    stages = range(times.stages)
    splits = times.weight_ns is not None
    return [
        list(times.forward_ns),
        [times.durations_ns(stage)[1][0] for stage in stages],
        [*times.transfer_ns, 0],
        [0, *times.transfer_ns],
        [*times.occupancy_ns, 0],
        [0, *times.occupancy_ns],
        [times.weights_ns(stage)[0] if splits else 0 for stage in stages],
        list(times.inflight),
        list(times.postponed) if splits else [0 for _ in stages],
    ]
