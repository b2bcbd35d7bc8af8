"""Times and bytes of a stage, as sums over its units; compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hetopt.base.compiled import step
from hetopt.solvers.arrays.costs import Option, Sum

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Ints


class StageSums(NamedTuple):
    """Times of a stage in ns, and its bytes; ``peak`` is its largest temporary.

    ``fill`` and ``inside`` are its share of the fill, and of windows that other stages
    open: tau, unless gradients of weights run apart.
    """

    tau: int
    forward: int
    sync: int
    state: int
    active: int
    fill: int
    inside: int
    peak: int


@step
def ends_of(option: Ints, is_first: bool, is_last: bool) -> StageSums:
    """Return the sums of a stage without its body units.

    Parameters
    ----------
    option
        A row of ``Costs.option``.
    is_first, is_last
        Whether the stage is the first or the last one of the pipeline.
    """
    tau = forward = state = active = fill = inside = peak = 0
    sync = option[Option.SYNC_FIXED]
    for at in (Option.LEAD, Option.TRAIL):
        if not (is_first if at == Option.LEAD else is_last):
            continue
        tau += option[at + Sum.TAU]
        forward += option[at + Sum.FORWARD]
        sync += option[at + Sum.SYNC]
        state += option[at + Sum.STATE]
        active += option[at + Sum.ACTIVE]
        fill += option[at + Sum.FILL]
        inside += option[at + Sum.INSIDE]
        peak = max(peak, option[at + Sum.PEAK])
    return StageSums(tau, forward, sync, state, active, fill, inside, peak)


@step
def with_units(ends: StageSums, sums: Ints, o: int, left: int, right: int) -> StageSums:
    """Return the sums of a stage of option o with body units left .. right - 1.

    ``peak`` stays that of ``ends``.
    """
    return StageSums(
        ends.tau + sums[Sum.TAU, o, right] - sums[Sum.TAU, o, left],
        ends.forward + sums[Sum.FORWARD, o, right] - sums[Sum.FORWARD, o, left],
        ends.sync + sums[Sum.SYNC, o, right] - sums[Sum.SYNC, o, left],
        ends.state + sums[Sum.STATE, o, right] - sums[Sum.STATE, o, left],
        ends.active + sums[Sum.ACTIVE, o, right] - sums[Sum.ACTIVE, o, left],
        ends.fill + sums[Sum.FILL, o, right] - sums[Sum.FILL, o, left],
        ends.inside + sums[Sum.INSIDE, o, right] - sums[Sum.INSIDE, o, left],
        ends.peak,
    )
