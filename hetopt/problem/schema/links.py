"""The networks between clusters, as the problem file gives them."""

from __future__ import annotations

import math
from typing import Annotated, Any

from pydantic import (
    BeforeValidator,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from hetopt.base.fields import name
from hetopt.base.record import Fault
from hetopt.base.words import counted, describe, suggest
from hetopt.problem.quantity import parse_bandwidth
from hetopt.problem.schema.fields import (
    OptionalBandwidth,
    OptionalLatency,
    OptionalStaging,
    Strict,
    listed,
    optional,
    or_none,
    positive,
)

#: Words that may be given as the bandwidth of a link between clusters.
UNLIMITED, NO_LINK = "unlimited", "none"


def read_capacity(value: Any) -> float:
    """Read a link's bandwidth; inf if it is unlimited, 0 if there is no link."""
    words = {UNLIMITED: math.inf, NO_LINK: 0.0}
    if isinstance(value, str) and value.strip().lower() in words:
        return words[value.strip().lower()]
    if isinstance(value, str) and value.strip().isalpha():
        near = suggest(value.strip().lower(), list(words))
        msg = (
            f"is {describe(value)}{near}, expected a bandwidth such as '10 Gbps', "
            f"{UNLIMITED} or {NO_LINK}"
        )
        raise Fault(msg)
    return float(positive(parse_bandwidth)(value))


#: None: not given; inf: unlimited; 0: no link.
OptionalCapacity = Annotated[
    float | None,
    or_none(read_capacity),
    WithJsonSchema(
        {
            "type": ["string", "number"],
            "examples": ["10 Gbps", UNLIMITED, NO_LINK],
        }
    ),
]


class ClusterLinkSpec(Strict):
    """The network between two clusters, per direction."""

    bandwidth: OptionalCapacity = optional(
        "Bandwidth that all connections share, such as 10 Gbps; unlimited, "
        "if only the nodes' interfaces limit it; none, if there is no link."
    )
    per_node: OptionalBandwidth = optional(
        "Bandwidth of one node; default: that of its interfaces."
    )
    per_connection: OptionalBandwidth = optional(
        "Bandwidth of one pair of interfaces; default: that of the slower one."
    )
    per_message: OptionalLatency = optional(
        "Added for each of the messages that one connection carries in "
        "turn; default: 0."
    )
    latency: OptionalLatency = None
    staged: OptionalStaging = optional(
        "host (default): device to host, network, host to device; "
        "device: straight from device to device."
    )

    @model_validator(mode="before")
    @classmethod
    def _no_aggregate(cls, value: Any) -> Any:
        if isinstance(value, dict) and "aggregate" in value:
            msg = (
                "is no longer known: bandwidth is what all connections share now, "
                "per_connection what one of them carries, per_node what one node does"
            )
            raise Fault(msg, "aggregate")
        return value


class PairSpec(ClusterLinkSpec):
    """An exception for two clusters: fields left out are those of the default."""

    between: Annotated[tuple[str, ...], BeforeValidator(listed(name))] = Field(
        description="Two cluster names."
    )

    @field_validator("between", mode="after")
    @classmethod
    def _two(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len(value) != 2:
            msg = (
                f"names {counted(len(value), 'cluster')}, expected two such as [a100, "
                "h20]"
            )
            raise Fault(msg)
        return value


class LinksSpec(Strict):
    """Links between clusters."""

    default: ClusterLinkSpec | None = optional(
        "Required unless pairs lists every pair of clusters."
    )
    pairs: tuple[PairSpec, ...] = ()

    @field_validator("pairs", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, list):
            msg = f"is {describe(value)}, expected a list of links with between"
            raise Fault(msg)
        return value or []
