"""Arrays of the bounds that paths give (``hetopt.schedule.paths``)."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.orders import FOLDED_CHUNKS
from hetopt.schedule.paths import PathForm, folded_trips, folded_weights
from hetopt.solvers.arrays.costs import Edge, Fact, Option, Sum, Weight
from hetopt.solvers.arrays.windows import INFINITE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.arrays.options import ProgramOptions

#: Longer than a table's longest time, and small enough to be added up over stages.
_NEVER = INFINITE >> 12


class Beside(IntEnum):
    """Rows of what ``beside`` returns: inside a run, after a stage and before it."""

    INSIDE, AFTER, BEFORE = range(3)


def beside(costs: Costs, used: NDArray[np.bool_]) -> Ints:
    """Return the least kappa of boundaries beside a stage, by option; shape (3, O).

    Longer than any if there are none.

    Parameters
    ----------
    used
        Whether a boundary of a cut class may be between two layouts; (X, A, A).
    """
    own, kappa = costs.option[:, Option.LAYOUT], costs.edge[Edge.KAPPA]
    kappa = np.where(used, kappa, _NEVER)
    inside = kappa.min(axis=0).diagonal()
    least = inside, kappa.min(axis=(0, 2)), kappa.min(axis=(0, 1))
    return np.stack([row[own] for row in least])


def on_paths(costs: Costs, options: ProgramOptions) -> Costs:
    """Return costs for bounds on the simulated time, with weights and uplinks.

    FILL is the share of a stage in the fill of paths, SYNC what the first stage adds to
    the end, and INSIDE w, which the weight LATER is of. If stages are folded, TAU,
    FORWARD, INSIDE and omega are those of one chunk, as weights are.
    """
    data, part, guests = options.data, options.data.part, options.guests
    if data.rule.folded:
        return _folded(costs, options)

    def changed(old: Ints) -> Ints:
        """Return the rows of a block whose first axis is ``Sum``."""
        new, tau, inside = old.copy(), old[Sum.TAU], old[Sum.INSIDE]
        new[Sum.FILL] = costs.facts[Fact.CHUNKS] * inside
        new[Sum.SYNC] = old[Sum.SYNC] + old[Sum.FILL] - inside
        new[Sum.INSIDE] = tau - inside
        return new

    option = costs.option.copy()
    for end in (Option.LEAD, Option.TRAIL):
        block = slice(end, end + Sum.PEAK)
        option[:, block] = changed(costs.option[:, block].T).T
    weights = PathForm(data.rule).weights(
        np.arange(part.ahead, part.passes + 1),
        passes=part.passes,
        stages=data.stages,
        chunks=part.chunks,
    )
    uplink = np.zeros(len(guests), dtype=np.int64)
    if part.shared is not None:
        uplink[:] = part.shared.uplink_ns[guests]
    return costs._replace(
        option=option,
        host=np.column_stack([costs.host, uplink]),
        sums=changed(costs.sums),
        weights=np.ascontiguousarray(weights.T),
    )


def _folded(costs: Costs, options: ProgramOptions) -> Costs:
    """Return the costs for bounds if stages are folded."""
    data, part, chain = options.data, options.data.part, options.data.chain
    assert part.pairs is not None
    first, second = np.array(part.pairs).T
    pairs = slice(-len(first), None)

    def of_chunk(times: Ints) -> Ints:
        """Return half of both chunks' times, or that of the second one if less."""
        here, back = times[:, first], times[:, second]
        found = np.zeros_like(times)
        found[:, pairs] = (back + np.minimum(here, back)) // FOLDED_CHUNKS
        return found

    names = ("forward_ns", "backward_ns", "weight_ns")
    phi, beta, later = (_gathered(options, name) for name in names)
    one = [of_chunk(times) for times in (phi, beta - later, later)]
    end = _gathered(options, "sync_unit_ns")
    end[:, pairs] += later[:, first]
    sums, option = costs.sums.copy(), costs.option.copy()
    for row, times in (
        (Sum.TAU, sum(one)),
        (Sum.FORWARD, one[0]),
        (Sum.INSIDE, one[2]),
        (Sum.FILL, phi + beta - later),
        (Sum.SYNC, end),
    ):
        sums[row] = times @ chain.prefix.T
        option[:, Option.LEAD + row] = times @ np.array(chain.lead)
    edge = costs.edge.copy()
    edge[Edge.OMEGA] //= FOLDED_CHUNKS
    return costs._replace(
        option=option,
        host=np.column_stack([costs.host, np.zeros(len(costs.host), np.int64)]),
        sums=sums,
        edge=edge,
        weights=_by_warmup(data),
    )


def trips(costs: Costs, options: ProgramOptions) -> list[Costs]:
    """Return the costs of trips through the pipeline (``folded_trips``), if any.

    Parameters
    ----------
    costs
        Those of ``on_paths``, of which only the fill is another one.
    """
    data, chain = options.data, options.data.chain
    if not data.rule.folded:
        return []
    names = ("forward_ns", "backward_ns", "weight_ns")
    phi, beta, later = (_gathered(options, name) for name in names)
    found = []
    counts = folded_trips(data.schedule, data.stages, data.part.microbatches)
    for forth, home in counts:
        sums, option, facts = costs.sums.copy(), costs.option.copy(), costs.facts.copy()
        times = forth * phi + home * (beta - later)
        sums[Sum.FILL] = times @ chain.prefix.T
        option[:, Option.LEAD + Sum.FILL] = times @ np.array(chain.lead)
        facts[Fact.HOPS] = forth + home
        found.append(costs._replace(sums=sums, option=option, facts=facts))
    return found


def _gathered(options: ProgramOptions, name: str) -> Ints:
    """Return a column of all options' tables; shape (O, kinds)."""
    clusters = options.data.part.clusters
    rows = [getattr(clusters[j], name)[k] for j, k in options.pairs]
    return np.array(rows, dtype=np.int64)


def _by_warmup(data: ProgramData) -> Ints:
    """Return the weights of folded stages by W, as ``Costs`` has them.

    The i-th stage from the end has W = i. Where W is cut they are the least of all such
    stages; with W = 0 there is none, and the least of all is for links.
    """
    part, p = data.part, data.stages
    own = folded_weights(data.schedule, p, part.microbatches).T[::-1]
    rows = np.zeros((part.most_held + 1, len(Weight)), dtype=np.int64)
    for w in range(1, min(p, part.most_held) + 1):
        rows[w] = own[w - 1 :].min(axis=0) if w == part.most_held else own[w - 1]
    # As many transfers follow each other one way as there are forwards.
    rows[0, Weight.BACKWARD] = own[:, Weight.FORWARD].min()
    return rows
