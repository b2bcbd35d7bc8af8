"""The schedules that a search for the best one tries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.cost.chunks import placed_units
from hetopt.errors import InputError
from hetopt.problem.training.choices import ADAPTIVE, INTERLEAVED, SCHEDULES
from hetopt.problem.training.training import EPSILONS
from hetopt.results.per_schedule import BEST, USUAL_CHUNKS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName


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
        Numbers of chunks to try for a schedule with several; each at least 2.
    """
    training = problem.training
    tried = list(chunks)
    if training.schedule == INTERLEAVED and training.chunks not in tried:
        tried = [training.chunks, *tried]
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
        chunks=training.chunks,
        warmup_epsilon=training.epsilon,
    )
    return tuple(sorted([*one, *several], key=lambda variant: variant != own))


def chunks_to_try(asked: Iterable[int] | None, *, field: str) -> tuple[int, ...]:
    """Return the numbers of chunks to try for a schedule with several.

    A 1 is left out: all other schedules have it, and they are searched anyway.

    Parameters
    ----------
    asked
        Numbers that the user gives; None: the usual ones.
    field
        Option that gives them.

    Raises
    ------
    InputError
        There is no number above 1.
    """
    chunks = tuple(v for v in asked or USUAL_CHUNKS if v > 1)
    if not chunks:
        msg = "is 1, which all other schedules have: name 2 or more, or leave it out"
        raise InputError(msg, field=field)
    return chunks


def run_by(
    variants: Iterable[ScheduleVariant],
    launcher: str,
    schedules: Collection[ScheduleName],
) -> tuple[ScheduleVariant, ...]:
    """Return the variants that a launcher can run, which has these schedules.

    Raises
    ------
    InputError
        It can run none of them.
    """
    tried = tuple(variants)
    able = tuple(each for each in tried if each.schedule in schedules)
    if not able:
        names = ", ".join(dict.fromkeys(each.schedule for each in tried))
        msg = f"is {BEST}, but {launcher} runs none of {names}: use another launcher"
        raise InputError(msg, field="schedule")
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
            placed_units(problem.model, variant.schedule, variant.chunks)
            return variant.of(problem)
        except InputError as error:
            errors.append(error)
    raise errors[0]
