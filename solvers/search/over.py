"""What a search branches over."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.results.claims import Json, Measure
    from hetopt.results.spending import Spending
    from hetopt.solvers.search.branchings.runnable import Launchable
    from hetopt.solvers.search.branchings.schedules import ScheduleVariant


@dataclass(frozen=True, slots=True, kw_only=True)
class Over:
    """What a search branches over; nothing by default.

    Attributes
    ----------
    spending, measure
        Limits by which nodes are chosen, and what is minimised; None: all nodes.
    schedules
        Schedules to choose from, in the order in which ties are broken.
    pipelines
        Most pipelines side by side.
    lengths
        Whether sequences have several lengths: then divisions are searched together.
    launcher
        The launcher that has to run the plan.
    """

    spending: Spending | None = None
    measure: Measure = "time"
    schedules: tuple[ScheduleVariant, ...] = ()
    pipelines: int = 1
    lengths: bool = False
    launcher: Launchable | None = None

    @property
    def divides(self) -> bool:
        """Whether nodes may be divided among pipelines; some launchers run one."""
        several = self.launcher is None or self.launcher.together is not None
        return self.pipelines > 1 and several

    @property
    def alike(self) -> tuple[str, ...]:
        """What pipelines may have in common: they share one; empty: nothing."""
        together = None if self.launcher is None else self.launcher.together
        return () if together is None else together.values

    @property
    def branches(self) -> bool:
        """Whether there is more than one problem to search."""
        one = self.spending is None and not self.schedules and self.pipelines == 1
        return not one or self.launcher is not None

    def to_json(self) -> tuple[Json, ...]:
        """Return the branchings as plain JSON data (``hetopt.results.claims``)."""
        found: list[Json] = []
        if self.spending is not None:
            fleets = {"measure": self.measure, **asdict(self.spending)}
            found.append({"fleets": fleets})
        if self.schedules:
            found.append({"schedules": [asdict(each) for each in self.schedules]})
        if self.divides or self.lengths:
            alike = {"alike": list(self.alike)} if self.alike else {}
            found.append({"divisions": {"most": self.pipelines, **alike}})
        if self.launcher is not None:
            found.append({"launcher": self.launcher.name})
        return tuple(found)
