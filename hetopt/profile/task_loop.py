"""Run measuring tasks one after the other, and save each result immediately."""

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

#: Largest share of the time budget that one task may be expected to take.
MOST_SHARE = 0.04

#: Assumed ratio of actual to expected time for the first task of a kind.
FIRST_PACE = 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringProgress:
    """Progress of a run.

    Attributes
    ----------
    done, total
        Numbers of tasks, including those that the file had before.
    work_done, work_total
        Tasks of this run, weighted by their expected times.
    what
        Name of the things measured, in the plural.
    label
        Label of the current task; None at the end.
    """

    done: int
    total: int
    work_done: float
    work_total: float
    what: str
    label: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringOutcome(Generic[Row]):
    """Result of a run.

    Attributes
    ----------
    found
        Number of tasks whose rows the file had before.
    measured
        Results task by task, including those that ran out of memory.
    remaining
        Number of tasks not measured: the run was interrupted, or its time was up.
    interrupted
        Whether the user stopped the run.
    """

    found: int
    measured: tuple[Row, ...]
    remaining: int
    interrupted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Generic[Row]):
    """One thing to measure.

    Attributes
    ----------
    label
        Short description.
    kind
        Tasks of one kind exceed their expected times by similar factors.
    expected_s
        Estimated seconds.
    measure
        Function that measures and returns the result.
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
    most_share: float = MOST_SHARE,
) -> MeasuringOutcome[Row]:
    """Measure one task after the other; Ctrl-C stops and keeps finished tasks.

    Parameters
    ----------
    keep
        Saves a task's result; Ctrl-C does not interrupt it.
    found, what
        Number of further tasks that the file had before; name of the things measured.
    budget_s
        Time budget. A task that is expected to exceed it, or to take more than
        ``most_share`` of it, is postponed, and left out if that is still so after the
        others. Expected times are scaled by those of earlier tasks of the same kind.
    """
    measured: list[Row] = []
    pacing = _Pacing(budget_s, most_share)
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
        # Only the task in progress is lost.
        interrupted = True
    return MeasuringOutcome(
        found=found,
        measured=tuple(measured),
        remaining=len(tasks) - len(measured),
        interrupted=interrupted,
    )


class _Pacing:
    """Choice of tasks within a time budget, by the times of finished tasks."""

    def __init__(self, budget_s: float, most_share: float) -> None:
        self.most_s = most_share * budget_s
        self.end = time.monotonic() + budget_s
        self.taken_s: dict[str, float] = defaultdict(float)
        self.guessed_s: dict[str, float] = defaultdict(float)

    @property
    def work_done(self) -> float:
        """Sum of the expected times of finished tasks."""
        return sum(self.guessed_s.values())

    def affordable(self, tasks: Sequence[Task[Row]]) -> Iterator[Task[Row]]:
        """Yield the tasks that fit in the budget, postponed ones last."""
        waiting: list[Task[Row]] = []
        for turn in (tasks, waiting):
            for task in tuple(turn):
                begun = time.monotonic()
                expected_s = task.expected_s * self._pace(task.kind)
                if expected_s > min(self.end - begun, self.most_s):
                    waiting.append(task)
                    continue
                yield task
                self.taken_s[task.kind] += time.monotonic() - begun
                self.guessed_s[task.kind] += task.expected_s

    def _pace(self, kind: str) -> float:
        """Return the ratio of actual to expected time of a kind."""
        guessed_s = self.guessed_s[kind]
        return self.taken_s[kind] / guessed_s if guessed_s else FIRST_PACE
