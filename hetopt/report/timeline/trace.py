"""Timelines as trace events for Perfetto and chrome://tracing.

The format is Chromium's Trace Event Format, as a JSON object: ``M`` names processes
(clusters) and threads (lanes), ``X`` is an event with its duration, ``s`` and
``f`` begin and end the arrow from a transfer to the pass that needs it, and ``C`` is
the value of a counter (memory). Times are microseconds.
"""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

from hetopt.report.timeline.timeline import Lane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.report.timeline.timeline import Timeline, TimelineEvent, TimeSource

    _Track = tuple[int, int]

#: Names of arrows, by the activity that sends.
_SENT = {"send-forward": "activations", "send-backward": "gradients"}


def trace_json(timeline: Timeline) -> str:
    """Return the trace, one event per line; the same text for the same timeline."""
    about = {
        "problem": timeline.problem,
        "plan": ". ".join(timeline.plan),
        "problem_digest": timeline.problem_digest,
        "table_digest": timeline.table_digest,
        **{
            f"{source}_iteration_time_s": timeline.end_s(source)
            for source in timeline.sources
        },
    }
    events = ",\n".join(map(_text, _Trace(timeline).events()))
    head = f'{{"displayTimeUnit":"ms","otherData":{_text(about)},"traceEvents":['
    return f"{head}\n{events}\n]}}\n"


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":"), allow_nan=False)


class _Trace:
    """The trace events of a timeline."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._lanes = list(timeline.lanes())
        # Processes are numbered from 1, in the order of their first stages, and threads
        # after them: viewers may confuse processes and threads with equal numbers.
        self._processes: dict[tuple[str, TimeSource], int] = {}
        for stage in timeline.stages:
            for source in timeline.sources:
                key = stage.cluster, source
                self._processes.setdefault(key, len(self._processes) + 1)
        self._threads = {
            (source, lane): len(self._processes) + number
            for number, (source, lane, _) in enumerate(self._lanes, start=1)
        }
        self._arrows = self._match()

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield all events: names first, then lane by lane in the order of time."""
        yield from self._names()
        for source, lane, events in self._lanes:
            track = self._track(source, lane)
            for event in events:
                yield from self._slice(track, event)
        yield from self._memory()

    def _track(self, source: TimeSource, lane: Lane) -> _Track:
        cluster = self._timeline.stages[lane.stage].cluster
        return self._processes[cluster, source], self._threads[source, lane]

    def _names(self) -> Iterator[dict[str, Any]]:
        """Yield the names of clusters and lanes, and their order."""
        for (cluster, source), pid in self._processes.items():
            yield from _named("process", f"{cluster} ({source})", pid, (pid, 0))
        for source, lane, _ in self._lanes:
            pid, tid = self._track(source, lane)
            name = _name(lane, self._timeline)
            yield from _named("thread", name, tid, (pid, tid))

    def _slice(self, track: _Track, event: TimelineEvent) -> Iterator[dict[str, Any]]:
        """Yield an event, and the starts and ends of arrows in it."""
        pid, tid = track
        start_us = _microseconds(event.start_s)
        place = {"pid": pid, "tid": tid, "ts": start_us}
        duration_us = round(_microseconds(event.end_s) - start_us, 3)
        named: dict[str, Any] = {"name": event.activity, "cat": event.source}
        if event.microbatch is not None:
            label = self._timeline.label(event.microbatch)
            named["name"] = f"{event.activity} {label}"
            named["args"] = self._timeline.place_of(event.microbatch)
        yield {"ph": "X", **place, "dur": duration_us, **named}
        for phase, number, name in self._arrows.get(_key(event), ()):
            arrow = {"ph": phase, **place, "id": number, "name": name, "cat": "sent"}
            # "bp": the arrow ends at the enclosing event, not at the next one.
            yield {**arrow, "bp": "e"} if phase == "f" else arrow

    def _match(self) -> dict[tuple[Any, ...], list[tuple[str, int, str]]]:
        """Return the arrows that start or end at each event: phase, number, name."""
        needing: dict[tuple[Any, ...], TimelineEvent] = {}
        for event in self._timeline.events:
            direction = {
                "forward": "send-forward",
                "recompute": "send-backward",
                "backward": "send-backward",
            }.get(event.activity)
            # The first event counts: recomputation comes before the backward pass.
            where = event.source, direction, event.lane.stage, event.microbatch
            needing.setdefault(where, event)
        arrows: dict[tuple[Any, ...], list[tuple[str, int, str]]] = {}
        stages = len(self._timeline.stages)
        numbers = count(1)
        for event in self._timeline.events:
            step = {"downstream": 1, "upstream": -1}.get(event.lane.kind, 0)
            # Past the ends of the pipeline a micro-batch goes to another chunk.
            rounds, stage = divmod(event.lane.stage + step, stages)
            number = event.microbatch
            needed = number if number is None else number + rounds * stages
            where = event.source, event.activity, stage, needed
            if step and where in needing:
                number, name = next(numbers), _SENT[event.activity]
                arrows.setdefault(_key(event), []).append(("s", number, name))
                end = _key(needing[where])
                arrows.setdefault(end, []).append(("f", number, name))
        return arrows

    def _memory(self) -> Iterator[dict[str, Any]]:
        timeline = self._timeline
        source = timeline.sources[0]
        for number, steps in enumerate(timeline.memory_steps()):
            pid = self._processes[timeline.stages[number].cluster, source]
            name = f"memory of stage {number}, per device"
            for time_s, held in steps:
                at = {"pid": pid, "tid": 0, "ts": _microseconds(time_s)}
                yield {"ph": "C", "name": name, **at, "args": {"bytes": held}}


def _named(what: str, name: str, order: int, track: _Track) -> Iterator[dict[str, Any]]:
    of = {"ph": "M", "pid": track[0], "tid": track[1]}
    yield {**of, "name": f"{what}_name", "args": {"name": name}}
    yield {**of, "name": f"{what}_sort_index", "args": {"sort_index": order}}


def _key(event: TimelineEvent) -> tuple[Any, ...]:
    return event.source, event.lane, event.activity, event.microbatch


def _name(lane: Lane, timeline: Timeline) -> str:
    stages = len(timeline.stages)
    if lane.kind == "stage":
        return f"stage {lane.stage}"
    if timeline.folded:
        # Each direction has activations of one chunk and gradients of the other.
        to = lane.stage + (1 if lane.kind == "downstream" else -1)
        return f"link {lane.stage} to {to}"
    if lane.kind == "downstream":
        return f"link {lane.stage} to {(lane.stage + 1) % stages}: activations"
    return f"link {lane.stage} to {(lane.stage - 1) % stages}: gradients"


def _microseconds(time_s: float) -> float:
    """Return seconds as microseconds, rounded to nanoseconds."""
    return round(time_s * 1e6, 3)
