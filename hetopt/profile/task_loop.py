"""Measures one thing after the other, and keeps each before the next begins."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from hetopt.base.interruption import held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Row = TypeVar("Row")

#: Of a time budget, the most that one task may be expected to take.
MOST_SHARE = 0.04

#: Actual over expected time that is assumed for the first task of a kind.
FIRST_PACE = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringProgress:
    """How far a run has come.

    Attributes
    ----------
    done, total
        Tasks, those that the file held before among them.
    work_done, work_total
        The tasks of this run, weighted by their expected times.
    what
        What is measured, in the plural.
    label
        What is measured now; None at the end.
    """

    done: int
    total: int
    work_done: float
    work_total: float
    what: str
    label: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringOutcome(Generic[Row]):
    """What a run did.

    Attributes
    ----------
    found
        Tasks whose rows the file held before.
    measured
        What was measured, task by task; out-of-memory rows among them.
    remaining
        Tasks still to measure: the run was interrupted, or its time was up.
    interrupted
        Whether the user stopped it.
    """

    found: int
    measured: tuple[Row, ...]
    remaining: int
    interrupted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[Row]):
    """Something to measure.

    Attributes
    ----------
    label
        What it is, in a few words.
    kind
        Tasks of one kind exceed their expected times by similar factors.
    expected_s
        About how long it takes.
    measure
        Does it.
    """

    label: str
    kind: str
    expected_s: float
    measure: Callable[[], Row]


def measure_tasks(
    tasks: Sequence[Task[Row]],
    keep: Callable[[Row], None],
    on_progress: Callable[[MeasuringProgress], None],
    *,
    found: int,
    what: str,
    budget_s: float = math.inf,
) -> MeasuringOutcome[Row]:
    """Measure one task after the other; Ctrl-C stops between two.

    Parameters
    ----------
    keep
        Writes down what was measured; not interrupted by Ctrl-C.
    found, what
        How many further tasks the file held before; what tasks measure, in the plural.
    budget_s
        Time to measure in. A task that would pass its end, or take more than
        ``MOST_SHARE`` of it, waits for the others, and is left out if it still would:
        what it takes is expected from tasks of its kind before it.
    """
    measured: list[Row] = []
    pacing = _Pacing(budget_s)
    interrupted = False

    def report(label: str | None) -> None:
        on_progress(
            MeasuringProgress(
                done=found + len(measured),
                total=found + len(tasks),
                work_done=pacing.work_done,
                work_total=sum(task.expected_s for task in tasks),
                what=what,
                label=label,
            )
        )

    try:
        for task in pacing.affordable(tasks):
            report(task.label)
            row = task.measure()
            with held():
                keep(row)
                measured.append(row)
        report(None)
    except KeyboardInterrupt:
        # Only what was being measured is lost.
        interrupted = True
    return MeasuringOutcome(
        found=found,
        measured=tuple(measured),
        remaining=len(tasks) - len(measured),
        interrupted=interrupted,
    )


class _Pacing:
    """Keeps to a budget by what tasks of each kind have taken so far."""

    def __init__(self, budget_s: float) -> None:
        self.budget_s = budget_s
        self.end = time.monotonic() + budget_s
        self.taken_s: dict[str, float] = defaultdict(float)
        self.guessed_s: dict[str, float] = defaultdict(float)

    @property
    def work_done(self) -> float:
        """Return the expected times of the tasks that are done."""
        return sum(self.guessed_s.values())

    def affordable(self, tasks: Sequence[Task[Row]]) -> Iterator[Task[Row]]:
        """Yield the tasks that the time allows for, those that had to wait last."""
        waiting: list[Task[Row]] = []
        for turn in (tasks, waiting):
            for task in tuple(turn):
                begun = time.monotonic()
                expected_s = task.expected_s * self._pace(task.kind)
                if expected_s > min(self.end - begun, MOST_SHARE * self.budget_s):
                    waiting.append(task)
                    continue
                yield task
                self.taken_s[task.kind] += time.monotonic() - begun
                self.guessed_s[task.kind] += task.expected_s

    def _pace(self, kind: str) -> float:
        """Return actual over expected time."""
        guessed_s = self.guessed_s[kind]
        return self.taken_s[kind] / guessed_s if guessed_s else FIRST_PACE
