"""What the boundaries of a pipeline share: links between clusters, and uplinks.

Every boundary that touches a cluster sends either activations or gradients over its
uplink and receives the others, so that n boundaries are n transfers in each direction
per micro-batch; likewise n boundaries between the same two clusters. All n have to
fit into a period, so the closed form has (MODEL.md, section 4)

    n * service <= lambda,

where ``service`` is the time for which one transfer alone occupies what is shared. If
all forwards come first, activations and gradients do not meet, and n counts only
transfers of one kind in the same direction. Kappa is unchanged: in the steady state
transfers mostly run at different times. ``hetopt.schedule.run`` simulates this.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from hetopt.problem.training.choices import ScheduleName


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedLinks:
    """How long one boundary's tensor occupies what boundaries may share; J clusters.

    Attributes
    ----------
    uplink_ns
        Time on a cluster's uplink, in one direction; 0 if it has none; shape (J,).
    link_ns
        Time on the whole link between two clusters, likewise; 0 if it has no capacity
        of its own; symmetric; shape (J, J).
    """

    uplink_ns: NDArray[np.int64]
    link_ns: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A link or uplink that at least two boundaries use, ``service_ns`` per transfer.

    Attributes
    ----------
    outward
        For each boundary, whether its activations leave the uplink's cluster (of a
        link, the cluster with the smaller number); gradients go the other way.
        Transfers in opposite directions do not meet.
    """

    service_ns: int
    boundaries: tuple[int, ...]
    outward: tuple[bool, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """What boundaries share, and omega of each boundary without sharing.

    Attributes
    ----------
    all_first
        Whether the schedule runs all forwards first.
    """

    all_first: bool
    occupancy_ns: tuple[int, ...]
    shares: tuple[Share, ...]

    def contended(self) -> tuple[int, ...]:
        """Return omega of each boundary as the closed form uses it."""
        occupancy = list(self.occupancy_ns)
        for share in self.shares:
            meeting = len(share.boundaries)
            if self.all_first:
                meeting = max(map(share.outward.count, (True, False)))
            if meeting == 1:
                # Alone it takes the time of its own tensor, not of the largest.
                continue
            together = meeting * share.service_ns
            for boundary in share.boundaries:
                occupancy[boundary] = max(occupancy[boundary], together)
        return tuple(occupancy)


def sharing_of(
    shared: SharedLinks | None,
    schedule: ScheduleName,
    clusters: Sequence[int],
    occupancy_ns: tuple[int, ...],
) -> Sharing | None:
    """Return what boundaries share; None if nothing is and there is no way back.

    Parameters
    ----------
    clusters
        Cluster of every stage.
    occupancy_ns
        omega of every boundary, without sharing, then of the way back if there is one.
    """
    if shared is None:
        return None
    ends_of = [*pairwise(clusters), (clusters[-1], clusters[0])]
    crossings = {
        boundary: ends_of[boundary]
        for boundary in range(len(occupancy_ns))
        if ends_of[boundary][0] != ends_of[boundary][1]
    }
    used = sorted(set(clusters))
    services: list[tuple[set[int], int]] = [
        ({j}, int(shared.uplink_ns[j])) for j in used
    ]
    services += [({i, j}, int(shared.link_ns[i, j])) for i, j in combinations(used, 2)]
    shares = []
    for touched, service_ns in services:
        users = [b for b, ends in crossings.items() if touched <= set(ends)]
        if service_ns and len(users) > 1:
            share = Share(
                service_ns=service_ns,
                boundaries=tuple(users),
                outward=tuple(crossings[b][0] == min(touched) for b in users),
            )
            shares.append(share)
    if not shares and len(occupancy_ns) < len(clusters):
        return None
    return Sharing(
        all_first=rule_of(schedule).all_first,
        occupancy_ns=occupancy_ns,
        shares=tuple(shares),
    )
