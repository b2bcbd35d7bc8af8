"""The units of one stage as a module."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from .groups import Place

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
        first, last = units.get(0), units.get(place.job.units - 1)
        if first is not None and last is not None:
            _tie(first, last)
        self.units = nn.ModuleDict({str(index): unit for index, unit in units.items()})

    def forward(self, x: Tensor, targets: Tensor | None) -> Tensor:
        """Run all units; the result is the loss if there are targets."""
        *before, last = self.units.values()
        for unit in before:
            x = unit(x)
        return last(x) if targets is None else last(x, targets)


def _tie(first: nn.Module, last: nn.Module) -> None:
    """Let the embedding's table serve as the head's too, if the model is tied."""
    tables = [each for each in first.parameters() if hasattr(each, "tied_rows")]
    for module in last.modules():
        for name, each in list(module.named_parameters(recurse=False)):
            if hasattr(each, "tied_rows"):
                module.register_parameter(name, tables[0])
