"""What crosses the boundaries between the units of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.problem.model.kinds import (
    CUT_FFN,
    CUT_HIDDEN,
    CUT_PREDICTIONS,
    MLP_UP,
    PREDICTION,
    Cut,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.model.block import Block


def crossings(blocks: Sequence[Block], units: Sequence[str]) -> tuple[Cut, ...]:
    """Return what crosses the boundary after each unit but the last.

    Parameters
    ----------
    blocks
        Layers of several kinds; none if they are alike.
    units
        Kind of every unit in pipeline order.
    """
    if not blocks:
        wider = {MLP_UP: CUT_FFN, PREDICTION: CUT_PREDICTIONS}
        return tuple(Cut.of(wider.get(kind, CUT_HIDDEN)) for kind in units[:-1])
    cuts = [Cut.of(CUT_HIDDEN)]
    for block in blocks:
        both = (block.name, block.context) if block.context else (block.name,)
        cuts += [Cut.of(*both)] * block.layers
    if blocks[-1].context:
        # No unit after the last layer attends to the context.
        cuts[-1] = Cut.of(blocks[-1].name)
    return tuple(cuts)


def edges(
    blocks: Sequence[Block], cuts: Sequence[Cut]
) -> tuple[tuple[int, int, str], ...]:
    """Return (u, v, class) of every tensor between units: see ``Model.edges``."""
    found = [(unit, unit + 1, cut.first.name) for unit, cut in enumerate(cuts)]
    unit, last = 1, {}
    for block in blocks:
        start, unit = unit, unit + block.layers
        last[block.name] = unit - 1
        if block.context:
            source = last[block.context]
            found += [
                (source, layer, Cut.inside(block.context).name)
                for layer in range(max(start, source + 2), unit)
            ]
    return tuple(sorted(found))
