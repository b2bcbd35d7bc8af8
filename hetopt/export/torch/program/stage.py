"""The units of one stage as a module, by chunks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .groups import Place
from .operations import linear

#: Makes this rank's part of a unit, by the unit's index.
BuildUnit = Callable[[int, Place], nn.Module]


class Stage(nn.Module):
    """The units of one stage; parameters are named ``units.INDEX.NAME``.

    Attributes
    ----------
    chunks
        Names of the units of each chunk.
    """

    def __init__(self, place: Place, build_unit: BuildUnit) -> None:
        super().__init__()
        held = place.job.chunk_units(place.stage)
        units = {index: build_unit(index, place) for own in held for index in own}
        first, last = units.get(0), units.get(place.job.units - 1)
        if first is not None and last is not None:
            _tie(first, last)
        self.units = nn.ModuleDict({str(index): unit for index, unit in units.items()})
        if place.job.passes.splits:
            _split_linears(self)
        self.chunks = [[str(index) for index in own] for own in held]

    def forward(
        self, chunk: int, x: tuple[Tensor, ...], targets: Tensor | None
    ) -> tuple[Tensor, ...]:
        """Run all units of a chunk; return the loss if there are targets."""
        *before, last = (self.units[name] for name in self.chunks[chunk])
        for unit in before:
            x = _results(unit(*x))
        return _results(last(*x) if targets is None else last(*x, targets))


def _results(found: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return found if isinstance(found, tuple) else (found,)


def _split_linears(stage: nn.Module) -> None:
    """Let the weights' gradients of every ``nn.Linear`` run later."""
    for module in stage.modules():
        # Not of subclasses, whose forward may do more.
        if type(module) is nn.Linear:
            module.forward = partial(_linear, module)


def _linear(module: nn.Linear, x: Tensor) -> Tensor:
    if x.dim() < 2 or torch.is_autocast_enabled(x.device.type):
        return F.linear(x, module.weight, module.bias)
    return linear(x, module.weight, module.bias)


def _tie(first: nn.Module, last: nn.Module) -> None:
    """Let the embedding's table serve as the head's too, if the model is tied."""
    tables = [each for each in first.parameters() if hasattr(each, "tied_rows")]
    for module in last.modules():
        for name, each in list(module.named_parameters(recurse=False)):
            if hasattr(each, "tied_rows"):
                module.register_parameter(name, tables[0])
