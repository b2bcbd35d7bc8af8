"""Tables to search where boundaries share links: no program knows of sharing.

With all principles kept, a cluster has one boundary at the ends of the pipeline and two
in the middle, so that its uplink is shared in the middle only, and links between two
clusters never are. A strategy of a cluster with an uplink therefore stands in the table
three times: as it is, with the omega that sharing asks for in the middle; for the first
place, which no boundary of another cluster leads into; and for the last one, which none
leaves. That is all a program needs to know of sharing.

With several chunks a stage, the way back shares links too, which every boundary's omega
allows for (``hetopt.cost.chunks.with_way_back``).

Where clusters may be visited again, and for simulated times, what is searched has no
sharing at all: its bounds hold, since sharing makes no plan quicker.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from hetopt.cost.chunks import with_way_back
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
#: Clusters that a pipeline has to visit for one to be in the middle.
_FEWEST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class EndStrategy(Strategy):
    """A strategy of the cluster at one end of the pipeline, and nowhere else."""

    end: End

    def __lt__(self, other: Strategy) -> bool:
        """Order beside other strategies, which ``Strategy`` does not."""
        return self._key() < _key(other)

    def __gt__(self, other: Strategy) -> bool:
        """Order beside other strategies, which ``Strategy`` does not."""
        return self._key() > _key(other)

    def _key(self) -> tuple[object, ...]:
        return _key(self)


def _key(strategy: Strategy) -> tuple[object, ...]:
    end = strategy.end if isinstance(strategy, EndStrategy) else ""
    mesh = (getattr(strategy, degree) for degree in DEGREES)
    return (*mesh, strategy.recompute, strategy.zero or 0, end)


def anywhere(strategy: Strategy) -> Strategy:
    """Return a strategy without the end that it is for."""
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
    """Return the table that programs are made from; the same if nothing is shared.

    Parameters
    ----------
    simulated
        Whether simulated times are minimised.
    exact
        Whether sharing has to be in it; a heuristic is better off without.

    Raises
    ------
    InputError
        Boundaries share links, and transfers block.
    """
    if table.chunks > 1:
        return replace(table, slices=tuple(map(with_way_back, table.slices)))
    if not _may_share(table, principles):
        return table
    if rule_of(table.schedule).blocking:
        msg = (
            f"{table.schedule} is for boundaries that share no link and no uplink: "
            "name a schedule whose stages compute meanwhile, such as 1f1b"
        )
        raise InputError(msg, field="training.schedule")
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


def _may_share(table: CostTable, principles: Principles) -> bool:
    """Whether boundaries of any plan share anything.

    With all principles kept they do so at a cluster with an uplink between two others.
    """
    shared = [part.shared for part in table.slices if part.shared is not None]
    if not principles.consecutive:
        return bool(shared)
    some = any(each.uplink_ns.any() for each in shared)
    return some and len(table.cluster_names) >= _FEWEST


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
    # Both boundaries of a cluster in the middle pass in a period.
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
    """Return a matrix over layouts, its last two axes, over the new ones."""
    return matrix[..., old, :][..., old]


def _moved(own: ClusterTable, start: Ints) -> ClusterTable:
    """Return a cluster's coefficients with the layouts' new numbers."""
    return replace(own, layout=start[own.layout])


def _with_ends(own: ClusterTable, start: Ints) -> ClusterTable:
    """Return a cluster's coefficients with every strategy for every place."""
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
