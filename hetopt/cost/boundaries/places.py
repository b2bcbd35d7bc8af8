"""Tables for the search if boundaries share links, which programs do not model.

With all principles kept, the first and last clusters of a pipeline have one boundary to
other clusters, and those in the middle two. So an uplink is shared only in the middle,
and links between two clusters are never shared. The table has each strategy of a
cluster with an uplink three times: for the middle, with the omega of a shared uplink;
for the first place, with no boundary from another cluster; and for the last place, with
none to another cluster. So programs need no constraints for sharing.

If clusters may be visited again, and for simulated times, the searched table has no
sharing: its bounds hold, since sharing makes no plan faster. With several chunks a
stage the closed form leaves sharing out.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hetopt.cost.table.ticks import TOO_LONG_NS
from hetopt.errors import InputError
from hetopt.plans.strategy import DEGREES, Strategy
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.training.principles import Principles
    from hetopt.schedule.shares import SharedLinks

    Ints = NDArray[np.int64]

#: The ends of a pipeline.
End = Literal["first", "last"]
_ENDS: tuple[End, ...] = get_args(End)
#: Least number of clusters in a pipeline for one to be in the middle.
_FEWEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EndStrategy(Strategy):
    """A strategy that only the cluster at one end of the pipeline may use."""

    end: End

    def __lt__(self, other: Strategy) -> bool:
        """Compare with strategies of both classes, unlike ``Strategy``."""
        return _key(self) < _key(other)

    def __gt__(self, other: Strategy) -> bool:
        """Compare with strategies of both classes, unlike ``Strategy``."""
        return _key(self) > _key(other)


def _key(strategy: Strategy) -> tuple[object, ...]:
    end = strategy.end if isinstance(strategy, EndStrategy) else ""
    mesh = (getattr(strategy, degree) for degree in DEGREES)
    return (*mesh, strategy.recompute, strategy.zero or 0, end)


def anywhere(strategy: Strategy) -> Strategy:
    """Return a strategy without its end of the pipeline."""
    if not isinstance(strategy, EndStrategy):
        return strategy
    return Strategy(**_mesh(strategy))


def _mesh(strategy: Strategy) -> dict[str, Any]:
    return {field.name: getattr(strategy, field.name) for field in fields(Strategy)}


def searched_table(
    table: CostTable,
    principles: Principles,
    *,
    simulated: bool = False,
    exact: bool = True,
) -> CostTable:
    """Return the table that programs are built from; the same if nothing is shared.

    Parameters
    ----------
    simulated
        Whether simulated times are minimised.
    exact
        Whether the table has to include sharing; heuristics work better without.

    Raises
    ------
    InputError
        Boundaries share links, and the schedule's transfers block.
    """
    if table.chunks > 1 and not simulated:
        if all(part.shared is None for part in table.slices):
            return table
        alone = tuple(replace(part, shared=None) for part in table.slices)
        return replace(table, slices=alone)
    if not may_share(table, principles):
        return table
    if rule_of(table.schedule).blocking:
        msg = (
            f"{table.schedule} does not support boundaries that share a link or an "
            "uplink: use a schedule whose stages compute during transfers, such as 1f1b"
        )
        raise InputError(msg, field="training.schedule")
    if simulated and principles.consecutive and not rule_of(table.schedule).free:
        return table
    placed = exact and principles.consecutive and not simulated
    # With all forwards first, only one boundary of a cluster sends at a time.
    placed = placed and not rule_of(table.schedule).all_first
    return replace(
        table,
        slices=tuple(
            _by_place(part, part.shared)
            if placed and part.shared is not None
            else replace(part, shared=None)
            for part in table.slices
        ),
    )


def may_share(table: CostTable, principles: Principles) -> bool:
    """Whether boundaries of some plan may share a link or an uplink.

    With all principles kept, only a cluster with an uplink between two others shares.
    """
    shared = [part for part in table.slices if part.shared is not None]
    if not principles.consecutive:
        return bool(shared)
    return any(map(_may_share_uplinks, shared))


def _may_share_uplinks(part: TableSlice) -> bool:
    """Whether a cluster with an uplink may lie between two others."""
    able = np.array([bool(own.strategies) for own in part.clusters])
    assert part.shared is not None
    return int(able.sum()) >= _FEWEST and bool(part.shared.uplink_ns[able].any())


def _by_place(part: TableSlice, shared: SharedLinks) -> TableSlice:
    """Return the slice with strategies for either end of the pipeline."""
    uplink = shared.uplink_ns
    home = np.array([layout.cluster for layout in part.layouts], dtype=np.int64)
    # Each layout of a cluster with an uplink: in the middle, first, last.
    times = np.where(uplink[home] > 0, 1 + len(_ENDS), 1)
    old = np.repeat(np.arange(len(home)), times)
    start = np.cumsum(times) - times
    place = np.arange(len(old)) - start[old]
    crosses = home[old][:, None] != home[old][None, :]
    never = crosses & ((place == 2)[:, None] | (place == 1)[None, :])
    never |= ~crosses & (place[:, None] != place[None, :])
    # In the middle, the uplink carries both boundaries of a cluster in every period.
    both = np.where(place == 0, 2 * uplink[home[old]], 0)
    least = np.where(crosses, np.maximum(both[:, None], both[None, :]), 0)
    return replace(
        part,
        clusters=tuple(
            _with_ends(own, start) if uplink[j] > 0 else _moved(own, start)
            for j, own in enumerate(part.clusters)
        ),
        layouts=tuple(part.layouts[a] for a in old),
        transfer_ns=np.where(never, TOO_LONG_NS, _spread(part.transfer_ns, old)),
        occupancy_ns=np.maximum(_spread(part.occupancy_ns, old), least),
        resharding=_spread(part.resharding, old),
        tied_ns=None if part.tied_ns is None else _spread(part.tied_ns, old),
        shared=None,
    )


def _spread(matrix: Ints, old: Ints) -> Ints:
    """Return a matrix whose last two axes are layouts for the new layouts."""
    return matrix[..., old, :][..., old]


def _moved(own: ClusterTable, start: Ints) -> ClusterTable:
    """Return a cluster's coefficients with the layouts' new numbers."""
    return replace(own, layout=start[own.layout])


def _with_ends(own: ClusterTable, start: Ints) -> ClusterTable:
    """Return a cluster's coefficients with every strategy once for each place."""
    places = 1 + len(_ENDS)
    index = np.repeat(np.arange(len(own.strategies)), places)
    columns = {name: column[index] for name, column in own.columns().items()}
    columns["layout"] = start[columns["layout"]] + np.tile(
        np.arange(places), len(own.strategies)
    )
    strategies = tuple(
        each
        for strategy in own.strategies
        for each in (strategy, *(_at(strategy, end) for end in _ENDS))
    )
    return replace(own, strategies=strategies, **columns)


def _at(strategy: Strategy, end: End) -> EndStrategy:
    return EndStrategy(**_mesh(strategy), end=end)
