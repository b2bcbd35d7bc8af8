"""The ``dp`` solver: an exact dynamic program per (p, q), in the race."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.deadline import Interrupted
from hetopt.solvers.pools.memory import share_bytes
from hetopt.solvers.race.engine import Answer, Engine, EngineRun
from hetopt.solvers.race.solve import racing

if TYPE_CHECKING:
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

    def settle(self, data: ProgramData, how: EngineRun) -> Answer:
        """Find the least objective within the cutoff; see ``Engine``."""
        search = self._search(data, how, ordered=False)
        try:
            search.run()
        except Interrupted:
            return Answer(verdict="stopped", bound=search.bound, decision=search.best)
        if search.best is None or search.value is None:
            bound = data.cutoff + 1
            return Answer(verdict="infeasible", bound=bound, decision=None)
        return Answer(verdict="optimal", bound=search.value, decision=search.best)

    def settle_tie(
        self, data: ProgramData, value: int, how: EngineRun
    ) -> Decision | None:
        """Find the first plan by the tie rule; see ``Engine``.

        None also if time is up or labels fill the memory; the plan found before is kept
        then.
        """
        search = self._search(data, how, ordered=True)
        try:
            return search.first(value)
        except Interrupted:
            return None

    def _search(
        self, data: ProgramData, how: EngineRun, *, ordered: bool
    ) -> LabelSearch:
        # These modules import Numba, which is slow.
        from hetopt.solvers.dp.buffers import Buffers
        from hetopt.solvers.dp.search import LabelSearch

        if self._buffers is None:
            self._buffers = Buffers(self.most_bytes)
        return LabelSearch(data, how, ordered=ordered, buffers=self._buffers)


solve = racing("dp", "hetopt.solvers.dp.solver:DpEngine", quick=True)
