"""The records of a run's ranks, combined by stage and boundary.

The ranks of a replica compute together: its pass is timed from when the last of them
has its input to when the last one is done. A stage's pass is as long as that of its
slowest replica. A transfer begins when the last rank of the sending stage has the
tensor and the previous transfer has arrived, and ends when the last rank of the
receiving stage has its part.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

from hetopt.base.reading import read_json
from hetopt.errors import HetoptError
from hetopt.schedule.orders import FOLDED_CHUNKS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: A transfer: "forward" or "backward", and the pass whose result it is.
_Sent = tuple[str, int]


class Span(NamedTuple):
    """Start and end of an event, and for how long it occupied its stage or link.

    Seconds since the iteration began; ``length_s`` may be less than end minus start.
    """

    start_s: float
    end_s: float
    length_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Iteration:
    """One iteration of p stages and q micro-batches.

    Attributes
    ----------
    time_s
        From the first rank's start to the last one's end.
    loss
        Mean per token.
    forward, backward
        By stage and pass: the micro-batch, or with several chunks a stage the number
        as in ``hetopt.schedule.orders``; p rows of q v.
    weight
        Likewise for W passes; rows are empty if backward passes are not split.
    sync
        From the end of the last pass to that of the optimizer's step; p.
    sent_forward, sent_backward
        By boundary, the transfers of activations and of gradients by the number of
        their pass, in the order of time. With several chunks the last boundary is the
        way back from the last stage to the first. Under folded stages each of the two
        goes in both directions.
    """

    time_s: float
    loss: float
    forward: tuple[tuple[Span, ...], ...]
    backward: tuple[tuple[Span, ...], ...]
    weight: tuple[tuple[Span, ...], ...]
    sync: tuple[Span, ...]
    sent_forward: tuple[dict[int, Span], ...]
    sent_backward: tuple[dict[int, Span], ...]

    def boundary_s(self, number: int) -> float:
        """Return the mean seconds of a transfer over a boundary."""
        both = self.sent_forward[number], self.sent_backward[number]
        return fmean(span.length_s for spans in both for span in spans.values())


def read_ranks(folder: Path, ranks: int) -> list[dict[str, Any]]:
    """Return what every rank wrote.

    Raises
    ------
    HetoptError
        A rank wrote nothing: its program is not this version's.
    """
    paths = [folder / f"rank-{number}.json" for number in range(ranks)]
    for number, path in enumerate(paths):
        if not path.is_file():
            msg = (
                f"rank {number} wrote no times: its program is of another hetopt "
                "version; export the plan again"
            )
            raise HetoptError(msg)
    return [read_json(path, "a rank's times") for path in paths]


def iterations_of(
    ranks: Sequence[dict[str, Any]], chunks: int = 1, *, folded: bool = False
) -> list[Iteration]:
    """Return all timed iterations; stages hold ``chunks`` chunks."""
    stages = 1 + max(rank["stage"] for rank in ranks)
    by_stage = [[r for r in ranks if r["stage"] == n] for n in range(stages)]
    counts = range(len(ranks[0]["iterations"]))
    return [
        _iteration(
            [[{**r["iterations"][k], "dp": r["dp"]} for r in own] for own in by_stage],
            chunks,
            folded,
        )
        for k in counts
    ]


def _iteration(
    stages: list[list[dict[str, Any]]], chunks: int, folded: bool
) -> Iteration:
    """Combine the ranks' records of one iteration, given by stage."""
    every = [rank for own in stages for rank in own]
    begin = min(rank["start_s"] for rank in every)
    losses = [rank["loss"] for rank in every if rank["loss"] is not None]
    around = [*stages, stages[0]] if chunks > 1 else stages
    crossed = [_crossed(a, b, folded, begin) for a, b in pairwise(around)]
    return Iteration(
        time_s=max(rank["end_s"] for rank in every) - begin,
        loss=losses[0],
        forward=tuple(_passes(own, "F", begin) for own in stages),
        backward=tuple(_passes(own, "B", begin) for own in stages),
        weight=tuple(_passes(own, "W", begin) for own in stages),
        sync=tuple(_sync(own, begin) for own in stages),
        sent_forward=tuple(_of_direction(each, "forward") for each in crossed),
        sent_backward=tuple(_of_direction(each, "backward") for each in crossed),
    )


def _passes(
    own: Sequence[dict[str, Any]], kind: str, begin_s: float
) -> tuple[Span, ...]:
    """Return the passes of one kind on a stage, ordered by number."""
    found = [_of_kind(rank["passes"], kind) for rank in own]
    by_rank = [[spans[number] for number in sorted(spans)] for spans in found]
    return tuple(
        Span(
            min(start for start, _ in spans) - begin_s,
            max(end for _, end in spans) - begin_s,
            _length(spans, [rank["dp"] for rank in own]),
        )
        for spans in zip(*by_rank, strict=True)
    )


def _length(spans: Sequence[tuple[float, float]], replicas: Sequence[int]) -> float:
    """Return the length of a pass on the slowest replica; one span for each rank."""
    lengths = []
    for replica in set(replicas):
        own = [span for span, dp in zip(spans, replicas, strict=True) if dp == replica]
        last = max(start for start, _ in own)
        lengths.append(max(end for _, end in own) - last)
    return max(lengths)


def _sync(own: Sequence[dict[str, Any]], begin_s: float) -> Span:
    start = max(end for rank in own for *_, end in rank["passes"]) - begin_s
    end = max(rank["end_s"] for rank in own) - begin_s
    return Span(start, end, end - start)


def _crossed(
    before: Sequence[dict[str, Any]],
    behind: Sequence[dict[str, Any]],
    folded: bool,
    begin_s: float,
) -> dict[_Sent, Span]:
    """Return the transfers of a boundary, those from the stage before it first."""
    down = _sent(before, behind, folded, begin_s, onward=True)
    return down | _sent(behind, before, folded, begin_s, onward=False)


def _of_direction(crossed: dict[_Sent, Span], direction: str) -> dict[int, Span]:
    """Return only the activations or only the gradients, by pass."""
    return {
        number: span for (each, number), span in crossed.items() if each == direction
    }


def _sent(
    senders: Sequence[dict[str, Any]],
    receivers: Sequence[dict[str, Any]],
    folded: bool,
    begin_s: float,
    *,
    onward: bool,
) -> dict[_Sent, Span]:
    """Return the transfers of one direction of a boundary.

    Under folded stages those of the second chunk go the other way.
    """
    sent = [_transfers(r["transfers"], "send") for r in senders]
    got = [_transfers(r["transfers"], "receive") for r in receivers]
    found: dict[_Sent, Span] = {}
    free = 0.0
    # One channel carries them in the same order on all ranks.
    for key in sent[0]:
        direction, number = key
        goes_back = folded and number % FOLDED_CHUNKS == 1
        if ((direction == "forward") != goes_back) != onward:
            continue
        start = max(spans[key][0] for spans in sent) - begin_s
        end = max(spans[key][1] for spans in got) - begin_s
        start = max(start, free)
        # A sender with nothing to send may start after the last receiver has ended.
        found[key] = Span(min(start, end), end, max(end - start, 0.0))
        free = end
    return found


def _transfers(rows: Sequence[Any], end: str) -> dict[_Sent, tuple[float, float]]:
    """Return start and end of a rank's sends or receives, in the order of time."""
    found = {}
    for kind, number, start, end_s in rows:
        own, _, direction = kind.partition("-")
        if own == end:
            found[direction, number] = start, end_s
    return found


def _of_kind(rows: Sequence[Any], kind: str) -> dict[int, tuple[float, float]]:
    """Return start and end of a kind of events by number, in the order of time."""
    return {number: (start, end) for each, number, start, end in rows if each == kind}
