"""Label setting: the boundary before a label (see ``dp.labels``), compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import step
from hetopt.formulations.program import PERIOD_SCALE
from hetopt.solvers.arrays.program import (
    AUTO,
    GPIPE,
    KAPPA,
    LAYOUT,
    OMEGA,
    SHAPE_HOSTED,
    L,
    Q,
)
from hetopt.solvers.dp.bounds import (
    BOUNDARY,
    FLOOR,
    HEAVY,
    INFINITE,
    LIGHT,
    PERIOD,
    STAGE,
)
from hetopt.solvers.dp.label_pool import (
    AT_OPTION,
    AT_UNITS,
    DELAY,
    FILL,
    FLAG,
    IN_RUN,
    RUNS,
    SHAPES,
    WARMUP,
)

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs, Ints
    from hetopt.solvers.dp.bounds import Limits

#: Columns that a boundary passes on: what is compared, and the devices.
_PASSED = 8


@step
def cross(
    costs: Costs,
    limits: Limits,
    here: Ints,
    source: Ints,
    a: int,
    ends: int,
    target: Ints,
) -> bool:
    """Take a label over the boundary before it; False if that is too slow.

    Parameters
    ----------
    here
        The label's state.
    a
        Layout of the stage before the boundary.
    ends
        Whether the label's run ends, or goes on.
    target
        What is written: the label as the stage before the boundary finds it.
    """
    x = costs.cut[costs.facts[L] - here[AT_UNITS]]
    b = costs.option[here[AT_OPTION], LAYOUT]
    kappa, omega = costs.edge[KAPPA, x, a, b], costs.edge[OMEGA, x, a, b]
    knobs = limits.knobs
    if omega > knobs[STAGE] or kappa > knobs[BOUNDARY]:
        return False
    for column in range(_PASSED):
        target[column] = source[column]
    target[FILL] += 2 * kappa
    if costs.facts[GPIPE]:
        target[DELAY] = max(source[DELAY], omega)
        target[FLAG] = max(source[FLAG], omega)
    elif costs.facts[AUTO]:
        if knobs[PERIOD] < INFINITE and source[WARMUP] < costs.facts[Q]:
            target[DELAY] += 2 * PERIOD_SCALE * kappa
            _warm_up(costs, limits, target)
    else:
        more = limits.delta[LIGHT, x, a, b]
        target[WARMUP] = min(costs.facts[Q], source[WARMUP] + more)
        if kappa >= knobs[FLOOR]:
            target[FLAG] = 0
        if knobs[PERIOD] < INFINITE:
            hidden = limits.delta[HEAVY, x, a, b] * knobs[PERIOD]
            hidden -= 2 * PERIOD_SCALE * kappa
            target[DELAY] = max(0, source[DELAY] - hidden)
    if source[SHAPES]:
        target[SHAPES] = _matching(
            costs, source[SHAPES], source[RUNS], source[IN_RUN], ends
        )
    return True


@step
def _warm_up(costs: Costs, limits: Limits, label: Ints) -> None:
    """Add the warm-ups without which E exceeds lambda even before the next stage."""
    period = limits.knobs[PERIOD]
    if label[DELAY] > period:
        more = (label[DELAY] - 1) // period
        label[DELAY] -= more * period
        label[WARMUP] += more
    if label[WARMUP] >= costs.facts[Q]:
        label[WARMUP] = costs.facts[Q]
        label[DELAY] = 0


@step
def _matching(costs: Costs, shapes: int, runs: int, hosted: int, ends: int) -> int:
    """Return which excluded shapes still match when a run ends, or goes on."""
    left = 0
    for i in range(len(costs.shapes)):
        wanted = costs.shapes[i, runs - 1, SHAPE_HOSTED]
        if shapes >> i & 1 and (hosted == wanted if ends else hosted < wanted):
            left |= 1 << i
    return left
