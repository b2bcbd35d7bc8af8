"""Which device holds which slices of a model's parameters and optimizer states.

A unit's dense parameters are one row of numbers: first those that tensor parallelism
splits, then those that every tensor rank has (norms, for example). Rank i of t has the
i-th of t equal parts of the first, and all of the others. Routed experts are a row of
their own, split by the ranks that share an expert and then by those they are spread
over. Where the ranks that hold the same numbers shard states (ZeRO), or each group of
``shard_group`` of them, each has an equal part, in the order of ranks: of optimizer
states from stage 1 on, of weights in stage 3. Gradients are not kept between
iterations.

A tensor is such a row of one unit, as weights or as optimizer states; a slice is the
range between two positions in it. Equal parts of P numbers end at ``P * k // n``, so
that parts of different degrees have common boundaries.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import gcd, lcm
from typing import TYPE_CHECKING, NamedTuple

from hetopt.cost.memory import parameter_bytes
from hetopt.cost.shapes import Shape
from hetopt.cost.units import unit_expert_parameters, unit_parameters
from hetopt.errors import InputError
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hetopt.plans.plan import Plan, Stage
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.cluster.nodes import Device
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem

    #: Ranges of positions in a tensor, begin and end (exclusive); ascending.
    Spans = tuple[tuple[int, int], ...]
    #: The device of each rank, by pipeline and stage, in the order of ranks.
    Layout = Sequence[Sequence[Sequence[Device]]]
    #: The ranges that one device holds, by tensor.
    Held = dict["Tensor", Spans]


class Tensor(NamedTuple):
    """One row of numbers of one unit.

    Attributes
    ----------
    unit
        Counted from 0, as in plans.
    part
        ``dense`` or ``routed``.
    state
        ``weights`` or ``optimizer``.
    """

    unit: int
    part: str
    state: str

    @property
    def name(self) -> str:
        """The tensor's name in files of moves."""
        return f"unit-{self.unit}.{self.part}.{self.state}"


class Sizes(NamedTuple):
    """Parameters of one unit.

    Attributes
    ----------
    split, whole
        Dense parameters that tensor parallelism splits, and the others.
    routed
        Parameters of all routed experts.
    """

    split: int
    whole: int
    routed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """The states of a problem's model, and how plans cut them.

    Attributes
    ----------
    cuts
        Number of parts into which routed experts are cut before they are spread: a
        common multiple of the ``etp`` of all strategies.
    """

    problem: Problem
    cuts: int

    @classmethod
    def of(cls, problem: Problem, plans: Iterable[Plan]) -> States:
        """Return the states as cut by these plans.

        Raises
        ------
        InputError
            The pipeline of a plan is folded: slices of a device's two chunks are not
            supported.
        """
        cuts = 1
        for plan in plans:
            if rule_of(plan.schedule).folded:
                msg = f"is {plan.schedule}: slices of folded pipelines are not known"
                raise InputError(msg, field="schedule")
            for pipeline in plan.pipelines:
                for stage in pipeline.stages:
                    for own in stage.unit_strategies or (stage.strategy,):
                        cuts = lcm(cuts, own.etp)
        return cls(problem=problem, cuts=cuts)

    def bytes_of(self, tensor: Tensor) -> int:
        """Return the bytes of one number of a tensor."""
        size = parameter_bytes(self.problem.training)
        return size.weight if tensor.state == "weights" else size.optimizer

    def sizes(self, unit: int) -> Sizes:
        """Return the parameters of a unit."""
        return _sizes(self.problem.model, self.problem.model.units[unit])

    def held(self, plan: Plan, layout: Layout) -> dict[Device, Held]:
        """Return what every device of a plan holds; idle devices are left out."""
        found: dict[Device, Held] = {}
        for pipeline, stages in zip(plan.pipelines, layout, strict=True):
            for stage, devices in zip(pipeline.stages, stages, strict=True):
                for unit, strategy in _units(plan, stage):
                    for rank, device in enumerate(devices):
                        own = found.setdefault(device, {})
                        for tensor, spans in self._of(unit, strategy, rank):
                            own[tensor] = spans
        return found

    def _of(
        self, unit: int, strategy: Strategy, rank: int
    ) -> Iterator[tuple[Tensor, Spans]]:
        zero = self.problem.training.zero if strategy.zero is None else strategy.zero
        sizes = self.sizes(unit)
        for part, (spans, shard, shards) in (
            ("dense", _dense(sizes, strategy, rank)),
            ("routed", _routed(sizes.routed, self.cuts, strategy, rank)),
        ):
            if not spans:
                continue
            shards = gcd(shards, self.problem.training.shard_group or shards)
            own = _cut(spans, shard % shards, shards)
            yield Tensor(unit, part, "weights"), own if zero >= 3 else spans
            yield Tensor(unit, part, "optimizer"), own if zero >= 1 else spans


def bytes_held(held: Mapping[Tensor, Spans], states: States) -> int:
    """Return the bytes that a device holds."""
    return sum(
        (end - begin) * states.bytes_of(tensor)
        for tensor, spans in held.items()
        for begin, end in spans
    )


@cache
def _sizes(model: Model, kind: str) -> Sizes:
    one, two = unit_parameters(model, kind, Shape.of([(1, 1, 1), (1, 1, 2)]).tp)
    # P(t) = whole + split / t.
    whole = max(0, round(float(2 * two - one)))
    routed = unit_expert_parameters(model, kind, Shape.of([(1, 1, 1)]))
    return Sizes(
        split=round(float(one)) - whole,
        whole=whole,
        routed=0 if routed is None else round(float(routed[0])),
    )


def _units(plan: Plan, stage: Stage) -> Iterator[tuple[int, Strategy]]:
    """Yield the units that a stage holds, each with its strategy."""
    if plan.chunks > 1:
        for first, end in plan.chunk_units(stage):
            for unit in range(first, end):
                yield unit, stage.strategy
        return
    for number, unit in enumerate(range(stage.first_unit, stage.end_unit)):
        own = stage.unit_strategies
        yield unit, stage.strategy if own is None else own[number]


def _dense(sizes: Sizes, strategy: Strategy, rank: int) -> tuple[Spans, int, int]:
    """Return a rank's dense parameters, its number among replicas, and their count."""
    split, tp = sizes.split, strategy.tp
    number = rank % tp
    spans = [(split * number // tp, split * (number + 1) // tp)]
    spans.append((split, split + sizes.whole))
    replicas = strategy.dp * strategy.cp
    return _filled(spans), rank // tp, replicas


def _routed(
    routed: int, cuts: int, strategy: Strategy, rank: int
) -> tuple[Spans, int, int]:
    """Return a rank's routed experts, its number among replicas, and their count."""
    ep, etp = strategy.ep, strategy.etp
    place = rank % (ep * etp)
    spread, cut = divmod(place, etp)
    spans = []
    for piece in range(cut * cuts // etp, (cut + 1) * cuts // etp):
        first, end = routed * piece // cuts, routed * (piece + 1) // cuts
        length = end - first
        spans.append(
            (first + length * spread // ep, first + length * (spread + 1) // ep)
        )
    return _filled(spans), rank // (ep * etp), strategy.devices // (ep * etp)


def _cut(spans: Spans, number: int, parts: int) -> Spans:
    """Return part ``number`` of ``parts`` equal parts of concatenated spans."""
    length = sum(end - begin for begin, end in spans)
    first, last = length * number // parts, length * (number + 1) // parts
    found, before = [], 0
    for begin, end in spans:
        found.append(
            (
                begin + min(max(first - before, 0), end - begin),
                begin + min(max(last - before, 0), end - begin),
            )
        )
        before += end - begin
    return _filled(found)


def _filled(spans: Iterable[tuple[int, int]]) -> Spans:
    return tuple(span for span in spans if span[0] < span[1])
