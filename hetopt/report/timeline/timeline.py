"""The events of an iteration on every stage and link, for pictures and traces.

Simulated and measured iterations have the same records, so that one picture or trace
can show both.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from hetopt.schedule.orders import chunk_and_microbatch

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Where times come from.
TimeSource = Literal["modelled", "measured"]
#: Kinds of events in a lane.
Activity = Literal[
    "forward",
    "recompute",
    "backward",
    "weight",
    "send-forward",
    "send-backward",
    "sync",
]
#: A stage computes; its link downstream carries activations, and its link upstream
#: gradients.
LaneKind = Literal["stage", "downstream", "upstream"]

_LANE_KINDS: tuple[LaneKind, ...] = get_args(LaneKind)
_SOURCES: tuple[TimeSource, ...] = get_args(TimeSource)


class Lane(NamedTuple):
    """A stage, or one direction of a link: its events do not overlap.

    Attributes
    ----------
    stage
        Counted from 0; for a link, the stage that sends.
    kind
        One of the stage's lanes.
    """

    stage: int
    kind: LaneKind


class TimelineEvent(NamedTuple):
    """One event of a lane.

    Attributes
    ----------
    microbatch
        Counted from 0; None for events of no micro-batch. If stages hold several
        chunks, the number of the pass (``hetopt.schedule.orders``).
    start_s, end_s
        Since the iteration began. A transfer ends when all of it has arrived.
    """

    lane: Lane
    activity: Activity
    microbatch: int | None
    start_s: float
    end_s: float
    source: TimeSource = "modelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineStage:
    """Facts about a stage other than its events.

    Attributes
    ----------
    mesh
        (d, c, t) and recomputation, in words.
    base_bytes
        What a device holds all the time: weights, gradients, optimizer states, buffers,
        and room for tensors that W passes still need.
    activation_bytes
        What it holds in addition for each micro-batch, from the start of its forward
        pass to the end of its backward pass.
    usable_bytes
        What the framework may allocate on a device.
    recompute_inside
        Whether backward passes include recomputation of unknown length.
    """

    cluster: str
    mesh: str
    base_bytes: int
    activation_bytes: int
    usable_bytes: int
    recompute_inside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """One iteration of a plan.

    Attributes
    ----------
    problem
        The problem's name.
    plan
        The plan in words, in several lines.
    problem_digest, table_digest
        Digests of the problem and the table that the plan was made from.
    events
        Sorted on construction by source, stage, lane and time.
    chunks
        Chunks of every stage that is not folded; else 1.
    folded
        Whether every stage holds two chunks, the second on the way back.
    """

    problem: str
    plan: tuple[str, ...]
    problem_digest: str
    table_digest: str
    microbatches: int
    stages: tuple[TimelineStage, ...]
    events: tuple[TimelineEvent, ...]
    chunks: int = 1
    folded: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "events", tuple(sorted(self.events, key=_place)))

    @property
    def sources(self) -> tuple[TimeSource, ...]:
        """The sources of the events; modelled first."""
        found = {event.source for event in self.events}
        return tuple(source for source in _SOURCES if source in found)

    def label(self, number: int) -> str:
        """Return the label of a micro-batch, or of a pass: ``CHUNK:MICROBATCH``."""
        return ":".join(map(str, self.place_of(number).values()))

    def place_of(self, number: int) -> dict[str, int]:
        """Return the micro-batch, after the chunk if stages hold several."""
        chunk, microbatch = chunk_and_microbatch(
            number, len(self.stages), self.chunks, self.folded
        )
        found = {"chunk": chunk, "microbatch": microbatch}
        several = self.chunks > 1 or self.folded
        return found if several else {"microbatch": microbatch}

    def end_s(self, source: TimeSource) -> float:
        """Return the end of the last event of a source, in seconds."""
        return max(event.end_s for event in self.events if event.source == source)

    def lanes(self) -> Iterator[tuple[TimeSource, Lane, list[TimelineEvent]]]:
        """Yield every lane that has events, with its events, by source.

        No two events of a lane overlap: if a transfer begins before the previous one
        has fully arrived, the previous one is cut off at that time.
        """
        for (source, lane), run in groupby(self.events, key=_lane):
            events = list(run)
            yield source, lane, [*map(_cut, pairwise(events)), events[-1]]

    def memory_steps(self) -> list[list[tuple[float, int]]]:
        """Return by stage the times at which a device's memory changes, and its bytes.

        In seconds, the first at 0; by the events of the first source.
        """
        first = self.events[0].source
        changes = [{0.0: stage.base_bytes} for stage in self.stages]
        for event in self.events:
            if event.source != first:
                break
            own = changes[event.lane.stage]
            more = self.stages[event.lane.stage].activation_bytes
            if event.activity == "forward":
                own[event.start_s] = own.get(event.start_s, 0) + more
            elif event.activity == "backward":
                own[event.end_s] = own.get(event.end_s, 0) - more
        return [_sums(own) for own in changes]


def _sums(changes: dict[float, int]) -> list[tuple[float, int]]:
    """Return the held bytes after each change, without changes by 0."""
    held = 0
    steps: list[tuple[float, int]] = []
    for time_s in sorted(changes):
        held += changes[time_s]
        if not steps or steps[-1][1] != held:
            steps.append((time_s, held))
    return steps


def _lane(event: TimelineEvent) -> tuple[TimeSource, Lane]:
    return event.source, event.lane


def _place(event: TimelineEvent) -> tuple[int, int, int, float, float]:
    return (
        _SOURCES.index(event.source),
        event.lane.stage,
        _LANE_KINDS.index(event.lane.kind),
        event.start_s,
        event.end_s,
    )


def _cut(pair: tuple[TimelineEvent, TimelineEvent]) -> TimelineEvent:
    event, following = pair
    if event.end_s <= following.start_s:
        return event
    return event._replace(end_s=following.start_s)
