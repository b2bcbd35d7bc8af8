"""The ``dfs`` solver: HeteroAuto, the search of H2 (section 4.3.3), in three steps.

1. *Depth-first search.* For every data-parallel degree d that divides the global batch
   (one sequence per micro-batch, so q = B / d) every type of accelerator, those with
   more memory first, is given a tensor degree and a recomputation policy; devices / (d
   t) stages follow from that.
2. *Layer sharding* (``shard``). Layers are divided so that all types take equally long,
   evenly within a type, and moved where memory has no room for them.
3. *Cost.* The plan of least cost is kept: by hetopt's closed form, or by H2's own cost
   (section 4.3.2).

*Two stages.* The first one finds d. The second splits large clusters into groups of
128 devices (Table 8's setting), each a type of its own with a tensor degree not above
that of the group before it, and searches again with that d. So plans may violate P4:
the space is that of ``p4-falling-tp``.

Beyond H2, clusters (and groups, the last ones first) may stay unused, and so may
devices that do not fill a stage; partial assignments that cannot beat the best plan
are pruned. H2 has no context parallelism: cp is 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.problem.cluster.filling import fills_by_sum
from hetopt.problem.training.pins import ANY
from hetopt.solvers.heuristics.dfs_tree import Assignments, Best
from hetopt.solvers.heuristics.free_units import ensure_free_units
from hetopt.solvers.heuristics.loads import Loads
from hetopt.solvers.params import DfsParams
from hetopt.solvers.unproven.finds import solve_by

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.permitted import Permitted
    from hetopt.results.result import Result
    from hetopt.solvers.request import Request
    from hetopt.solvers.unproven.finds import Finds


def solve(request: Request) -> Result:
    """Find a good plan; see ``hetopt.solvers.request.Solve``.

    Its own parameters are ``DfsParams``.

    Raises
    ------
    InputError
        If pins fix how many units a stage or a cluster holds, which step 2 decides.
    """
    ensure_free_units("dfs", request.problem.pins)
    return solve_by(_search, request, solver="dfs", context=False)


def _search(finds: Finds) -> None:
    """Find d with whole clusters, then search groups with that d."""
    asked = finds.request.params
    params = asked if isinstance(asked, DfsParams) else DfsParams()
    best = Best(finds, params)
    try:
        whole = _groups(finds, None)
        searches = [
            Assignments(finds, Loads(finds.table, part, finds.chain), whole, best)
            for part in finds.table.slices
        ]
        # Good plans first, so that more is pruned.
        for search in sorted(searches, key=lambda search: search.least((), 0)):
            search.run()
        groups = _groups(finds, params.group_devices)
        if best.microbatches is not None and len(groups) > len(whole):
            part = finds.table.at(best.microbatches)
            Assignments(
                finds, Loads(finds.table, part, finds.chain), groups, best
            ).run()
    finally:
        best.offer()


def _groups(finds: Finds, most: int | None) -> list[tuple[int, int]]:
    """Return (cluster, devices) of every type, in pipeline order.

    Parameters
    ----------
    most
        Devices of a group; None for whole clusters. A cluster stays whole if its number
        of stages is pinned, or if stages may not fit although devices suffice.
    """
    table, permitted = finds.table, finds.pricer.permitted
    groups = []
    for j in _order(table, permitted):
        devices, size = table.cluster_devices[j], most
        if size is None or permitted.stages[j] != ANY or not _fills(finds, j):
            size = devices
        groups += [(j, size)] * (devices // size)
        if devices % size:
            groups.append((j, devices % size))
    return groups


def _fills(finds: Finds, j: int) -> bool:
    """Whether stages of several sizes fit wherever the cluster's devices suffice."""
    sizes = {
        own.devices
        for part in finds.table.slices
        for own in part.clusters[j].strategies
    }
    return fills_by_sum(finds.problem.clusters[j], sizes)


def _order(table: CostTable, permitted: Permitted) -> list[int]:
    """Return the clusters by memory, the largest first, unless pins say otherwise."""
    if permitted.order is not None:
        return list(permitted.order)
    clusters = range(len(table.cluster_names))
    order = sorted(clusters, key=lambda j: (-table.usable_bytes[j], j))
    return _first([], order, permitted) or order


def _first(begun: list[int], left: list[int], permitted: Permitted) -> list[int] | None:
    """Return the first permitted order that begins with ``begun``; None if none."""
    if not left:
        return begun
    for j in left:
        if begun and (begun[-1], j) in permitted.apart:
            continue
        rest = [other for other in left if other != j]
        found = _first([*begun, j], rest, permitted)
        if found is not None:
            return found
    return None
