"""Which side of a stage its passes take their inputs from, and give their results to.

The order of passes is that of the file ``orders``.
"""

from __future__ import annotations

from typing import Literal

from .orders import Orders

#: Where a tensor comes from or goes to: the stage before or behind (modulo the number
#: of stages), or another chunk of the same stage.
Side = Literal["before", "behind", "here"]


class Passes(Orders):
    """The passes of every stage, with the sides of their tensors."""

    @property
    def loss_stage(self) -> int:
        """The stage that has the head."""
        return 0 if self.folded else self.stages - 1

    def comes_from(self, kind: str, stage: int, number: int) -> tuple[Side, int] | None:
        """Return where the input of a pass comes from, and the pass that computes it.

        None for the forward pass that reads tokens, and the backward pass of the loss.

        Parameters
        ----------
        kind
            ``F`` or ``B``.
        """
        found = self.source(kind, stage, number)
        if found is None:
            return None
        side: Side = "before" if self.goes_down(kind, number) else "behind"
        return "here" if found[0] == stage else side, found[1]

    def goes_to(self, kind: str, stage: int, number: int) -> Side | None:
        """Return where a pass's result goes; its gradient comes back from there."""
        found = self.target(kind, stage, number)
        if found is None:
            return None
        side: Side = "behind" if self.goes_down(kind, number) else "before"
        return "here" if found[0] == stage else side
