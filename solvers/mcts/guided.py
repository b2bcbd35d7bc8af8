"""The ``mcts-guided`` solver: tree search guided by lower bounds.

It differs from ``mcts``: (p, q) are visited in the order of their lower bounds, and
skipped if the bound exceeds the best plan; the relaxation removes strategies that no
better plan uses; rollouts prefer the quicker of the others; layers are not decided in
the tree but filled in at its leaves, for a short period; plans near the best are
polished; and rewards distinguish good plans from better ones. Its space is the exact
solvers': devices may idle, and each cluster has its own recomputation.

Visits are made in waves, whose size does not depend on the number of processes. The
results of one wave are known to all visits of the next, so with a given number of
iterations the plan is the same in one process and in many.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hetopt.solvers.mcts.guided_worker import GuidedSpec, VisitTask, make
from hetopt.solvers.mcts.task_loop import TreeSearch
from hetopt.solvers.race.messages import Payload, SurveyTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.results.result import Result
    from hetopt.solvers.bounds.by_count import Survey
    from hetopt.solvers.mcts.task_loop import SearchLoop
    from hetopt.solvers.race.ledger import Program
    from hetopt.solvers.request import Request

#: Rewards lie between 0 and 1, those of good plans close together.
EXPLORATION = 0.2
#: Iterations if neither they nor a time limit are given.
ITERATIONS = 200_000
#: Visits of a wave.
_WAVE = 8
#: Iterations of a visit.
_VISIT = 2000
#: With more clusters the relaxation takes longer than visits do.
_MOST_CLUSTERS = 8
#: Share by which each visit raises a program's bound in the order of visits.
_PATIENCE = 0.01


def solve(request: Request) -> Result:
    """Look for a plan of small closed form; see ``solve`` of ``mcts``."""
    search = TreeSearch(request, "mcts-guided", EXPLORATION, ITERATIONS)
    payload = Payload(
        problem=request.problem,
        table=request.table,
        engine="hetopt.solvers.dp.solver:DpEngine",
        seed=request.seed,
        top=request.params.top,
    )
    spec = GuidedSpec(payload=payload, exploration=search.exploration)
    return search.run(make, spec, lambda loop: _Waves(loop, search.iterations).run())


class _Waves:
    """Makes visits wave by wave, while iterations are left."""

    def __init__(self, loop: SearchLoop, iterations: int | None) -> None:
        self._loop, self._left = loop, iterations
        self._visits: Counter[tuple[int, int]] = Counter()
        self._known: set[int] = set()
        clusters = len(loop.ledger.table.cluster_names)
        self._relaxes = clusters <= _MOST_CLUSTERS

    def run(self) -> None:
        """Visit (p, q) until iterations run out or bounds exclude a better plan."""
        ledger = self._loop.ledger
        while self._left != 0 and ledger.open():
            programs = self._next()
            fresh = {program.microbatches for program in programs} - self._known
            if fresh and self._relaxes:
                # So far they only have the bound of their q as a whole.
                self._known |= fresh
                surveys = (
                    SurveyTask(microbatches=q, cutoff=None) for q in sorted(fresh)
                )
                self._loop.perform(surveys, self._surveyed)
            else:
                tasks = self._wave(programs)
                self._loop.perform(iter(tasks), self._visited)
            ledger.refute()

    def _surveyed(self, task: SurveyTask, found: Survey) -> None:
        self._loop.ledger.take_survey(task.microbatches, found)

    def _next(self) -> list[Program]:
        """Return the next programs to visit: those of least bound and few visits."""

        def rank(program: Program) -> tuple[float, int, int]:
            visits = self._visits[program.stages, program.microbatches]
            weight = 1 + _PATIENCE * visits
            return (program.bound * weight, program.stages, program.microbatches)

        return sorted(self._loop.ledger.open(), key=rank)[:_WAVE]

    def _wave(self, programs: Sequence[Program]) -> list[VisitTask]:
        """Return a visit of each program, until iterations run out."""
        tasks = []
        for program in programs:
            iterations = _VISIT if self._left is None else min(_VISIT, self._left)
            if not iterations:
                break
            if self._left is not None:
                self._left -= iterations
            key = (program.stages, program.microbatches)
            visit = self._visits[key]
            tasks.append(
                VisitTask(
                    microbatches=program.microbatches,
                    stages=program.stages,
                    visit=visit,
                    iterations=iterations,
                    cutoff=self._loop.ledger.cutoff,
                    bound=program.bound,
                    # Any plan will do at first, and narrowing takes long.
                    narrow=visit > 0 and self._relaxes,
                )
            )
            self._visits[key] += 1
        return tasks

    def _visited(self, task: VisitTask, bound: int) -> None:
        program = self._loop.ledger.programs[task.stages, task.microbatches]
        program.bound = max(program.bound, bound)
