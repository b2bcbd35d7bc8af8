"""Label setting: the boundary before a label (see ``dp.labels``), compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.arrays.costs import Delta, Edge, Fact, Option, Shape
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.dp.bounds import Scalar
from hetopt.solvers.dp.label_pool import Bucket, Label

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.dp.bounds import RangeLimits

#: Number of columns that a boundary passes on: those compared, and the devices.
_PASSED = 8


@step
def cross(
    costs: Costs,
    limits: RangeLimits,
    here: Ints,
    source: Ints,
    a: int,
    ends: int,
    target: Ints,
) -> bool:
    """Take a label over the boundary before it; False if the boundary is too slow.

    Parameters
    ----------
    here
        The label's state.
    a
        Layout of the stage before the boundary.
    ends
        1 if the label's run ends at the boundary, 0 if it goes on.
    target
        The row to write: the label before the boundary.
    """
    x = costs.cut[costs.facts[Fact.L] - here[Bucket.UNITS]]
    b = costs.option[here[Bucket.OPTION], Option.LAYOUT]
    kappa, omega = costs.edge[Edge.KAPPA, x, a, b], costs.edge[Edge.OMEGA, x, a, b]
    scalars = limits.scalars
    period = scalars[Scalar.PERIOD]
    if omega > scalars[Scalar.STAGE] or kappa > scalars[Scalar.BOUNDARY]:
        return False
    for column in range(_PASSED):
        target[column] = source[column]
    target[Label.FILL] += 2 * kappa
    if costs.facts[Fact.GPIPE]:
        target[Label.DELAY] = max(source[Label.DELAY], omega)
        target[Label.FLAG] = max(source[Label.FLAG], omega)
    else:
        more = limits.delta[Delta.LIGHT, x, a, b]
        target[Label.WARMUP] = min(costs.facts[Fact.Q], source[Label.WARMUP] + more)
        if kappa >= scalars[Scalar.FLOOR]:
            target[Label.FLAG] = 0
        if costs.facts[Fact.BLOCKING] and period < INFINITE:
            # Both stages wait for the transfer.
            blocked = costs.facts[Fact.BLOCKING] * PERIOD_SCALE * kappa
            if source[Label.DELAY] + blocked > period:
                return False
            target[Label.DELAY] = blocked
        elif period < INFINITE:
            hidden = limits.delta[Delta.HEAVY, x, a, b] * period
            hidden -= 2 * PERIOD_SCALE * kappa
            target[Label.DELAY] = max(0, source[Label.DELAY] - hidden)
    if source[Label.SHAPES]:
        target[Label.SHAPES] = _matching(
            costs, source[Label.SHAPES], source[Label.RUNS], source[Label.IN_RUN], ends
        )
    return True


@step
def _matching(costs: Costs, shapes: int, runs: int, hosted: int, ends: int) -> int:
    """Return the excluded shapes that still match when a run ends, or goes on."""
    left = 0
    for i in range(len(costs.shapes)):
        wanted = costs.shapes[i, runs - 1, Shape.HOSTED]
        if shapes >> i & 1 and (hosted == wanted if ends else hosted < wanted):
            left |= 1 << i
    return left
