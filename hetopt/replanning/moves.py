"""The moves of slices between devices that take least time."""

from __future__ import annotations

import csv
import io
from bisect import bisect_left
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from hetopt.errors import InputError
from hetopt.formulations.migration.program import Demand
from hetopt.solvers.migration.senders import least_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.cost.communication.migration import Network, Way
    from hetopt.problem.cluster.nodes import Device
    from hetopt.replanning.holdings import Held, Spans, States, Tensor

#: The sender, in files of moves, of slices that are read from the checkpoint.
CHECKPOINT = "checkpoint"
COLUMNS = ("tensor", "begin", "end", "from", "to", "bytes")


class Slice(NamedTuple):
    """Positions of a tensor, from ``begin`` up to ``end``."""

    tensor: Tensor
    begin: int
    end: int


class Move(NamedTuple):
    """A slice that one device receives.

    Attributes
    ----------
    sender
        None if it is read from the checkpoint.
    """

    slice: Slice
    sender: Device | None
    receiver: Device
    bytes: int


class Lack(NamedTuple):
    """A device that lacks slices, and the devices that hold them.

    Attributes
    ----------
    owners
        Sorted; empty if only the checkpoint has the slices.
    """

    owners: tuple[Device, ...]
    receiver: Device


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """All moves from one plan to the next.

    Attributes
    ----------
    rows
        The moves, sorted by tensor and position.
    seconds
        Least time of these moves: the largest ratio of bytes to bandwidth of a limit.
    least_s
        Optimum of the linear program, which may split a number.
    """

    rows: tuple[Move, ...]
    seconds: float
    least_s: float

    @property
    def bytes(self) -> int:
        """Bytes of all moves."""
        return sum(move.bytes for move in self.rows)

    @property
    def sent(self) -> dict[str, tuple[int, int]]:
        """By sender, bytes within its node and beyond it; the largest sender first."""
        inside: Counter[str] = Counter()
        beyond: Counter[str] = Counter()
        for move in self.rows:
            if move.sender is None:
                beyond[CHECKPOINT] += move.bytes
            elif move.sender.host == move.receiver.host:
                inside[move.sender.name] += move.bytes
            else:
                beyond[move.sender.name] += move.bytes
        names = sorted(inside | beyond, key=lambda k: (-inside[k] - beyond[k], k))
        return {name: (inside[name], beyond[name]) for name in names}

    def to_csv(self) -> str:
        """Return the file of moves: a header, and one line per move."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(COLUMNS)
        for (tensor, begin, end), sender, receiver, size in self.rows:
            source = CHECKPOINT if sender is None else sender.name
            writer.writerow((tensor.name, begin, end, source, receiver.name, size))
        return text.getvalue()


def moves_between(
    held: Mapping[Device, Held],
    needed: Mapping[Device, Held],
    states: States,
    network: Network,
) -> Moves:
    """Return the moves that take least time.

    Parameters
    ----------
    held
        What the remaining devices hold.
    needed
        What each device will hold.

    Raises
    ------
    InputError
        No remaining device has a slice, and there is no checkpoint; or no link leads
        from its owners to a device that needs it.
    """
    wanted = lacks(held, needed)
    demands, ways, rates = [], [], Limits()
    for lack, slices in wanted.items():
        own = _ways(lack, slices[0], network)
        ways.append(own)
        demands.append(
            Demand(
                bytes=sum(_bytes(each, states) for each in slices),
                senders=tuple(rates.sender(sender) for sender, _ in own),
                ways=tuple(rates.numbers(way) for _, way in own),
            )
        )
    answer = least_time(demands, rates.bytes_per_s)
    rows = [
        move
        for (lack, slices), own, sent in zip(
            wanted.items(), ways, answer.bytes, strict=True
        )
        for move in _shared(lack, slices, [sender for sender, _ in own], sent, states)
    ]
    rows.sort()
    return Moves(
        rows=tuple(rows), seconds=busiest_s(rows, network), least_s=answer.seconds
    )


def busiest_s(rows: Sequence[Move], network: Network) -> float:
    """Return the seconds of the busiest limit."""
    used: Counter[tuple[str, ...]] = Counter()
    rate: dict[tuple[str, ...], float] = {}
    sent: Counter[tuple[Device | None, Device]] = Counter()
    for move in rows:
        sent[move.sender, move.receiver] += move.bytes
    for (sender, receiver), size in sent.items():
        for name, bytes_per_s in _way(sender, receiver, network) or ():
            used[name] += size
            rate[name] = bytes_per_s
    return max((used[name] / rate[name] for name in used), default=0.0)


class Limits:
    """Numbers the limits and senders that occur."""

    def __init__(self) -> None:
        self.bytes_per_s: list[float] = []
        self._limits: dict[tuple[str, ...], int] = {}
        self._senders: dict[Device | None, int] = {}

    def numbers(self, way: Way) -> tuple[int, ...]:
        """Return the numbers of the limits on a path."""
        found = []
        for name, rate in way or ():
            if name not in self._limits:
                self._limits[name] = len(self.bytes_per_s)
                self.bytes_per_s.append(rate)
            found.append(self._limits[name])
        return tuple(found)

    def sender(self, device: Device | None) -> int:
        """Return the number of a sender."""
        return self._senders.setdefault(device, len(self._senders))


def lacks(
    held: Mapping[Device, Held], needed: Mapping[Device, Held]
) -> dict[Lack, list[Slice]]:
    """Return the slices that devices lack, by receiver and owners."""
    owners: dict[Tensor, list[tuple[Device, Spans]]] = defaultdict(list)
    for device in sorted(held):
        for tensor, spans in held[device].items():
            owners[tensor].append((device, spans))
    found: dict[Lack, list[Slice]] = defaultdict(list)
    for receiver in sorted(needed):
        own = held.get(receiver, {})
        for tensor, spans in needed[receiver].items():
            for begin, end in _missing(spans, own.get(tensor, ())):
                for cut, having in _by_owner(begin, end, owners.get(tensor, ())):
                    found[Lack(having, receiver)].append(Slice(tensor, *cut))
    return found


def _missing(needed: Spans, held: Spans) -> Iterator[tuple[int, int]]:
    """Yield the parts of ``needed`` that are not in ``held``; both are ascending."""
    for begin, end in needed:
        for first, last in held:
            if last <= begin or first >= end:
                continue
            if first > begin:
                yield begin, first
            begin = last
        if begin < end:
            yield begin, end


def _by_owner(
    begin: int, end: int, owners: Sequence[tuple[Device, Spans]]
) -> Iterator[tuple[tuple[int, int], tuple[Device, ...]]]:
    """Yield the parts of a span, each with the same owners for all its positions."""
    points = sorted(
        {begin, end}.union(
            point
            for _, spans in owners
            for span in spans
            for point in span
            if begin < point < end
        )
    )
    having: list[list[Device]] = [[] for _ in points[1:]]
    for device, spans in owners:
        for first, last in spans:
            if last <= begin or first >= end:
                continue
            start = bisect_left(points, max(first, begin))
            for place in range(start, bisect_left(points, min(last, end))):
                having[place].append(device)
    for place, own in enumerate(having):
        yield (points[place], points[place + 1]), tuple(own)


def _way(sender: Device | None, receiver: Device, network: Network) -> Way:
    if sender is None:
        return network.from_checkpoint(receiver)
    return network.way(sender, receiver)


def _ways(
    lack: Lack, example: Slice, network: Network
) -> list[tuple[Device | None, Way]]:
    """Return the possible senders of missing slices, each with its path."""
    senders: tuple[Device | None, ...] = lack.owners or (None,)
    ways = [(each, _way(each, lack.receiver, network)) for each in senders]
    ways = [(each, way) for each, way in ways if way is not None]
    if ways:
        return ways
    what = f"positions {example.begin} to {example.end} of {example.tensor.name}"
    if lack.owners:
        hosts = dict.fromkeys(owner.host for owner in lack.owners)
        msg = f"{lack.receiver.name} needs {what}, and no link leads there from "
        raise InputError(msg + ", ".join(hosts), field="links")
    msg = f"no device that is left holds {what}: say with --checkpoint-bandwidth how "
    raise InputError(msg + "fast a checkpoint is read", field="--lost")


def _bytes(own: Slice, states: States) -> int:
    return (own.end - own.begin) * states.bytes_of(own.tensor)


# The missing slices of one device, and how much each sender sends.
def _shared(
    lack: Lack,
    slices: Sequence[Slice],
    senders: Sequence[Device | None],
    sent: Sequence[float],
    states: States,
) -> Iterator[Move]:
    """Yield moves of whole numbers, by rounding the linear program's bytes."""
    number, left = 0, sent[0]
    for tensor, begin, end in slices:
        size = states.bytes_of(tensor)
        while begin < end:
            last = number == len(senders) - 1
            taken = end - begin if last else min(end - begin, round(left / size))
            if taken > 0:
                part = Slice(tensor, begin, begin + taken)
                yield Move(part, senders[number], lack.receiver, taken * size)
                begin, left = begin + taken, left - taken * size
            if begin < end:
                # The rounding remainder of a sender's share goes to the next one.
                number, left = number + 1, sent[number + 1] + left
