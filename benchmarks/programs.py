"""The programs on which formulations are compared, as the race makes them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType, SimpleNamespace
from typing import TYPE_CHECKING, NoReturn

from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.errors import SolverError
from hetopt.formulations.ceiling import objective_ceiling
from hetopt.formulations.program import ProgramData
from hetopt.pricing.price import pipeline_times
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from hetopt.problem.training.pins import Domain
from hetopt.solvers.cp_sat import solve
from hetopt.solvers.decisions.assembly import value_of
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race.engine import Engine, EngineRun
from hetopt.solvers.race.messages import Payload, SettleTask
from hetopt.solvers.race.worker import Worker
from hetopt.solvers.request import Request

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result

#: Seed of every engine and race.
SEED = 0
RACE_LIMIT_S = 900

#: The programs compared, (p, q), by problem.
PROGRAMS = MappingProxyType(
    {
        "hetauto-exp1": ((1, 32), (2, 32), (4, 32), (8, 32)),
        "hetauto-exp2": ((3, 32),),
    }
)
#: All programs of this problem that bounds do not refute are cases.
RACED = "hetauto-exp3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A program in one variant; ``data`` is None if bounds refute it."""

    problem: str
    stages: int
    microbatches: int
    variant: str
    data: ProgramData | None


class Asked(Exception):
    """An engine would have been asked to settle this program.

    Attributes
    ----------
    data
        The program, within its cutoff and narrowed.
    """

    def __init__(self, data: ProgramData) -> None:
        super().__init__()
        self.data = data


class Asker(Engine):
    """An Engine that solves nothing, but returns every program to the caller."""

    def __init__(self, seed: int) -> None:
        """Take the seed that every engine is made from."""

    def settle(self, data: ProgramData, how: EngineRun) -> NoReturn:
        raise Asked(data)


class Bench:
    """A problem, and the result of the race over all of its programs.

    Parameters
    ----------
    pinned
        The only (p, q) of the race.
    """

    def __init__(self, name: str, *, pinned: tuple[int, int] | None = None) -> None:
        self.name = name
        problem = read_problem(str(problem_files()[name]))
        if pinned is not None:
            stages, microbatches = (Domain(allowed=frozenset({n})) for n in pinned)
            pins = replace(problem.pins, stages=stages, microbatches=microbatches)
            problem = replace(problem, pins=pins)
        self.problem: Problem = problem
        self.table: CostTable = build_table(problem)
        self.result: Result = solve(
            Request(
                problem=problem,
                table=self.table,
                params=RaceParams(jobs=0),
                deadline=Deadline.after(RACE_LIMIT_S),
                seed=SEED,
            )
        )
        self._shared = SimpleNamespace(value=self._optimum())
        payload = Payload(
            problem=problem,
            table=self.table,
            engine=f"{Asker.__module__}:{Asker.__name__}",
            seed=SEED,
            top=1,
        )
        self._worker = Worker(payload, self._shared, lambda found: None)

    def whole(self, stages: int, microbatches: int) -> Case:
        """Return a program without narrowing, whose cutoff no plan exceeds."""
        worker, table = self._worker, self.table
        part = worker.programs.part(microbatches)
        data = ProgramData.of(
            table,
            part,
            worker.programs.chain,
            self.problem.pins,
            stages=stages,
            cutoff=objective_ceiling(part, worker.programs.chain, stages),
        )
        return self._case(stages, microbatches, "whole", data)

    def narrowed(self, stages: int, microbatches: int, variant: str) -> Case:
        """Return a program as the race makes it when it knows its optimum."""
        data = None
        try:
            self._worker.run(
                SettleTask(microbatches=microbatches, stages=stages, time_limit_s=None)
            )
        except Asked as asked:
            data = asked.data
        return self._case(stages, microbatches, variant, data)

    def left(self) -> Iterator[Case]:
        """Yield the programs that bounds do not refute at the optimum."""
        for settlement in self.result.settlements:
            if settlement.how in ("infeasible", "refuted-by-bound"):
                continue
            case = self.narrowed(settlement.stages, settlement.microbatches, "race")
            if case.data is not None:
                yield case

    def _optimum(self) -> int:
        best = self.result.best
        if best is None or self.result.status != "optimal":
            msg = f"the race over {self.name} ends {self.result.status}"
            raise SolverError(msg)
        return value_of(pipeline_times(best.plan, self.table))

    def _case(
        self, stages: int, microbatches: int, variant: str, data: ProgramData | None
    ) -> Case:
        return Case(
            problem=self.name,
            stages=stages,
            microbatches=microbatches,
            variant=variant,
            data=data,
        )


def cases(problems: Collection[str], *, quick: bool) -> Iterator[Case]:
    """Yield every program of these problems in every variant."""
    for name, programs in PROGRAMS.items():
        if name not in problems:
            continue
        bench = Bench(name)
        for p, q in programs[:2] if quick else programs:
            if not quick:
                yield bench.whole(p, q)
            yield Bench(name, pinned=(p, q)).narrowed(p, q, "own")
            yield bench.narrowed(p, q, "race")
    if RACED in problems and not quick:
        yield from Bench(RACED).left()
