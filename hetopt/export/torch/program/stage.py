"""The units of one stage as a module."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from .groups import Place
from .units import tie

#: Makes a unit by its index, as this rank has it.
BuildUnit = Callable[[int, Place], nn.Module]


class Stage(nn.Module):
    """The units of one stage; parameters are named ``units.INDEX.NAME``."""

    def __init__(self, place: Place, build_unit: BuildUnit) -> None:
        super().__init__()
        plan = place.plan
        units = {
            index: build_unit(index, place) for index in range(plan.first, plan.end)
        }
        tie(units, place.job.units - 1)
        self.units = nn.ModuleDict({str(index): unit for index, unit in units.items()})

    def forward(self, x: Tensor, targets: Tensor | None) -> Tensor:
        """Run all units; the result is the loss if there are targets."""
        *before, last = self.units.values()
        for unit in before:
            x = unit(x)
        return last(x) if targets is None else last(x, targets)
