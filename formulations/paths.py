"""Find strategies that lengthen no path through the events of a plan.

The simulated time is the longest of these paths, so a plan takes no longer with such a
strategy in place of another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.formulations.chain import Chain


class Simulated(NamedTuple):
    """A restriction to plans by their simulated times.

    Attributes
    ----------
    limit_ns
        The longest simulated time of interest.
    stages
        The largest number of stages.
    """

    limit_ns: int
    stages: int


class Lost(NamedTuple):
    """What stages lose with layout b in place of layout a; shape (A, A).

    Attributes
    ----------
    most
        The most that a stage loses at its boundaries and by tied embeddings.
    occupied
        The largest occupancy among those that are longer with b; -1 if none is.
    behind
        The most that tied embeddings add if the first stage is on another cluster.
    """

    most: NDArray[np.int64]
    occupied: NDArray[np.int64]
    behind: NDArray[np.int64]


def lengthens_nothing(
    cluster: ClusterTable,
    chain: Chain,
    lost: Lost,
    own: NDArray[np.int64],
    new: NDArray[np.int64],
) -> NDArray[np.bool_]:
    """Whether no path is longer with k' in place of k, for each pair.

    A path with a transfer of a stage also has the pass that sends or receives it, and
    before a stage's g its last backward. So a pass has to save what the transfers
    beside it lose, and the last backward what g loses, too. Occupancies do not matter
    if they are no longer than any pass of the stage, as passes run one at a time. A
    path may end with the first stage's g and have no pass of the last stage, so what
    tied embeddings add there must not grow.

    Parameters
    ----------
    own, new
        Rows k and k' of the cluster's strategies.
    """
    body = list(chain.kinds)
    ends = np.array(chain.lead) + np.array(chain.trail)
    pair = cluster.layout[own], cluster.layout[new]
    risen_by = lost.most[pair]
    forward = cluster.forward_ns[own] - cluster.forward_ns[new]
    backward = cluster.backward_ns[own] - cluster.backward_ns[new]
    final = backward - cluster.sync_unit_ns[new] + cluster.sync_unit_ns[own]
    synced = risen_by + cluster.sync_ns[new] - cluster.sync_ns[own]
    shortest = np.minimum(cluster.forward_ns, cluster.backward_ns)[new]
    able: NDArray[np.bool_] = lost.occupied[pair] <= shortest[:, body].min(axis=1)
    able &= lost.behind[pair] <= 0
    for saved, needed in (
        (forward, risen_by),
        (backward, risen_by),
        (final, synced),
    ):
        least = saved[:, body].min(axis=1)
        able &= (least >= 0) & (least + np.minimum(saved, 0) @ ends >= needed)
    return able


def rise(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how much longer the second of two times is; (A,) makes (A, A)."""
    return times - times[:, None]


def risen(times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the second of two times where it is longer, else -1; (A, A)."""
    return np.where(times > times[:, None], times, -1)
