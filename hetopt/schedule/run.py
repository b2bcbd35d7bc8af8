"""One simulated iteration of any schedule.

Every stage runs its passes in the order that its schedule gives (``orders``), each as
soon as the one before it has ended and its input has arrived. A result is sent when its
pass ends, if the boundary and all that it shares are free in that direction: transfers
start at least omega apart, and each arrives kappa after its start. The transfer that is
ready first is sent first; of several, activations before gradients, then upstream
stages first, then in the order of passes. An exchange starts when both of its stages
have reached it, and occupies both. Everything starts as early as these rules allow, so
the makespan is the longest path in the graph of events; the causes that are kept give
one.
(MODEL.md section 4; HAPT, section 4.2.1.)
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from hetopt.base.compiled import FITS, PAYS_FROM, as_written, compiled
from hetopt.schedule.line import KINDS, Line, line_of, transfers_of
from hetopt.schedule.period import check_warmups_fall
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from hetopt.schedule.times import PipelineTimes

    Ints = NDArray[np.int64]

#: What takes time in a simulated iteration. ``send-*`` is a whole transfer (kappa) and
#: ``occupy-*`` only the part of it for which the next transfer in the same direction
#: waits (omega); ``sync`` is a stage's g; ``weight`` is the gradient of weights if it
#: is not part of ``backward``.
EventKind = Literal[
    "forward",
    "backward",
    "send-forward",
    "send-backward",
    "occupy-forward",
    "occupy-backward",
    "weight",
    "sync",
]

#: Kinds of events by the number of the kind of pass that they are, or whose result they
#: transfer.
_EVENTS: tuple[tuple[EventKind, ...], ...] = (
    ("forward", "backward", "weight"),
    ("send-forward", "send-backward"),
    ("occupy-forward", "occupy-backward"),
)


class CriticalEvent(NamedTuple):
    """One step of the critical path.

    Attributes
    ----------
    stage
        Counted from 0; for a transfer, the sending stage.
    microbatch
        Counted from 0; for ``sync``, that of the last pass. With several chunks a
        stage, the number of the pass (``hetopt.schedule.orders``).
    start_ns, end_ns
        The next event of the path starts at ``end_ns``.
    """

    kind: EventKind
    stage: int
    microbatch: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Simulation:
    """Outcome of one simulated iteration of p stages with n passes of each kind.

    Attributes
    ----------
    starts_ns, ends_ns
        Start and end of every pass, by kind (``F``, ``B``, and ``W`` if gradients of
        weights are apart), stage and number; shapes (p, n).
    sent_ns
        Start of every transfer, by kind, stage and number of the pass whose result it
        is; the end of the pass if nothing is sent. Shapes (p, n).
    last_end_ns
        End of each stage's last pass; length p.
    makespan_ns
        Largest end of a stage's last pass plus its g.
    """

    times: PipelineTimes
    starts_ns: dict[str, Ints]
    ends_ns: dict[str, Ints]
    sent_ns: dict[str, Ints]
    last_end_ns: tuple[int, ...]
    makespan_ns: int
    _line: Line = field(repr=False)
    _state: _State = field(repr=False)

    @property
    def busy_ns(self) -> tuple[int, ...]:
        """Time in which each stage computes, plus its g; length p."""
        return tuple(map(sum, zip(self.times.busy_ns, self.times.sync_ns, strict=True)))

    @property
    def idle_share(self) -> tuple[float, ...]:
        """1 - busy / makespan of each stage, 0 to 1; 0 if the makespan is 0."""
        whole = self.makespan_ns
        return tuple(1 - busy / whole if whole else 0.0 for busy in self.busy_ns)

    def critical_path(self) -> tuple[CriticalEvent, ...]:
        """Return a longest chain of events, from time 0 to the makespan.

        Each starts when the one before it ends. Of a transfer that delayed another one
        there is only the part that caused the delay.
        """
        line, state, times = self._line, self._state, self.times
        ends = map(sum, zip(self.last_end_ns, times.sync_ns, strict=True))
        stage = list(ends).index(self.makespan_ns)
        end = self.last_end_ns[stage]
        last = next(
            pass_
            for pass_ in reversed(line.order[line.first[stage] : line.first[stage + 1]])
            if pass_ < line.exchanges
        )
        number = int(last) % line.passes
        path = [CriticalEvent("sync", stage, number, end, self.makespan_ns)]
        code = int(last)
        while code >= 0:
            what, event = divmod(code, len(line.took))
            start = int((state.sent if what else state.start)[event])
            found = list(_named(times, line, what, event, start, end))
            path += reversed(found)
            code, end = int((state.delayed if what else state.cause)[event]), start
        return tuple(reversed(path))


def simulate(times: PipelineTimes) -> Simulation:
    """Simulate one iteration.

    Raises
    ------
    ValueError
        If the schedule deadlocks: warm-up counts, cut to q, rise downstream, or, if
        transfers block, do not fall by one from stage to stage.
    """
    check_warmups_fall(times.inflight)
    line = line_of(times)
    state = _run(times, line)
    shape = (len(KINDS), times.stages, times.passes)
    starts, sent = (
        np.array(each[: line.exchanges], np.int64).reshape(shape)
        for each in (state.start, state.sent)
    )
    ends = starts + np.array(line.took[: line.exchanges], np.int64).reshape(shape)
    _add_exchanged(times, line, state, sent)
    # Some results are not sent.
    sent = np.where(sent < 0, ends, sent)
    kinds = KINDS if times.orders.splits else KINDS[:-1]
    ended = tuple(map(int, state.ended))
    return Simulation(
        times=times,
        starts_ns={kind: starts[KINDS.index(kind)] for kind in kinds},
        ends_ns={kind: ends[KINDS.index(kind)] for kind in kinds},
        sent_ns={kind: sent[KINDS.index(kind)] for kind in "FB"},
        last_end_ns=ended,
        makespan_ns=max(map(sum, zip(ended, times.sync_ns, strict=True))),
        _line=line,
        _state=state,
    )


class _State(NamedTuple):
    """How far the stages are, and what is known of each event.

    A cause is an event; with the number of events added, the transfer of its result,
    and with that added twice, the occupation of a way by it.

    Attributes
    ----------
    at, free, ended, last
        Of every stage: how many events it has run, until when it is busy, when its last
        pass ended, and its last event.
    start, cause
        Of every event, with what it waited for (-1: nothing).
    sent, delayed
        The same of its transfer; -1 if there is none.
    arrived, brought
        When the input of every event arrived (-1: not yet), and by which transfer.
    until, holder
        Of every way: until when it is occupied, and by which event's transfer.
    """

    at: Any
    free: Any
    ended: Any
    last: Any
    start: Any
    cause: Any
    sent: Any
    delayed: Any
    arrived: Any
    brought: Any
    until: Any
    holder: Any


def _run(times: PipelineTimes, line: Line) -> _State:
    """Run all events; ValueError if stages wait for each other."""
    stages, events = times.stages, len(line.took)
    ways = int(line.ways.max(initial=-1)) + 1
    arrived = np.zeros(events, np.int64)
    arrived[line.feeds[line.feeds >= 0]] = -1
    zeros, nothing = np.zeros(stages, np.int64), np.full(events, -1)
    state = _State(
        at=line.first[:-1].copy(),
        free=zeros.copy(),
        ended=zeros.copy(),
        last=zeros - 1,
        start=nothing.copy(),
        cause=nothing.copy(),
        sent=nothing.copy(),
        delayed=nothing.copy(),
        arrived=arrived,
        brought=nothing.copy(),
        until=np.zeros(ways, np.int64),
        holder=np.full(ways, -1),
    )
    at_most = times.passes * (sum(times.round_trip_ns) + 2 * sum(times.transfer_ns))
    if len(line.order) >= PAYS_FROM and at_most < FITS:
        run(line, state)
    else:
        # Lists of Python integers are faster than arrays, and do not overflow.
        line = Line(*line[:3], *(each.tolist() for each in line[3:]))
        state = _State(*(each.tolist() for each in state))
        as_written(run)(line, state)
    for stage in range(stages):
        if state.at[stage] < line.first[stage + 1]:
            msg = (
                f"the schedule deadlocks: stage {stage} waits; warm-ups "
                f"{times.warmups} do not suit {times.schedule}"
            )
            raise ValueError(msg)
    return state


@compiled
def run(line: Any, state: Any) -> None:
    """Run every event as early as possible.

    Of the transfers that are ready the earliest is sent: any that becomes ready later
    depends on one that still waits, so it cannot be earlier. Uncompiled the arrays may
    be lists of Python integers.
    """
    passes, exchanges, rows, order, first, took, feeds, route = line[:8]
    kappa, begins, ways, omega = line[8:]
    at, free, ended, last, starts, causes, sent, delayed = state[:8]
    arrived, brought, until, holder = state[8:]
    stages, events, count = len(first) - 1, len(took), len(order)
    ready = [(0, 0) for _ in range(0)]
    todo = list(range(stages))
    while True:
        while todo:
            i = todo.pop()
            while at[i] < first[i + 1]:
                event = order[at[i]]
                begin, cause = free[i], last[i]
                if event >= exchanges:
                    boundary = (event - exchanges) // rows
                    other = boundary + 1 if i == boundary else boundary
                    if at[other] == first[other + 1] or order[at[other]] != event:
                        break
                    if free[other] > begin:
                        begin, cause = free[other], last[other]
                    free[other] = begin + took[event]
                    last[other] = event
                    at[other] += 1
                    todo.append(other)
                else:
                    if arrived[event] < 0:
                        break
                    if arrived[event] > begin or cause < 0:
                        begin, cause = arrived[event], brought[event]
                    ended[i] = begin + took[event]
                end = begin + took[event]
                starts[event], causes[event] = begin, cause
                free[i], last[i] = end, event
                if route[event] >= 0:
                    heapq.heappush(ready, (end, event // passes * count + at[i]))
                at[i] += 1
        if not ready:
            return
        begin, turn = heapq.heappop(ready)
        event = order[turn % count]
        cause, over = event, route[event]
        for place in range(begins[over], begins[over + 1]):
            way = ways[place]
            if until[way] >= begin and holder[way] >= 0:
                begin, cause = until[way], 2 * events + holder[way]
        for place in range(begins[over], begins[over + 1]):
            until[ways[place]] = begin + omega[place]
            holder[ways[place]] = event
        sent[event], delayed[event] = begin, cause
        to = feeds[event]
        arrived[to] = begin + kappa[over]
        brought[to] = events + event
        todo.append(to // passes % stages)


def _add_exchanged(times: PipelineTimes, line: Line, state: _State, sent: Ints) -> None:
    """Add the starts of the transfers that were parts of exchanges."""
    for event in range(line.exchanges, len(line.took)):
        if state.start[event] >= 0:
            for kind, stage, number, start, _ in transfers_of(
                times, line, event, int(state.start[event])
            ):
                sent[kind, stage, number] = start


def _named(
    times: PipelineTimes, line: Line, what: int, event: int, start: int, end: int
) -> Iterator[CriticalEvent]:
    """Yield the events of the critical path that one event, or its transfer, is."""
    if event < line.exchanges:
        rest, number = divmod(event, line.passes)
        kind, stage = divmod(rest, times.stages)
        yield CriticalEvent(_EVENTS[what][kind], stage, number, start, end)
        return
    found = list(transfers_of(times, line, event, start))
    at_once = rule_of(times.schedule).blocking == 1
    for kind, stage, number, begin, until in found[-1:] if at_once else found:
        yield CriticalEvent(_EVENTS[1][kind], stage, number, begin, until)
