"""What units share: the model's sizes, and parameters that are drawn from a seed."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .groups import Place
from .operations import Norm
from .pieces import Box
from .region import Region


class Unit(nn.Module):
    """A rank's part of one unit of the model.

    Initial weights depend only on the unit and the name, not on how the model is split.
    """

    def __init__(self, index: int, place: Place) -> None:
        super().__init__()
        self.index, self.place, self.model = index, place, place.job.model
        self.region = Region.of(place)

    def draw(self, name: str, outputs: int, inputs: int, split: int | None) -> None:
        """Make this rank's part of a matrix, cut along ``split``; all of it if None."""
        weight, box = self.drawn(name, outputs, inputs), [range(outputs), range(inputs)]
        if split is not None:
            weight = weight.chunk(self.region.size, split)[self.region.rank]
            first = self.region.rank * weight.shape[split]
            box[split] = range(first, first + weight.shape[split])
        parameter = nn.Parameter(weight.contiguous())
        parameter.box = tuple(box)
        self.register_parameter(name, parameter)

    def drawn(self, name: str, outputs: int, inputs: int) -> Tensor:
        """Return a whole matrix."""
        weight = torch.empty(outputs, inputs)
        bound = 1 / math.sqrt(inputs)
        return weight.uniform_(-bound, bound, generator=self.generator(name))

    def vector(
        self, name: str, values: Tensor, *, outside: bool, box: Box | None = None
    ) -> None:
        """Make a parameter of given values, of which the rank has ``box``; None: all.

        ``outside`` says that it is applied outside of split matrices: its gradient is
        summed over tp if sequence parallelism splits the tokens there.
        """
        parameter = nn.Parameter(values.contiguous())
        if box is not None:
            parameter.box = box
        if outside and self.place.splits_tokens:
            parameter.sum_over = self.place.tensor
        self.register_parameter(name, parameter)

    def norm(self, name: str) -> None:
        """Make the parameters of a norm."""
        self.vector(f"{name}_weight", torch.ones(self.model["hidden"]), outside=True)
        if self.model["norm"] == "layer":
            zeros = torch.zeros(self.model["hidden"])
            self.vector(f"{name}_bias", zeros, outside=True)

    def normed(self, x: Tensor, name: str) -> Tensor:
        """Return the norm of (b, m, h)."""
        bias = getattr(self, f"{name}_bias", None)
        weight = getattr(self, f"{name}_weight")
        return Norm.apply(x, weight, bias, self.model["norm_eps"])

    def table(self, name: str) -> None:
        """Make this rank's rows of a token table, padded to equal size on all ranks."""
        vocab, hidden = self.model["vocab"], self.model["hidden"]
        rows = -(-vocab // self.region.size)
        start = min(self.region.rank * rows, vocab)
        self.span = range(start, min(start + rows, vocab))
        whole = torch.empty(vocab, hidden)
        seed = "table" if self.model["tied"] else f"{self.index} {name}"
        whole.normal_(std=0.02, generator=_generator(seed))
        own = whole[self.span.start : self.span.stop]
        own = F.pad(own, (0, 0, 0, rows - len(self.span)))
        parameter = nn.Parameter(own.contiguous())
        parameter.box = self.span, range(hidden)
        if self.model["tied"]:
            parameter.tied_rows = self.span
        self.register_parameter(name, parameter)

    def generator(self, name: str) -> torch.Generator:
        """Return the generator for the initial values of a parameter."""
        return _generator(f"{self.index} {name}")


def _generator(seed: str) -> torch.Generator:
    return torch.Generator().manual_seed(int.from_bytes(seed.encode(), "big") % 2**63)
