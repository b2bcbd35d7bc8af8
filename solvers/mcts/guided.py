"""The ``mcts-guided`` solver: tree search that the exact part tells where to look.

What it has over ``mcts``: (p, q) are visited by their lower bounds, the best first,
and not at all where the bound exceeds the best plan; the relaxation leaves out the
strategies that no better plan uses; of the others rollouts prefer quick ones; layers
are no decision of the tree but filled in at its leaves, with an eye to the period;
plans near the best are polished; and rewards tell good plans from better ones. Its
space is the proof's: devices may idle, and recomputation is each cluster's own.

Visits go in waves, whose size does not depend on how many processes there are. What
is learnt in one wave is known to all visits of the next, so with a given number of
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
#: Iterations where there is neither a time limit nor a number.
ITERATIONS = 200_000
#: Visits of a wave.
_WAVE = 8
#: Iterations of a visit.
_VISIT = 2000
#: The relaxation of more clusters takes longer than visits do.
_MOST_CLUSTERS = 8
#: By how much a visit makes others of nearly as good a bound more attractive.
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
    """Visits, wave by wave, and how many iterations are left."""

    def __init__(self, loop: SearchLoop, iterations: int | None) -> None:
        self._loop, self._left = loop, iterations
        self._visits: Counter[tuple[int, int]] = Counter()
        self._known: set[int] = set()
        clusters = len(loop.ledger.table.cluster_names)
        self._relaxes = clusters <= _MOST_CLUSTERS

    def run(self) -> None:
        """Visit (p, q) until nothing better can be anywhere."""
        ledger = self._loop.ledger
        while self._left != 0 and ledger.open():
            programs = self._next()
            fresh = {program.microbatches for program in programs} - self._known
            if fresh and self._relaxes:
                # What is known of them so far holds for the q as a whole.
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
        """Return what to visit: where the bound is least, or few visits were."""

        def rank(program: Program) -> tuple[float, int, int]:
            visits = self._visits[program.stages, program.microbatches]
            weight = 1 + _PATIENCE * visits
            return (program.bound * weight, program.stages, program.microbatches)

        return sorted(self._loop.ledger.open(), key=rank)[:_WAVE]

    def _wave(self, programs: Sequence[Program]) -> list[VisitTask]:
        """Return a visit of each, as far as there are iterations."""
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
                    # To begin with any plan will do, and narrowing takes long.
                    narrow=visit > 0 and self._relaxes,
                )
            )
            self._visits[key] += 1
        return tasks

    def _visited(self, task: VisitTask, bound: int) -> None:
        program = self._loop.ledger.programs[task.stages, task.microbatches]
        program.bound = max(program.bound, bound)
