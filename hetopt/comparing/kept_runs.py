"""Keep the runs of a comparison in a file, to resume it after an interruption.

A kept run is used if everything that may change its outcome is the same: problem,
solver, limits, seed, cores and hetopt's version. A run without an answer is made again,
and a plan is checked again before it is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.base.line_file import LineFile
from hetopt.base.machine import processor
from hetopt.base.words import counted
from hetopt.cost.build import build_table
from hetopt.errors import HetoptError
from hetopt.planning.posed import Posed
from hetopt.planning.side_by_side import Improvement, Run, Space, fields_of
from hetopt.problem.digest import problem_digest
from hetopt.results.result import Result
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.planning.side_by_side import Entry
    from hetopt.problem.problem import Problem

RUNS_SCHEMA = "hetopt-runs/1"
#: Times of a run beside its result.
_TIMES = ("search_time_s", "process_time_s", "taken_share")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A run, and the seconds of its solver's first run."""

    run: Run
    warm_up_s: float


class KeptRuns:
    """The runs that a file keeps.

    Parameters
    ----------
    path
        Path of the file, which is created if it does not exist.
    said
        Called with one line for every kept run that is used.
    fresh
        Whether to remove the runs in the file first.

    Raises
    ------
    InputError
        The file holds something else, or cannot be written.
    """

    def __init__(
        self, path: str, *, said: Callable[[str], None], fresh: bool = False
    ) -> None:
        self._said = said
        self._count = 0
        self._file = LineFile(path, "kept runs")
        header = {"schema": RUNS_SCHEMA}
        self._entries = [data for _, data in self._file.resume(header)]
        if fresh:
            Path(path).write_bytes(b"")
            self._file.append(header)
            self._entries = []

    def find(self, problem: Problem, entry: Entry) -> Kept | None:
        """Return the kept run of an entry; None if it has to be made."""
        key = _key(problem, entry)
        for data in self._entries:
            try:
                if data["of"] != key:
                    continue
                kept = _read(data, problem, entry)
            except (HetoptError, LookupError, TypeError, ValueError):
                # The line was changed: make the run again.
                continue
            self._count += 1
            name = f"{entry.label}{Space(entry.asked).label}"
            seed = "" if entry.seed is None else f", seed {entry.seed}"
            self._said(f"{problem.name}: {name}{seed}: reused from {self._file.path}")
            return kept
        return None

    def add(self, problem: Problem, run: Run, warm_up_s: float) -> None:
        """Keep a run unless it has no answer."""
        if run.result is None:
            return
        self._count += 1
        self._file.append(
            {
                "of": _key(problem, run.entry),
                "warm_up_s": warm_up_s,
                "trace": [[each.elapsed_s, each.closed_form_s] for each in run.trace],
                "result": run.result.to_json(),
                **{name: getattr(run, name) for name in _TIMES},
            }
        )

    def summary(self) -> str:
        """Return one line on what is kept of an interrupted comparison."""
        if self._file.failure is not None:
            return f"stopped: interrupted; {self._file.failure}"
        runs = counted(self._count, "run")
        return (
            f"stopped: interrupted; {self._file.path} keeps {runs}, and the same "
            "command goes on from there"
        )

    def remove(self) -> None:
        """Remove the file, whose runs are all in the comparison now."""
        self._file.close()
        Path(self._file.path).unlink(missing_ok=True)


def _key(problem: Problem, entry: Entry) -> dict[str, Any]:
    """Return everything that may change a run's outcome, as plain JSON data."""
    return {
        "problem_digest": problem_digest(problem),
        "solver": entry.solver,
        "seed": entry.seed,
        "iterations": entry.iterations,
        "exploration": entry.exploration,
        "relaxed": list(entry.principles.relaxed),
        "every_cluster": entry.every_cluster,
        "asked": list(entry.asked.relaxed),
        "time_limit_s": entry.time_limit_s,
        "jobs": entry.jobs,
        "launcher": entry.launcher,
        "pipelines": entry.pipelines,
        "chunks": entry.chunks and list(entry.chunks),
        "cutoff_s": entry.cutoff_s,
        "machine": processor(),
        "version": __version__,
    }


def _read(data: dict[str, Any], problem: Problem, entry: Entry) -> Kept:
    """Return a kept run; raise an error that ``find`` catches if it was changed."""
    result = Result.from_json(data["result"])
    posed = Posed.of(entry.search(problem))
    if result.best is not None and posed.over.schedules:
        plan = result.best.plan
        own = posed.problem.of_plan(
            plan.schedule, plan.chunks, plan.warmup_epsilon, plan.cuts
        )
        result = replace(result, problem=own, table=build_table(own))
    run = Run(
        entry=entry,
        trace=tuple(
            Improvement(elapsed_s=float(elapsed_s), closed_form_s=float(value_s))
            for elapsed_s, value_s in data["trace"]
        ),
        **{name: data[name] for name in _TIMES},
        **fields_of(result, entry.checked(problem, posed, result)),
    )
    return Kept(run=run, warm_up_s=float(data["warm_up_s"]))
