"""Compare solvers, one run after the other, alone on the machine."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from hetopt.base.machine import machine
from hetopt.planning.side_by_side import Entry, Run, Space, run_apart, warm_up
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.choices import ANY
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.report.comparison.comparison import Comparison, Contest, reference
from hetopt.solvers.registry import solver

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from hetopt.comparing.kept_runs import KeptRuns
    from hetopt.problem.problem import Problem

#: Solvers that settle any space or give a lower bound: these need no reference.
_ANY_SPACE = ("dp", "auto")
REFERENCE = "dp"
#: Share by which the cutoff is above the best known plan, so that one as good is found.
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
    """Run every entry on every problem, and the references they are measured by.

    A space that no entry settles is searched by ``dp`` as a reference. It gets the same
    time, and the best plan of the others as its cutoff: only its lower bound matters.

    Parameters
    ----------
    told
        Called with one line before every run, and before and after every warm-up.
    kept
        Runs of an interrupted comparison, which are not made again; every new run is
        added to it at once.
    """
    runner = _Runner(told, kept, problems, entries)
    contests = []
    for problem in problems:
        runs = [
            runner.run(problem, entry) for entry in entries if _fits(entry, problem)
        ]
        extra = [
            runner.run(problem, entry, reference=True) for entry in _references(runs)
        ]
        own = problem.training
        contests.append(
            Contest(
                problem=problem.name,
                digest=problem_digest(problem),
                schedule=ANY if own.any_schedule else own.schedule,
                runs=tuple(runs),
                extra=tuple(extra),
            )
        )
    return Comparison(
        machine=machine(),
        time_limit_s=time_limit_s,
        jobs=jobs,
        warm_up_s=runner.warm_up_s,
        contests=tuple(contests),
    )


def most_runs(problems: Sequence[Problem], entries: Sequence[Entry]) -> int:
    """Return the most runs that a comparison makes, with those for reference."""
    count = 0
    for problem in problems:
        own = [entry for entry in entries if _fits(entry, problem)]
        settled = {entry.space for entry in own if entry.solver in _ANY_SPACE}
        count += len(own) + len({entry.space for entry in own} - settled)
    return count


def _references(runs: Sequence[Run]) -> Iterator[Entry]:
    """Yield a search of each space that is not settled but has a plan."""
    for space in _unsettled(runs):
        known = reference(runs, space)
        if known is not None:
            yield replace(
                runs[0].entry,
                solver=REFERENCE,
                seed=None,
                principles=space.principles,
                every_cluster=space.every_cluster,
                asked=space.principles,
                cutoff_s=known.value_s * (1 + _ROOM),
            )


class _Runner:
    """Makes runs, after a first run of each solver that is not timed.

    Attributes
    ----------
    warm_up_s
        Seconds of each solver's first run.
    """

    def __init__(
        self,
        told: Callable[[str], None],
        kept: KeptRuns | None,
        problems: Sequence[Problem],
        entries: Sequence[Entry],
    ) -> None:
        self.warm_up_s: dict[str, float] = {}
        self._warm: set[str] = set()
        self._told = told
        self._kept = kept
        # Without those for reference, which are not known yet.
        self._runs = sum(_fits(*pair) for pair in product(entries, problems))
        self._warm_ups = len(set(map(_name, entries)))
        self._count = self._warmed = 0

    def run(self, problem: Problem, entry: Entry, *, reference: bool = False) -> Run:
        """Return a run that was kept, or make it."""
        name = _name(entry)
        self._count += not reference
        known = None if self._kept is None else self._kept.find(problem, entry)
        if known is not None:
            self.warm_up_s.setdefault(name, known.warm_up_s)
            return known.run
        if name not in self._warm:
            self._warm.add(name)
            self._warmed += not reference
            place = f"{self._warmed} of {self._warm_ups}"
            self._warm_up(name, "for reference" if reference else place, problem, entry)
        seed = "" if entry.seed is None else f", seed {entry.seed}"
        told = f"{entry.label}{Space(entry.asked).label}"
        place = "for reference" if reference else f"{self._count} of {self._runs}"
        self._told(f"run {place}: {problem.name}, {told}{seed}")
        made = run_apart(problem, entry)
        if self._kept is not None:
            self._kept.add(problem, made, self.warm_up_s[name])
        return made

    def _warm_up(self, name: str, place: str, problem: Problem, entry: Entry) -> None:
        """Let a solver plan a tiny problem, which compiles what it needs."""
        which = f"warm-up {place}, not timed: {name}"
        self._told(f"{which} plans a tiny problem, so that its code is compiled")
        self.warm_up_s[name] = warm_up(entry, problem.training.schedule)
        self._told(f"{which} took {self.warm_up_s[name]:.1f} s")


def _name(entry: Entry) -> str:
    """Return a solver's name with its space, which has its own code to compile."""
    return f"{entry.solver}{Space(entry.asked).label}"


def _fits(entry: Entry, problem: Problem) -> bool:
    """Whether a run differs from that without the demand to use every cluster."""
    return not entry.every_cluster or len(problem.clusters) > 1


def entries_of(
    solvers: Iterable[str],
    *,
    seeds: Sequence[int],
    principles: Principles = PRUNED,
    **how: Any,
) -> list[Entry]:
    """Return the runs to make: one for each solver, or for each seed if it samples.

    Solvers whose papers use every cluster have two, the second one with that demand.

    Parameters
    ----------
    principles
        Principles that plans have to keep; heuristics of a wider space have their own.
    how
        Further fields of every entry.
    """
    entries = []
    for name in solvers:
        known = solver(name)
        wider = known.space if known.space.relaxed else None
        one = Entry(
            solver=name,
            principles=wider or principles,
            asked=PRUNED if wider else principles,
            **how,
        )
        if known.samples:
            entries += [replace(one, seed=seed) for seed in seeds]
        else:
            entries.append(one)
        if known.every_cluster:
            entries.append(replace(one, every_cluster=True))
    return entries


def _unsettled(runs: Sequence[Run]) -> list[Space]:
    """Return the spaces with a plan that no run has settled or bounded."""
    spaces = dict.fromkeys(run.entry.space for run in runs if run.plan is not None)
    return [
        space
        for space in spaces
        if not any(
            run.entry.space == space
            and (run.status == "optimal" or run.entry.solver in _ANY_SPACE)
            for run in runs
        )
    ]
