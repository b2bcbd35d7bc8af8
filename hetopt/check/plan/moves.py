"""Check that moves bring each device what the next plan needs, from devices with it.

Tensors are checked position by position: which ranks hold it? Only the first position
of each range is checked within which no rank's answer changes. What a rank holds is
derived from the plan alone (``docs/explanation/MODEL.md``, section 2), without the code
that chooses the moves.
"""

from __future__ import annotations

import csv
import io
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.words import counted
from hetopt.cost.memory import parameter_bytes
from hetopt.cost.shapes import Shape
from hetopt.cost.units import unit_expert_parameters, unit_parameters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from hetopt.plans.plan import Plan
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem

    #: By pipeline and stage, the name of the device of each rank.
    Places = Sequence[Sequence[Sequence[str]]]

_HEADING = ["tensor", "begin", "end", "from", "to", "bytes"]
_CHECKPOINT = "checkpoint"


class Rank(NamedTuple):
    """A device that holds a part of a unit, and its number within the stage."""

    device: str
    strategy: Strategy
    number: int


@dataclass(slots=True)
class Row:
    """One line of a file of moves."""

    begin: int
    end: int
    sender: str
    receiver: str
    bytes: int


@dataclass(slots=True)
class Unit:
    """The ranks that hold parts of a unit before and after, and its moves by tensor."""

    before: list[Rank] = field(default_factory=list)
    after: list[Rank] = field(default_factory=list)
    rows: dict[tuple[str, str], list[Row]] = field(
        default_factory=lambda: defaultdict(list)
    )


def check_moves(
    problem: Problem,
    text: str,
    plans: tuple[Plan, Plan],
    places: tuple[Places, Places],
    left: Collection[str],
) -> list[str]:
    """Return one line for everything that is wrong with a file of moves.

    Parameters
    ----------
    text
        Content of the file.
    plans, places
        Before and after; see ``Places``.
    left
        Names of the devices of the first plan that are still there.
    """
    return list(_Moves(problem, plans, places, set(left)).findings(text))


class _Moves:
    def __init__(
        self,
        problem: Problem,
        plans: tuple[Plan, Plan],
        places: tuple[Places, Places],
        left: set[str],
    ) -> None:
        self._problem, self._left = problem, left
        self._units: dict[int, Unit] = defaultdict(Unit)
        self._shared = 1
        for late, (plan, placed) in enumerate(zip(plans, places, strict=True)):
            for unit, rank in _ranks(plan, placed):
                own = self._units[unit]
                (own.after if late else own.before).append(rank)
                self._shared = int(np.lcm(self._shared, rank.strategy.etp))
        size = parameter_bytes(problem.training)
        self._bytes = {"weights": size.weight, "optimizer": size.optimizer}

    def findings(self, text: str) -> Iterator[str]:
        lines = list(csv.reader(io.StringIO(text)))
        if not lines or lines[0] != _HEADING:
            yield f"line 1: expected {','.join(_HEADING)}"
            return
        for number, line in enumerate(lines[1:], start=2):
            fault = self._taken(line)
            if fault is not None:
                yield f"line {number}: {fault}"
        for unit, own in sorted(self._units.items()):
            for part, total in zip(("dense", "routed"), self._sizes(unit), strict=True):
                for state in self._bytes:
                    name = f"unit-{unit}.{part}.{state}"
                    for finding in self._tensor(own, part, state, total):
                        yield f"{name}: {finding}"

    def _taken(self, line: Sequence[str]) -> str | None:
        """Record the move of one line; return what is wrong with it, or None."""
        try:
            name, begin, end, sender, receiver, size = line
            unit_name, part, state = name.split(".")
            row = Row(int(begin), int(end), sender, receiver, int(size))
            unit = int(unit_name.removeprefix("unit-"))
        except ValueError:
            expected = ",".join(_HEADING)
            return f"{','.join(line)!r} is not a move, expected {expected}"
        known = unit in self._units and state in self._bytes
        if not known or part not in ("dense", "routed") or unit_name != f"unit-{unit}":
            return f"no tensor is named {name}"
        if not 0 <= row.begin < row.end <= sum(self._sizes(unit)[part == "routed"]):
            return f"{name} has no positions {begin} to {end}"
        count = row.end - row.begin
        if row.bytes != count * self._bytes[state]:
            expected = f"{count * self._bytes[state]} for {counted(count, 'value')}"
            return f"{size} bytes, expected {expected}"
        self._units[unit].rows[part, state].append(row)
        return None

    def _sizes(self, unit: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return how many values ranks split, and how many each has: dense, routed."""
        model = self._problem.model
        kind = model.units[unit]
        one, two = (
            float(unit_parameters(model, kind, np.array([t]))[0]) for t in (1, 2)
        )
        every = max(0, round(2 * two - one))
        routed = unit_expert_parameters(model, kind, Shape.of([(1, 1, 1)]))
        experts = 0 if routed is None else round(float(routed[0]))
        return (round(one) - every, every), (experts, 0)

    def _tensor(
        self, unit: Unit, part: str, state: str, sizes: tuple[int, int]
    ) -> Iterator[str]:
        rows = unit.rows[part, state]
        points = {0, sum(sizes)}
        for row in rows:
            points |= {row.begin, row.end}
        for rank in {each._replace(device="") for each in unit.before + unit.after}:
            points |= set(self._ends(rank, part, sizes))
        ordered = sorted(points)
        for begin, end in pairwise(ordered):
            had = {
                rank.device
                for rank in unit.before
                if rank.device in self._left
                and self._has(rank, part, state, sizes, begin)
            }
            wanted = {
                rank.device
                for rank in unit.after
                if self._has(rank, part, state, sizes, begin)
            }
            here = [row for row in rows if row.begin <= begin < row.end]
            yield from _stretch(f"{begin} to {end}", had, wanted, here)

    def _has(
        self, rank: Rank, part: str, state: str, sizes: tuple[int, int], at: int
    ) -> bool:
        """Whether a rank holds the value at one position."""
        own = rank.strategy
        local, length = 0, 0
        held = False
        for first, last in self._parts(rank, part, sizes):
            if first <= at < last:
                held, local = True, length + at - first
            length += last - first
        if not held:
            return False
        group, others = self._others(rank, part)
        zero = self._problem.training.zero if own.zero is None else own.zero
        if zero < (3 if state == "weights" else 1):
            return True
        return length * group // others <= local < length * (group + 1) // others

    def _ends(self, rank: Rank, part: str, sizes: tuple[int, int]) -> Iterator[int]:
        """Yield the positions at which a rank's ranges may begin or end."""
        parts = list(self._parts(rank, part, sizes))
        length = sum(last - first for first, last in parts)
        group, others = self._others(rank, part)
        cuts = (length * group // others, length * (group + 1) // others)
        before = 0
        for first, last in parts:
            yield from (first, last)
            yield from (
                first + cut - before for cut in cuts if 0 < cut - before < last - first
            )
            before += last - first

    def _parts(
        self, rank: Rank, part: str, sizes: tuple[int, int]
    ) -> Iterator[tuple[int, int]]:
        """Yield the ranges that a rank holds, from and to, before ZeRO shards them."""
        own, (split, every) = rank.strategy, sizes
        if part == "dense":
            t = rank.number % own.tp
            yield split * t // own.tp, split * (t + 1) // own.tp
            yield split, split + every
            return
        x = rank.number % own.etp
        e = rank.number // own.etp % own.ep
        for k in range(self._shared):
            if k * own.etp // self._shared == x:
                first = split * k // self._shared
                wide = split * (k + 1) // self._shared - first
                yield first + wide * e // own.ep, first + wide * (e + 1) // own.ep

    def _others(self, rank: Rank, part: str) -> tuple[int, int]:
        """Return a rank's number among those that share shards, and their count."""
        own = rank.strategy
        alike = own.tp if part == "dense" else own.ep * own.etp
        others = own.dp * own.cp * own.tp // alike
        wanted = self._problem.training.shard_group or others
        group = math.gcd(others, wanted)
        return rank.number // alike % group, group


def _stretch(
    where: str, had: set[str], wanted: set[str], rows: Sequence[Row]
) -> Iterator[str]:
    """Yield findings on a range of positions, which each rank holds or lacks as one."""
    got = Counter(row.receiver for row in rows)
    for device in sorted(wanted - had):
        if got[device] != 1:
            yield f"{device} needs {where}, and gets it {got[device]} times"
    for device in sorted(got.keys() - (wanted - had)):
        yield f"{device} gets {where}, and does not need it"
    for row in rows:
        if row.sender == _CHECKPOINT:
            if had:
                yield f"{where} come from the checkpoint, but {min(had)} has them"
        elif row.sender not in had:
            yield f"{row.sender} sends {where}, and does not have it"


def _ranks(plan: Plan, places: Places) -> Iterator[tuple[int, Rank]]:
    """Yield every unit with each rank that holds a part of it."""
    for pipeline, stages in zip(plan.pipelines, places, strict=True):
        for stage, devices in zip(pipeline.stages, stages, strict=True):
            units = list(range(stage.first_unit, stage.end_unit))
            if plan.chunks > 1:
                units = [u for pair in plan.chunk_units(stage) for u in range(*pair)]
            for number, device in enumerate(devices):
                for place, unit in enumerate(units):
                    own = stage.strategy
                    if stage.unit_strategies is not None:
                        own = stage.unit_strategies[place]
                    yield unit, Rank(device, own, number)
