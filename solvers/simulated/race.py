"""The race for the least simulated time: bounds of programs, and their searches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.race.task_loop import TaskLoop
from hetopt.solvers.simulated.worker import BoundTimesTask, SearchTask

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from hetopt.solvers.arrays.costs import Ints
    from hetopt.solvers.race.ledger import Program
    from hetopt.solvers.race.messages import Verdict
    from hetopt.solvers.simulated.ledger import SimulatedLedger

#: Share by which the limit is raised if fewer plans than wanted are within it; doubled
#: each time.
_RAISE = 0.1
#: Widths of the excess's intervals as shares of the limit: for the rough bounds, and
#: for the close ones.
_ROUGH, _CLOSE = 1 / 8, 1 / 32
#: Ratio of two limits up to which bounds within the larger one are about as good.
_NEAR = 1.25
#: Share of the programs that are bounded closely before there is a plan of theirs.
_FEW = 0.1
#: How many (p, q) are searched early, and for how many seconds each.
_EARLY, _EARLY_S = 2, 5.0


class SimulatedRace(TaskLoop):
    """The race for the least simulated time."""

    ledger: SimulatedLedger

    def outline(self, limit: int) -> None:
        """Bound all programs within a limit that is no plan's of its own."""
        self._within(limit)
        self._bound(_ROUGH)
        if len(self.ledger.open()) < _FEW * len(self.ledger.programs):
            self._bound(_CLOSE)

    def _within(self, limit: int) -> None:
        """Set the limit, and take what the journal has within it."""
        self.ledger.limit = limit
        if self.journal is not None:
            self.journal.resume(self.ledger, self.request)
        self.pool.shared.value = self.ledger.cutoff

    def run(self, most: int) -> None:
        """Raise the limit until enough plans are within it, or it reaches ``most``."""
        ledger = self.ledger
        known = ledger.programs.values()
        feasible = [each for each in known if each.how != "infeasible"]
        limit = min(ledger.first, most)
        ceiling, share = min(most, INFINITE), _RAISE
        while feasible:
            ledger.first = limit
            self._within(limit)
            self._bound(_ROUGH)
            self._search(_EARLY, _EARLY_S)
            self._bound(_CLOSE)
            self._search(None, None)
            if ledger.has_enough or limit >= ceiling:
                return
            limit = min(ceiling, int(limit * (1 + share)) + PERIOD_SCALE)
            share *= 2
            for program in feasible:
                program.how = None

    def _bound(self, share: float) -> None:
        """Bound every open program, q by q, unless that was done near the limit."""
        self.ledger.refute()
        surveyed = self.ledger.surveyed
        limit = self.ledger.cutoff // PERIOD_SCALE
        tasks: dict[BoundTimesTask, tuple[float, int, int]] = {}
        for (q, size), p in self._together(share == _CLOSE):
            known = surveyed.get((share, q, size), -1)
            if not limit <= known <= limit * _NEAR:
                task = BoundTimesTask(
                    microbatches=q, least=p[0], most=p[-1], limit=limit, share=share
                )
                tasks[task] = share, q, size

        def take(task: BoundTimesTask, found: Ints) -> None:
            for program in self.ledger.open():
                if (
                    program.microbatches == task.microbatches
                    and task.least <= program.stages <= task.most
                ):
                    bound = min(int(found[program.stages]), limit + 1)
                    program.bound = max(program.bound, bound * PERIOD_SCALE)
            self.ledger.refute()
            surveyed[tasks[task]] = limit

        self.perform(iter(tasks), take)

    def _together(self, closely: bool) -> Iterator[tuple[tuple[int, int], list[int]]]:
        """Yield each q and group of stage counts, ascending, to bound at once.

        If schedules are not plain, memory and what stages wait for depend on p: bounds
        of several p at once are weaker, but quicker.
        """
        rule = rule_of(self.ledger.table.schedule)
        groups: dict[tuple[int, int], list[int]] = {}
        for program in self.ledger.open():
            p, size = program.stages, 0
            if not rule.is_plain:
                alone = closely or rule.interleaved or rule.folded
                size = p if alone else (p - 1).bit_length()
            groups.setdefault((program.microbatches, size), []).append(p)
        for key, own in sorted(groups.items()):
            yield key, sorted(own)

    def _search(self, count: int | None, seconds: float | None) -> None:
        """Search the programs that bounds leave open, best bound first.

        Parameters
        ----------
        count, seconds
            Number of programs, and seconds for each; None: no limit. With ``seconds``
            unfinished programs stay open.
        """

        def task_of(program: Program) -> SearchTask:
            known_s = [s for s in (seconds, self.patience_s()) if s is not None]
            longest_s = min(known_s, default=None)
            return SearchTask(
                microbatches=program.microbatches,
                stages=program.stages,
                bound=program.bound,
                time_limit_s=self.deadline.within(longest_s).limit_s,
            )

        def take(program: Program, found: Verdict) -> None:
            if found.closed or seconds is None:
                self.ledger.settle(program, found)

        self.best_first(task_of, take, count)

    def give_up(self, task: Any) -> None:
        """Leave a program whose workers keep dying unsettled, never infeasible."""
        if isinstance(task, SearchTask):
            program = self.ledger.programs[task.stages, task.microbatches]
            program.how = "unsettled"
