"""Runs a comparison of solvers, one run after the other, alone on the machine."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt import __version__
from hetopt.problem.digest import problem_digest
from hetopt.problem.principles import PRUNED, Principles
from hetopt.report.comparison import Comparison, Contest, reference, without
from hetopt.solvers.registry import solver
from hetopt.solvers.side_by_side import Entry, Run, run_apart, warm_up

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hetopt.kept_runs import KeptRuns
    from hetopt.problem.problem import Problem

#: Solvers that settle any space, or say how far they came: their word is enough.
_ANY_SPACE = ("dp", "auto")
_REFERENCE = "dp"
#: A little above the best plan known, so that its like is found again.
_ROOM = 1e-9


def compare(
    problems: Sequence[Problem],
    entries: Sequence[Entry],
    *,
    time_limit_s: float,
    jobs: int | None,
    told: Callable[[str], None],
    kept: KeptRuns | None = None,
) -> Comparison:
    """Run every entry on every problem, and what else is needed to judge them.

    Heuristics of a space whose optimum nobody was asked for are measured by ``dp``,
    which gets the same time, and starts from the best plan of the others: only what
    it proves matters.

    Parameters
    ----------
    told
        Called with one line before every run.
    kept
        Runs of a comparison that was cut off, which are not made again; takes every
        run as soon as it is made.
    """
    warm_up_s: dict[str, float] = {}
    warm: set[str] = set()

    def run(problem: Problem, entry: Entry) -> Run:
        # A wider space has code of its own.
        name = f"{entry.solver}{without(entry.asked.relaxed)}"
        known = None if kept is None else kept.find(problem, entry)
        if known is not None:
            warm_up_s.setdefault(name, known.warm_up_s)
            return known.run
        if name not in warm:
            told(f"{name}: first run, not counted")
            warm_up_s[name] = warm_up(entry, problem.training.schedule)
            warm.add(name)
        seed = "" if entry.seed is None else f", seed {entry.seed}"
        told(f"{problem.name}: {name}{seed}")
        made = run_apart(problem, entry)
        if kept is not None:
            kept.add(problem, made, warm_up_s[name])
        return made

    contests = []
    for problem in problems:
        runs = [run(problem, entry) for entry in entries]
        extra = [
            run(
                problem,
                Entry(
                    solver=_REFERENCE,
                    principles=space,
                    asked=space,
                    time_limit_s=time_limit_s,
                    jobs=jobs,
                    cutoff_s=known.value_s * (1 + _ROOM),
                ),
            )
            for space in _unsettled(runs)
            if (known := reference(runs, space)) is not None
        ]
        contests.append(
            Contest(
                problem=problem.name,
                digest=problem_digest(problem),
                schedule=problem.training.schedule,
                runs=tuple(runs),
                extra=tuple(extra),
            )
        )
    return Comparison(
        machine=machine(),
        time_limit_s=time_limit_s,
        jobs=jobs,
        warm_up_s=warm_up_s,
        contests=tuple(contests),
    )


def entries_of(
    solvers: Iterable[str],
    *,
    seeds: Sequence[int],
    principles: Principles = PRUNED,
    time_limit_s: float,
    jobs: int | None,
) -> list[Entry]:
    """Return what to run: once each, but solvers that draw at random once per seed.

    Parameters
    ----------
    principles
        What solvers are asked to keep; heuristics of a wider space have their own.
    """
    entries = []
    for name in solvers:
        known = solver(name)
        wider = known.space if known.space.relaxed else None
        one = Entry(
            solver=name,
            principles=wider or principles,
            asked=PRUNED if wider else principles,
            time_limit_s=time_limit_s,
            jobs=jobs,
        )
        if known.samples:
            entries += [replace(one, seed=seed) for seed in seeds]
        else:
            entries.append(one)
    return entries


def machine() -> str:
    """Return what this runs on, in words."""
    load = ""
    if hasattr(os, "getloadavg"):
        load = f", load average {os.getloadavg()[0]:.1f} at the end"
    return (
        f"{processor()}{load}, Python {platform.python_version()}, hetopt {__version__}"
    )


def processor() -> str:
    """Return the cores there are, of which kind, and the system."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    return f"{cores} cores ({_name()}, {platform.system()})"


def _name() -> str:
    """Return the processor's name; where the system has none, its architecture."""
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return f"{value.strip()}, {platform.machine()}"
    return platform.machine()


def _unsettled(runs: Sequence[Run]) -> list[Principles]:
    """Return the spaces of plans that no run has settled, nor could have."""
    spaces = dict.fromkeys(run.entry.principles for run in runs if run.plan is not None)
    return [
        space
        for space in spaces
        if not any(
            run.entry.principles == space
            and (run.status == "optimal" or run.entry.solver in _ANY_SPACE)
            for run in runs
        )
    ]
