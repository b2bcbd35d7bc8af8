"""The ``dp`` solver: an exact dynamic program per (p, q), in the race.

Under ``auto`` a (p, q) has two programs: one with a steady state and free warm-up
counts, and gpipe's, with all forwards first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.base.deadline import Deadline, Interrupted
from hetopt.solvers.decisions.exact import with_warmups
from hetopt.solvers.pools.memory import share_bytes
from hetopt.solvers.race.engine import Answer, Engine
from hetopt.solvers.race.solve import racing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.dp.buffers import Buffers
    from hetopt.solvers.dp.search import LabelSearch


class DpEngine(Engine):
    """Settles programs by label setting, which is deterministic: it needs no seed."""

    #: States multiply with the subsets of clusters: with more they fill the memory.
    most_subsets = 256

    def __init__(self, seed: int) -> None:
        #: Memory for labels; a program that needs more is left unsettled.
        self.most_bytes = share_bytes(1)
        self._buffers: Buffers | None = None

    def settle(
        self,
        data: ProgramData,
        *,
        excluded: Sequence[Decision],
        found: Callable[[Decision], None],
        stop: Callable[[], bool],
        deadline: Deadline,
        start: Decision | None = None,
    ) -> Answer:
        """Find the least objective within the cutoff; see ``Engine``."""
        best: Decision | None = None
        cutoff = data.cutoff
        for program in _programs(data):
            search = self._search(
                replace(program, cutoff=cutoff),
                excluded,
                False,
                lambda decision: found(_whole(decision, data)),
                stop,
                deadline,
            )
            try:
                search.run()
            except Interrupted:
                bound = search.bound
                if program.rule.free:
                    # gpipe's program has no better bound yet.
                    bound = data.objective_min
                best = search.best or best
                return Answer(verdict="stopped", bound=bound, decision=best)
            if search.best is not None and search.value is not None:
                best = _whole(search.best, data)
                cutoff = search.value - 1
        if best is None:
            return Answer(verdict="infeasible", bound=cutoff + 1, decision=None)
        return Answer(verdict="optimal", bound=cutoff + 1, decision=best)

    def settle_tie(
        self, data: ProgramData, value: int, *, excluded: Sequence[Decision]
    ) -> Decision | None:
        """Find the first plan by the tie rule; see ``Engine``.

        None also if labels fill the memory; the plan found before is kept then.
        """
        best: tuple[tuple[object, ...], Decision] | None = None
        for program in _programs(data):
            search = self._search(
                program,
                excluded,
                True,
                lambda decision: None,
                lambda: False,
                Deadline(),
            )
            try:
                decision = search.first(value)
            except Interrupted:
                return None
            if decision is None:
                continue
            key = search.key(decision)
            if best is None or key < best[0]:
                best = key, decision
        return None if best is None else _whole(best[1], data)

    def _search(
        self,
        data: ProgramData,
        excluded: Sequence[Decision],
        ordered: bool,
        found: Callable[[Decision], None],
        stop: Callable[[], bool],
        deadline: Deadline,
    ) -> LabelSearch:
        # These modules import Numba, which is slow.
        from hetopt.solvers.dp.buffers import Buffers
        from hetopt.solvers.dp.search import LabelSearch

        if self._buffers is None:
            self._buffers = Buffers(self.most_bytes)
        return LabelSearch(
            data,
            excluded=excluded,
            ordered=ordered,
            found=found,
            stop=stop,
            deadline=deadline,
            buffers=self._buffers,
        )


def _programs(data: ProgramData) -> list[ProgramData]:
    """Return the programs to search, one after the other."""
    also = data.rule.also
    if also is None or data.part.microbatches == 1:
        return [data]
    return [data, replace(data, schedule=also)]


def _whole(decision: Decision, data: ProgramData) -> Decision:
    """Return a decision with the warm-up counts that are to be reported."""
    return with_warmups(decision, data) if data.rule.free else decision


solve = racing("dp", "hetopt.solvers.dp.solver:DpEngine", quick=True)
