"""Keep the runs of a comparison in a file, to resume it after an interruption.

A kept run is used if everything that may change its outcome is the same: problem,
solver, limits, seed, cores and hetopt's version. A run without an answer is made again,
and a plan is checked again before it is used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hetopt.base.line_file import LineFile
from hetopt.base.machine import processor
from hetopt.base.words import counted
from hetopt.check import check_plan
from hetopt.check.plan.reading import read_plan
from hetopt.cost.build import build_table
from hetopt.errors import HetoptError, InputError
from hetopt.problem.digest import problem_digest
from hetopt.results.money import cost_of
from hetopt.results.result import Status
from hetopt.solvers.side_by_side import Improvement, Run, Space
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.solvers.side_by_side import Entry

RUNS_SCHEMA = "hetopt-runs/1"
#: Fields of a run that are numbers, or null.
_NUMBERS = (
    "closed_form_s",
    "iteration_time_s",
    "lower_bound_s",
    "gap",
    "search_time_s",
    "process_time_s",
    "taken_share",
)
#: Largest relative difference, by rounding, of closed forms that are the same.
_SAME = 1e-9


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
        self._file = LineFile(path, "runs of a comparison")
        self._entries: list[dict[str, Any]] = []
        self._count = 0
        self._tables: dict[str, CostTable] = {}
        lines, torn = self._file.read()
        entries = [_entry(path, *numbered) for numbered in enumerate(lines, start=1)]
        if not lines and not json.dumps(_header()).encode().startswith(torn):
            raise _foreign(path, 1)
        self._file.cut(torn)
        if fresh:
            Path(path).write_bytes(b"")
            entries = []
        self._entries = entries[1:]
        if not entries:
            self._file.append(_header())
        if self._file.failure is not None:
            raise self._file.failure

    def find(self, problem: Problem, entry: Entry) -> Kept | None:
        """Return the kept run of an entry; None if it has to be made."""
        key = _key(problem, entry)
        digest = key["problem_digest"]
        for data in self._entries:
            if data.get("of") != key:
                continue
            if digest not in self._tables:
                self._tables[digest] = build_table(problem)
            try:
                kept = _read(data, problem, entry, self._tables[digest])
            except (HetoptError, KeyError, TypeError, ValueError):
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
        if run.status is None:
            return
        self._count += 1
        self._file.append(
            {
                "of": _key(problem, run.entry),
                "warm_up_s": warm_up_s,
                "status": run.status,
                "failure": run.failure,
                "trace": [[each.elapsed_s, each.closed_form_s] for each in run.trace],
                "plan": None if run.plan is None else run.plan.to_json(),
                **{name: getattr(run, name) for name in _NUMBERS},
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


def _header() -> dict[str, str]:
    return {"schema": RUNS_SCHEMA}


def _entry(path: str, number: int, line: bytes) -> dict[str, Any]:
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or (number == 1 and data != _header()):
        raise _foreign(path, number)
    return data


def _foreign(path: str, number: int) -> InputError:
    msg = "is not a line of kept runs: remove this file, or name another folder"
    return InputError(msg, file=path, line=number)


def _key(problem: Problem, entry: Entry) -> dict[str, Any]:
    """Return everything that may change a run's outcome, as plain JSON data."""
    return {
        "problem_digest": problem_digest(problem),
        "solver": entry.solver,
        "seed": entry.seed,
        "relaxed": list(entry.principles.relaxed),
        "every_cluster": entry.every_cluster,
        "asked": list(entry.asked.relaxed),
        "time_limit_s": entry.time_limit_s,
        "jobs": entry.jobs,
        "cutoff_s": entry.cutoff_s,
        "machine": processor(),
        "version": __version__,
    }


def _read(
    data: dict[str, Any], problem: Problem, entry: Entry, table: CostTable
) -> Kept:
    """Return a kept run; raise an error that ``find`` catches if it was changed."""
    plan = None if data["plan"] is None else read_plan(data["plan"], "plan")
    closed_s = data["closed_form_s"]
    if (plan is None) != (closed_s is None) or data["status"] not in get_args(Status):
        raise ValueError(data["status"])
    if plan is not None:
        used = {stage.cluster for stage in plan.pipeline.stages}
        pins = entry.posed(problem).pins
        needed = {
            c.name for c in problem.clusters if not pins.of(c.name).stages.permits(0)
        }
        if not needed <= used:
            raise ValueError(needed - used)
        checked = check_plan(problem, table, plan, entry.principles)
        if abs(checked.closed_form_s - closed_s) > _SAME * closed_s:
            raise ValueError(closed_s)
    numbers: dict[str, Any] = {
        name: None if data[name] is None else float(data[name]) for name in _NUMBERS
    }
    time_s = numbers["iteration_time_s"]
    run = Run(
        entry=entry,
        cost=None if plan is None else cost_of(problem, plan, time_s),
        status=data["status"],
        failure=data["failure"],
        plan=plan,
        trace=tuple(
            Improvement(elapsed_s=float(elapsed_s), closed_form_s=float(value_s))
            for elapsed_s, value_s in data["trace"]
        ),
        **numbers,
    )
    return Kept(run=run, warm_up_s=float(data["warm_up_s"]))
