"""The decisions that a user pins or forbids."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import InitVar, field, fields
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    GetCoreSchemaHandler,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema

from hetopt.base.faults import Fault, inside
from hetopt.base.fields import Name, choice, each, items, several, whole
from hetopt.base.record import INTERNAL, record
from hetopt.base.words import counted, describe
from hetopt.problem.training.choices import RECOMPUTE_OPTIONS, RESHARDING


@record
class Domain:
    """The values of one decision that the user permits.

    Attributes
    ----------
    allowed
        The pinned values; None: any.
    forbidden
        Values ruled out.
    """

    allowed: Annotated[frozenset[Hashable] | None, INTERNAL] = None
    forbidden: Annotated[frozenset[Hashable], INTERNAL] = frozenset()

    @property
    def values(self) -> list[Any]:
        """The pinned values, sorted."""
        values: Iterable[Any] = self.allowed or ()
        return sorted(values)

    def permits(self, value: Hashable) -> bool:
        """Whether the user permits ``value`` for this decision."""
        return value not in self.forbidden and (
            self.allowed is None or value in self.allowed
        )

    def without(self, forbidden: Domain) -> Domain:
        """Return the values permitted here that others do not forbid.

        Raises
        ------
        Fault
            All pinned values are forbidden.
        """
        if forbidden.allowed is None:
            return self
        both = Domain(allowed=self.allowed, forbidden=forbidden.allowed)
        if self.allowed is not None and not any(map(both.permits, self.allowed)):
            raise Fault("forbids all pinned values")
        return both


ANY = Domain()


class _Values:
    """Marks a decision, of which files give a value or several.

    Parameters
    ----------
    read
        Reads a value.
    schema
        JSON Schema of a value.
    """

    def __init__(self, read: Callable[[Any], Any], schema: dict[str, Any]) -> None:
        self._several, self._schema = several(read), schema

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        def read(value: Any, info: ValidationInfo) -> Any:
            if info.context is None:
                return value
            return Domain(allowed=frozenset(self._several(value)))

        return core_schema.with_info_before_validator_function(read, handler(source))

    def __get_pydantic_json_schema__(self, *_: Any) -> dict[str, Any]:
        many = {"type": "array", "items": self._schema, "minItems": 1}
        return {"anyOf": [self._schema, many]}


Counts = Annotated[Domain, _Values(whole(1), {"type": "integer", "minimum": 1})]
FromZero = Annotated[Domain, _Values(whole(0), {"type": "integer", "minimum": 0})]
Policies = Annotated[
    Domain, _Values(choice(RECOMPUTE_OPTIONS), {"enum": list(RECOMPUTE_OPTIONS)})
]
Reshardings = Annotated[Domain, _Values(choice(RESHARDING), {"enum": list(RESHARDING)})]


@record
class ClusterPins:
    """Decisions of one cluster: a value, or a list of the values allowed.

    0 stages mean that the cluster is not used, so forbidding them forces its use.

    Attributes
    ----------
    stages
        Pipeline stages it hosts; 0: it is not used.
    units
        Units that its stages have, counted as pin.units.
    dp
        Data parallelism, if the cluster is used.
    cp
        Context parallelism, if used.
    tp
        Tensor parallelism, if used.
    ep
        Expert parallelism, if used; of models with experts alone.
    etp
        Tensor parallelism of experts, if used; of models with experts alone.
    recompute
        Recomputation, if used.
    """

    stages: FromZero = ANY
    units: FromZero = ANY
    dp: Counts = ANY
    cp: Counts = ANY
    tp: Counts = ANY
    ep: Counts = ANY
    etp: Counts = ANY
    recompute: Policies = ANY

    def may_host(self, devices: int, units: int) -> bool:
        """Whether a cluster of so many devices may host some of a model's units."""
        return any(map(self.stages.permits, range(1, devices + 1))) and any(
            map(self.units.permits, range(1, units + 1))
        )


NO_CLUSTER_PINS = ClusterPins()


def _by_name(value: Any) -> Any:
    if not isinstance(value, Mapping):
        msg = f"is {describe(value)}, expected a mapping from cluster names"
        raise Fault(msg)
    return value


def _units(value: Any, info: ValidationInfo) -> Any:
    """Read units per stage; a program may ask for none, which no plan has."""
    return value if info.context is None else each(whole(1), items(value))


def _cuts(value: Any, info: ValidationInfo) -> Any:
    return value if info.context is None else each(whole(0), items(value))


_UNITS = WithJsonSchema(
    {"type": "array", "items": {"type": "integer", "minimum": 1}},
)
_CUTS = WithJsonSchema({"type": "array", "items": {"type": "integer", "minimum": 0}})
_ByCluster = Annotated[Mapping[str, ClusterPins], BeforeValidator(_by_name)]
_Names = Annotated[tuple[Name, ...], BeforeValidator(items)]


@record
class Forbid:
    """Values ruled out; the shape mirrors that of ``pin``.

    Attributes
    ----------
    stages
        Pipeline stages.
    microbatches
        Micro-batches.
    clusters
        By cluster name.
    resharding
        Resharding strategies.
    next
        Pairs [a, b]: cluster b may not directly follow cluster a.
    """

    stages: Counts = ANY
    microbatches: Counts = ANY
    clusters: _ByCluster = field(default_factory=dict)
    resharding: Reshardings = ANY
    next: Annotated[tuple[_Names, ...], BeforeValidator(items)] = ()

    def __post_init__(self) -> None:
        for index, pair in enumerate(self.next):
            if len(pair) != 2:
                names = counted(len(pair), "cluster")
                msg = f"names {names}, expected a pair such as [a100, h20]"
                raise Fault(msg, "next", index)
            if pair[0] == pair[1]:
                msg = f"names {pair[0]!r} twice, expected two clusters"
                raise Fault(msg, "next", index)


@record
class Pins:
    """Decisions that the user fixes: a value, or a list of the values allowed.

    Attributes
    ----------
    stages
        Pipeline stages (p).
    microbatches
        Micro-batches (q); divides the global batch.
    order
        Exactly these clusters, in this order along the pipeline.
    forbidden_next
        Pairs (a, b): cluster b may not directly follow cluster a.
    units
        Units per stage in pipeline order, embedding and head included; of one chunk
        where a stage has several, pairs with zb-v, v-half and v-min.
    clusters
        By cluster name.
    cuts
        Of interleaved-1f1b: the end of each chunk in the chain of units, embedding and
        head included; first the first chunks of all stages, then the second ones.
        Chunks may differ, and may be empty.
    layout
        The same as Megatron-LM's --pipeline-model-parallel-layout says it, such as
        'Et*2|(t*2|)*6,tL', instead of cuts.
    resharding
        Resharding strategies a boundary may use.
    forbid
        Values ruled out.
    """

    stages: Counts = ANY
    microbatches: Counts = ANY
    order: _Names | None = None
    forbidden_next: Annotated[frozenset[tuple[str, str]], INTERNAL] = frozenset()
    units: Annotated[tuple[int, ...], BeforeValidator(_units), _UNITS] | None = None
    cuts: Annotated[tuple[int, ...], BeforeValidator(_cuts), _CUTS] | None = None
    layout: str | None = None
    clusters: _ByCluster = field(default_factory=dict)
    resharding: Reshardings = ANY
    forbid: InitVar[Forbid | None] = None

    def __post_init__(self, forbid: Forbid | None) -> None:
        if forbid is None:
            return
        found: dict[str, Any] = {"forbidden_next": frozenset(forbid.next)}
        for name in ("stages", "microbatches", "resharding"):
            found[name] = _without(self, forbid, name)
        found["clusters"] = {**self.clusters}
        for cluster, ruled_out in forbid.clusters.items():
            own, path = self.of(cluster), ("clusters", cluster)
            found["clusters"][cluster] = ClusterPins(
                **{
                    each.name: _without(own, ruled_out, each.name, *path)
                    for each in fields(ClusterPins)
                }
            )
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @property
    def cuts_key(self) -> str:
        """The key that says where chunks end."""
        return "cuts" if self.layout is None else "layout"

    def of(self, cluster: str) -> ClusterPins:
        """Return the pins of one cluster."""
        return self.clusters.get(cluster, NO_CLUSTER_PINS)


def _without(pinned: object, forbidden: object, name: str, *path: str) -> Domain:
    """Return what two records permit of a decision."""
    own: Domain = getattr(pinned, name)
    with inside("forbid", *path, name):
        return own.without(getattr(forbidden, name))
