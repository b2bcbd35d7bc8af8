"""The ``dp`` solver: an exact dynamic program per (p, q), in the race."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.solvers.engine import Answer
from hetopt.solvers.racing import racing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.dp_room import Room
    from hetopt.solvers.dp_search import Search
    from hetopt.solvers.engine import Verdict


class DpEngine:
    """Settles programs by label setting; nothing in it is left to chance."""

    def __init__(self, seed: int) -> None:
        self._room: Room | None = None

    def settle(
        self,
        data: ProgramData,
        *,
        excluded: Sequence[Decision],
        found: Callable[[Decision], None],
        stop: Callable[[], bool],
        time_limit_s: float | None,
        start: Decision | None = None,
    ) -> Answer:
        """Find the least objective within the cutoff; see ``Engine``."""
        from hetopt.solvers.dp_search import Interrupted

        search = self._search(data, excluded, found, stop, time_limit_s)
        try:
            search.run()
        except Interrupted:
            return Answer(verdict="stopped", bound=search.bound, decision=search.best)
        verdict: Verdict = "infeasible" if search.best is None else "optimal"
        return Answer(verdict=verdict, bound=search.bound, decision=search.best)

    def settle_tie(
        self, data: ProgramData, value: int, *, excluded: Sequence[Decision]
    ) -> Decision | None:
        """Set labels that the tie rule tells apart; see ``Engine``."""
        search = self._search(
            data, excluded, lambda decision: None, lambda: False, None
        )
        return search.first(value)

    def _search(
        self,
        data: ProgramData,
        excluded: Sequence[Decision],
        found: Callable[[Decision], None],
        stop: Callable[[], bool],
        time_limit_s: float | None,
    ) -> Search:
        # Numba loads with these modules.
        from hetopt.solvers.dp_room import Room
        from hetopt.solvers.dp_search import Search

        if self._room is None:
            self._room = Room()
        return Search(
            data,
            excluded=excluded,
            found=found,
            stop=stop,
            time_limit_s=time_limit_s,
            room=self._room,
        )


solve = racing("dp", "hetopt.solvers.dp:DpEngine")
