"""Refuse pins that no strategy of their cluster satisfies, memory aside.

The solvers would leave such a cluster unused. That is not what a user means by pinning
its degrees; an unused cluster is pinned with ``stages: 0``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.base.faults import Fault
from hetopt.problem.cluster.packing import packed
from hetopt.problem.meshes import Mesh, divisors, meshes
from hetopt.problem.training.pins import ANY, NO_CLUSTER_PINS, Domain

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.pins import Pins
    from hetopt.problem.training.training import Training

_DEGREES = Mesh._fields
#: Degrees of models without experts.
_DENSE = _DEGREES[:3]
#: Most values that a message lists.
_LISTED = 16


def check_meshes(
    pins: Pins, model: Model, clusters: Iterable[Cluster], training: Training
) -> None:
    """Raise Fault if pins permit no degrees of a cluster that may be used."""
    for cluster in clusters:
        if pins.order is None or cluster.name in pins.order:
            _PinnedMeshes(pins, model, cluster, training).check()


class _PinnedMeshes:
    """The meshes of one cluster under some of its pins."""

    def __init__(
        self, pins: Pins, model: Model, cluster: Cluster, training: Training
    ) -> None:
        self.model = model
        self.cluster = cluster
        self.training = training
        own = pins.of(cluster.name)
        self.domains = {
            **{name: getattr(own, name) for name in (*_DEGREES, "stages")},
            "microbatches": pins.microbatches,
        }
        self.pinned = [name for name, domain in self.domains.items() if domain != ANY]

    def check(self) -> None:
        """Raise Fault that names the wrong pin and the possible values."""
        if not set(self.pinned) & set(_DEGREES) or self._is_unused():
            return
        if any(self._meshes(())):
            return
        for name in self.pinned:
            if name in _DEGREES:
                self._check_alone(name)
        for name in self.pinned:
            self._check_beside_others(name)
        named = _DENSE if self.model.experts is None else _DEGREES
        found = {tuple(mesh)[: len(named)] for mesh in self._meshes(self.pinned)}
        together = f"({', '.join(named)}) can be {_text(found)}"
        msg = f"leave no strategy together, {together}"
        raise Fault(msg, "clusters", self.cluster.name)

    def _is_unused(self) -> bool:
        """Whether the pins exclude every number of stages above 0."""
        return self._least_stages(self.domains["stages"]) is None

    def _least_stages(self, domain: Domain) -> int | None:
        counts = range(1, self.cluster.devices + 1)
        return next((count for count in counts if domain.permits(count)), None)

    def _meshes(self, free: Iterable[str]) -> Iterator[Mesh]:
        """Yield the meshes that the pins permit, leaving out the pins in ``free``."""
        domains = self.domains | dict.fromkeys(free, ANY)
        least = self._least_stages(domains["stages"]) or 1
        pins = replace(NO_CLUSTER_PINS, **{name: domains[name] for name in _DEGREES})
        for count in divisors(self.training.global_batch):
            if not domains["microbatches"].permits(count):
                continue
            for mesh in meshes(self.model, self.cluster, self.training, pins, count):
                if least <= self._most_stages(mesh):
                    yield mesh

    def _most_stages(self, mesh: Mesh) -> int:
        found = packed(self.cluster, mesh.devices, mesh.inside)
        return found.stages if found else 0

    def _check_alone(self, name: str) -> None:
        """Raise Fault if no mesh has the degree even without other pins."""
        values = {getattr(mesh, name) for mesh in self._meshes(self.pinned)}
        if not any(self.domains[name].permits(value) for value in values):
            msg = (
                f"no strategy of cluster {self.cluster.name!r} satisfies it, "
                f"{name} can be {_text(values)}"
            )
            raise self._error(name, msg)

    def _check_beside_others(self, name: str) -> None:
        """Raise Fault if there are meshes without this pin."""
        found = set(self._meshes((name,)))
        if not found:
            return
        others = " and ".join(
            f"{other} {self._said(other)}" for other in self.pinned if other != name
        )
        if name == "stages":
            most = max(map(self._most_stages, found))
            can = f"at most {most}"
        elif name == "microbatches":
            batch = self.training.global_batch
            counts = {
                count
                for mesh in found
                for count in divisors(batch // mesh.dp)
                if batch % mesh.dp == 0
            }
            can = _text(counts)
        else:
            can = _text({getattr(mesh, name) for mesh in found})
        msg = (
            f"no strategy of cluster {self.cluster.name!r} satisfies it beside "
            f"{others}, with which {name} can be {can}"
        )
        raise self._error(name, msg)

    def _said(self, name: str) -> str:
        """Return the pinned or forbidden values of a decision as text."""
        domain: Domain = self.domains[name]
        if domain.allowed is not None:
            return " or ".join(map(str, sorted(domain.allowed, key=str)))
        return "not " + " or ".join(map(str, sorted(domain.forbidden, key=str)))

    def _error(self, name: str, message: str) -> Fault:
        pin = () if self.domains[name].allowed is not None else ("forbid",)
        inside = () if name == "microbatches" else ("clusters", self.cluster.name)
        return Fault(f"is {self._said(name)}: {message}", *pin, *inside, name)


def _text(values: Iterable[object]) -> str:
    listed = sorted(values, key=lambda value: (len(str(value)), str(value)))
    shown = [str(value) for value in listed[:_LISTED]]
    return ", ".join(shown) + (", ..." if len(listed) > _LISTED else "")
