"""The best of all schedules: a child for each, with its chunks or its epsilon.

The problem's own schedule comes first: of equally good plans the first is reported.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.by_schedule import TablesBySchedule
from hetopt.cost.chunks import placed_units
from hetopt.errors import InputError
from hetopt.problem.training.choices import ADAPTIVE, ANY, INTERLEAVED, SCHEDULES
from hetopt.problem.training.epsilon import EPSILONS
from hetopt.results.certificate import PS_S
from hetopt.results.per_schedule import USUAL_CHUNKS
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.lengths.outcome import ensure_mixes
from hetopt.solvers.race.device_time import least_values
from hetopt.solvers.race.ledger import WIDER
from hetopt.solvers.search.node import Leaf
from hetopt.solvers.search.one_of import OneOf
from hetopt.solvers.search.space import Space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.solvers.search.node import Floats, Found, Node, OfLeaf


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleVariant:
    """A schedule with its chunks and epsilon, to replace those of a problem."""

    schedule: ScheduleName
    chunks: int = 1
    warmup_epsilon: float | None = None

    def of(self, problem: Problem) -> Problem:
        """Return the problem with this schedule."""
        return problem.under(self.schedule, self.chunks, self.warmup_epsilon)


def schedule_variants(
    problem: Problem, chunks: Iterable[int] = USUAL_CHUNKS
) -> tuple[ScheduleVariant, ...]:
    """Return every schedule that prescribes its warm-ups, the problem's own first.

    One whose warm-ups depend on times is tried with each usual epsilon, unless the
    problem chooses one.

    Parameters
    ----------
    chunks
        Numbers of chunks to try for a schedule with several, after the problem's; each
        at least 2.
    """
    training = problem.training
    given = (training.chunks,) if training.chunks > 1 else ()
    tried = dict.fromkeys((*given, *chunks))
    several = [ScheduleVariant(schedule=INTERLEAVED, chunks=v) for v in tried]
    chosen = training.warmup_epsilon
    epsilons = EPSILONS if chosen is None else (chosen,)
    one = [
        ScheduleVariant(schedule=name, warmup_epsilon=epsilon)
        for name in SCHEDULES
        if name != INTERLEAVED
        for epsilon in (epsilons if name == ADAPTIVE else (None,))
    ]
    own = ScheduleVariant(
        schedule=training.schedule,
        chunks=training.chunks if training.schedule == INTERLEAVED else 1,
        warmup_epsilon=training.epsilon if training.schedule == ADAPTIVE else None,
    )
    return tuple(sorted([*one, *several], key=lambda variant: variant != own))


def chunks_to_try(asked: Iterable[int] | None) -> tuple[int, ...]:
    """Return the numbers of chunks to try for a schedule with several.

    A 1 is left out: all other schedules have it, and they are searched anyway.

    Parameters
    ----------
    asked
        Numbers that the user gives; None: the usual ones.

    Raises
    ------
    InputError
        There is no number above 1.
    """
    chunks = tuple(v for v in asked or USUAL_CHUNKS if v > 1)
    if not chunks:
        msg = "is 1, which all other schedules have: name 2 or more, or leave it out"
        raise InputError(msg, field="chunks")
    return chunks


def run_by(
    variants: Iterable[ScheduleVariant],
    launcher: str,
    passed_over: Callable[[ScheduleVariant], str | None],
) -> tuple[ScheduleVariant, ...]:
    """Return the variants that a launcher can run.

    Parameters
    ----------
    passed_over
        Returns why it does not run one; None: it does.

    Raises
    ------
    InputError
        It can run none of them.
    """
    reasons = {each: passed_over(each) for each in variants}
    able = tuple(each for each, why in reasons.items() if why is None)
    if not able:
        names = ", ".join(dict.fromkeys(each.schedule for each in reasons))
        why = "; ".join(dict.fromkeys(why for why in reasons.values() if why))
        msg = f"is {ANY}, but {launcher} runs none of {names} ({why})"
        raise InputError(f"{msg}: use another launcher", field="schedule")
    return able


def under_any(problem: Problem, variants: Iterable[ScheduleVariant]) -> Problem:
    """Return a problem under the first schedule that can divide its model.

    Raises
    ------
    InputError
        None can; it says why the first cannot.
    """
    errors = []
    for variant in variants:
        try:
            found = variant.of(problem)
            placed_units(
                problem.model, variant.schedule, variant.chunks, found.pins.cuts
            )
            return found
        except InputError as error:
            errors.append(error)
    raise errors[0]


class Schedules(OneOf):
    """Every schedule under which a problem can be planned.

    Attributes
    ----------
    variants
        The schedules that are children, in their order.
    passed_over
        Those that the problem cannot have, or the launcher does not run, with the
        reason.

    Parameters
    ----------
    below
        Returns the node of a problem under one schedule.
    known
        Problems under each schedule with all nodes, shared by all nodes of this kind.
    ranks
        Place of each variant in the order of the search; None: that of the variants.
    divided
        Whether nodes may be divided among several pipelines.

    Raises
    ------
    InputError
        The problem can have none of them; it says why it cannot have the first.
    """

    by = "schedules"

    def __init__(
        self,
        space: Space,
        below: Callable[[Space], Node],
        variants: Sequence[ScheduleVariant],
        known: Mapping[ScheduleVariant, Space],
        passed_over: Mapping[ScheduleVariant, str],
        *,
        ranks: Mapping[ScheduleVariant, int] | None = None,
        top: int = 1,
        divided: bool = False,
    ) -> None:
        self.variants = tuple(each for each in variants if each in known)
        places = [ranks[each] if ranks else 0 for each in self.variants]
        self._ranks = np.array(places, dtype=np.int64)
        # The child that each plan is of.
        self._owners: dict[object, int] = {}
        # Each period of a plan, and the rest, may be rounded up.
        chunks = max((each.chunks for each in self.variants), default=1)
        periods = space.problem.training.global_batch * chunks
        self._rounding_s = (periods + 1) * PS_S
        self.passed_over = passed_over
        self._space, self._below, self._known = space, below, known
        least_s = float(space.least_s(space.counts[np.newaxis], divided=divided)[0])
        # If this schedule has no strategy, another one may.
        least_s = least_s if np.isfinite(least_s) else 0.0
        least = np.full(len(self.variants), least_s)
        super().__init__(least, self._child, top=top)

    def _child(self, index: int) -> Node:
        own = self._known[self.variants[index]]
        nodes = self._space.nodes
        node = self._below(own if nodes is None else own.rented(nodes))
        if isinstance(node, Leaf):
            node.memory[WIDER] = next(self._wider(index), None)
        return node

    def _wider(self, index: int) -> Iterator[dict[str, Any]]:
        """Yield what searches keep whose bounds hold for a child."""
        for other, node in self.known.nodes.items():
            pair = self.variants[other], self.variants[index]
            if isinstance(node, Leaf) and bounds(self._known, *pair):
                yield node.memory

    def edit(self, index: int) -> Any:
        """Return the schedule with its chunks and epsilon."""
        return asdict(self.variants[index])

    def first(self, open_: NDArray[np.int64]) -> int:
        """See ``OneOf``; of equal bounds, the one that had the least time.

        Else a search that raises no bound would be repeated, twice as long each time,
        before that of any other schedule begins. Of these, the one that ranks first.
        """
        rest, nodes = self.known.rest[open_], self.known.nodes

        def key(index: int) -> tuple[float, int]:
            leaves = nodes[index].searched() if index in nodes else ()
            return sum(leaf.slice_s for leaf in leaves), int(self._ranks[index])

        equal: list[int] = open_[rest == rest.min()].tolist()
        return min(equal, key=key)

    def cutoffs(self, cutoff: float) -> Floats:
        """See ``OneOf``; schedules before that of the last plan may have its equal."""
        limits = super().cutoffs(cutoff)
        if self.last <= cutoff < np.inf:
            limits[: self._owners[self.best[-1].shape]] += self._rounding_s
        return limits

    def taken(self, index: int, found: Found) -> Found:
        """See ``OneOf``."""
        self._owners[found.shape] = index
        return found

    def ranked(self, plans: Sequence[Found]) -> tuple[Found, ...]:
        """See ``OneOf``; of equally good plans, those of the first schedules."""
        owners = self._owners
        ordered = sorted(plans, key=lambda each: (each.value, owners[each.shape]))
        return super().ranked(ordered)

    def claim(self, of_leaf: OfLeaf | None = None) -> dict[str, Any] | None:
        """Return the claims, and the schedules that were passed over."""
        passed = [
            {"at": asdict(variant), "passed_over": why}
            for variant, why in self.passed_over.items()
        ]
        claims = super().claim(of_leaf)
        assert claims is not None
        return {**claims, "children": [*claims["children"], *passed]}


def spaces_of(
    space: Space, variants: Iterable[ScheduleVariant]
) -> tuple[dict[ScheduleVariant, Space], dict[ScheduleVariant, str]]:
    """Return a problem under each schedule, and why it cannot have the others.

    Raises
    ------
    InputError
        It can have none of them; it says why it cannot have the first.
    """
    known: dict[ScheduleVariant, Space] = {}
    tables = TablesBySchedule(space.problem, space.table)
    errors: dict[ScheduleVariant, InputError] = {}
    for variant in variants:
        try:
            problem = variant.of(space.problem)
            placed_units(
                problem.model, variant.schedule, variant.chunks, problem.pins.cuts
            )
            if problem.training.lengths is not None:
                ensure_mixes(variant.schedule)
        except InputError as error:
            errors[variant] = error
            continue
        known[variant] = space
        if problem != space.problem:
            table = partial(tables.of, problem)
            known[variant] = Space(problem, table, devices=space.devices)
    if not known:
        raise next(iter(errors.values()))
    return known, {variant: _reason(error) for variant, error in errors.items()}


def ranks_of(known: Mapping[ScheduleVariant, Space]) -> dict[ScheduleVariant, int]:
    """Return the place of each schedule in the order in which they are searched.

    The first one comes first, as it is the problem's own; its plan is the cutoff of all
    others. Then the least bound by device time comes first, as its plan is likely to be
    better. Of equal ones that one comes first whose bounds hold for most others.
    """
    own = next(iter(known))

    def key(variant: ScheduleVariant) -> tuple[bool, float, int]:
        try:
            least = least_values(known[variant].table, closed=True)
        except InputError:
            return variant != own, np.inf, 0
        valid_for = sum(bounds(known, variant, other) for other in known)
        return variant != own, min(least.values(), default=np.inf), -valid_for

    return {variant: place for place, variant in enumerate(sorted(known, key=key))}


def bounds(
    known: Mapping[ScheduleVariant, Space], one: ScheduleVariant, other: ScheduleVariant
) -> bool:
    """Whether bounds on all plans under a schedule hold under another one."""
    rule = rule_of(other.schedule, other.warmup_epsilon)
    if not rule_of(one.schedule, one.warmup_epsilon).bounds(rule):
        return False
    try:
        both = known[one].table.slices, known[other].table.slices
    except InputError:
        return False
    if len(both[0]) != len(both[1]):
        return False
    # Transfers that block cannot share links.
    return all(
        a is b and not (rule.blocking and a.shared is not None)
        for a, b in zip(*both, strict=True)
    )


def _reason(error: InputError) -> str:
    """Return why a problem cannot have a schedule, with the field."""
    is_option = error.field is None or error.field.startswith("--")
    return error.message if is_option else f"{error.field}: {error.message}"
