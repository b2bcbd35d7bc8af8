"""The decisions that a user pins or forbids."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from hetopt.base.checked import checked


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The values of one decision that the user permits.

    Attributes
    ----------
    allowed
        The pinned values; None: any.
    forbidden
        Values ruled out.
    """

    allowed: frozenset[Hashable] | None = None
    forbidden: frozenset[Hashable] = frozenset()

    def permits(self, value: Hashable) -> bool:
        """Whether the user permits ``value`` for this decision."""
        return value not in self.forbidden and (
            self.allowed is None or value in self.allowed
        )


ANY = Domain()


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPins:
    """Pinned and forbidden decisions of one cluster.

    ``stages`` and ``units`` count pipeline stages and units hosted; 0 means that
    the cluster is not used, so forbidding 0 stages forces its use.
    """

    stages: Domain = ANY
    units: Domain = ANY
    dp: Domain = ANY
    cp: Domain = ANY
    tp: Domain = ANY
    ep: Domain = ANY
    etp: Domain = ANY
    recompute: Domain = ANY

    def may_host(self, devices: int, units: int) -> bool:
        """Whether a cluster of so many devices may host some of a model's units."""
        return any(map(self.stages.permits, range(1, devices + 1))) and any(
            map(self.units.permits, range(1, units + 1))
        )


NO_CLUSTER_PINS = ClusterPins()


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Pins:
    """Every decision of a plan that the user fixes or forbids.

    Attributes
    ----------
    stages, microbatches
        Domains of p and q.
    order
        Exactly these clusters, in this order along the pipeline; None: free.
    forbidden_next
        Pairs (a, b): cluster b may not directly follow cluster a.
    units
        Units per stage, in pipeline order; None: free.
    clusters
        Per cluster name; a missing name has no pins.
    resharding
        Resharding strategies that a boundary may use.
    """

    stages: Domain = ANY
    microbatches: Domain = ANY
    order: tuple[str, ...] | None = None
    forbidden_next: frozenset[tuple[str, str]] = frozenset()
    units: tuple[int, ...] | None = None
    clusters: Mapping[str, ClusterPins] = field(default_factory=dict)
    resharding: Domain = ANY

    def of(self, cluster: str) -> ClusterPins:
        """Return the pins of one cluster."""
        return self.clusters.get(cluster, NO_CLUSTER_PINS)
