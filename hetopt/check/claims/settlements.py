"""Claims about how every (p, q) of one problem was settled."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Any

from hetopt.check.claims.asked import TOLERANCE
from hetopt.check.plan.reading import choice, choices, items, mapping, number, whole
from hetopt.cost.table.ticks import TICK_S
from hetopt.results.settlement import How

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hetopt.plans.plan import Plan


class Settlements:
    """How every (p, q) was settled.

    Attributes
    ----------
    known
        How, and the bound, by (p, q).

    Raises
    ------
    InputError
        The data is not what ``Result.to_json`` makes.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        settled = mapping(data.get("settled"), "settled")
        self._settled = {key: whole(settled, key, "settled") for key in settled}
        self.known: dict[tuple[int, int], tuple[str, float | None]] = {}
        self._repeated: list[tuple[int, int]] = []
        for place, item in items(data, "settlements", ""):
            entry = mapping(item, place)
            key = (
                whole(entry, "stages", place),
                whole(entry, "microbatches", place),
            )
            if key in self.known:
                self._repeated.append(key)
            how = choice(entry, "how", choices(How), place)
            self.known[key] = (how, number(entry, "bound_s", place))

    def count_findings(self) -> Iterator[str]:
        """Compare how many there are with what the result says."""
        counts = Counter(how for how, _ in self.known.values())
        if self._settled != dict(counts):
            yield f"settled: {self._settled}, the settlements say {dict(counts)}"

    def findings(self, programs: Iterable[tuple[int, int]]) -> Iterator[str]:
        """Yield what is wrong with them.

        Parameters
        ----------
        programs
            Every (p, q) that has to be settled.
        """
        for p, q in self._repeated:
            yield f"settlements: ({p}, {q}) more than once"
        for (p, q), (how, bound) in self.known.items():
            if how == "infeasible" and bound is not None:
                yield f"settlements: ({p}, {q}) is infeasible, but has a bound"
            if how != "infeasible" and bound is None and how != "unsettled":
                yield f"settlements: ({p}, {q}) is {how}, but has no bound"
        for p, q in programs:
            if (p, q) not in self.known:
                yield f"settlements: ({p}, {q}) is missing"

    def possible_findings(self) -> Iterator[str]:
        """Yield contradictions to a problem that has no plan."""
        for (p, q), (how, _) in self.known.items():
            if how != "infeasible":
                yield f"status: infeasible, but ({p}, {q}) is {how}"

    def plan_findings(self, what: str, plan: Plan, value: float) -> Iterator[str]:
        """Yield contradictions to a plan and its value."""
        key = (len(plan.pipelines[0].stages), plan.pipelines[0].microbatches)
        how, bound = self.known.get(key, (None, None))
        # programs are searched with the period rounded up to a whole tick
        limit = value * (1 + TOLERANCE) + key[1] * TICK_S
        if how is None:
            yield f"settlements: {what} belongs to {key}, which is missing"
        elif how == "infeasible":
            yield f"settlements: {key} is infeasible, but {what} belongs to it"
        elif bound is not None and bound > limit:
            yield f"settlements: {key} is bounded by {bound}, {what} takes {value!r}"

    def missing_findings(self, plans: Iterable[Plan], missing: int) -> Iterator[str]:
        """Yield that plans which were asked for are neither listed nor ruled out.

        Where there are no more, all programs are searched to the end, without a cutoff.

        Parameters
        ----------
        plans
            Those that are listed, of the schedule that the programs are of.
        missing
            How many fewer are listed than were asked for, whatever their schedule.
        """
        listed = {
            (len(x.pipelines[0].stages), x.pipelines[0].microbatches) for x in plans
        }
        hows = {how for how, _ in self.known.values()}
        if missing <= 0 or "unsettled" in hows:
            return
        for key, (how, _) in self.known.items():
            if how != "infeasible" and not (how == "solved" and key in listed):
                few = f"alternatives: {missing} fewer than asked.top says"
                yield f"{few}, but {key} is {how}"
                return

    def least(self) -> tuple[float, bool]:
        """Return the least bound, inf without any, and whether all have one."""
        bounds = [bound for how, bound in self.known.values() if how != "infeasible"]
        known = [bound for bound in bounds if bound is not None]
        return min(known, default=inf), len(known) == len(bounds)
