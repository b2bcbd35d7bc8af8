"""Links between clusters.

Bandwidths are per node or connection and per direction, in decimal bytes per second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
    WrapValidator,
)

from hetopt.base.faults import FLAT, Fault
from hetopt.base.fields import Name, items
from hetopt.base.record import record
from hetopt.base.words import counted, describe, suggest
from hetopt.problem.fields import Bandwidth, Latency

Staging = Literal["host", "device"]
#: Words that may be given as the bandwidth of a link between clusters.
UNLIMITED, NO_LINK = "unlimited", "none"


def _capacity(value: Any) -> Any:
    """Pass on a link's bandwidth; None if it is unlimited, inf if there is no link."""
    word = value.strip().lower() if isinstance(value, str) else ""
    if word == UNLIMITED:
        return None
    if word.isalpha():
        near = suggest(word, [UNLIMITED, NO_LINK])
        msg = (
            f"is {describe(value)}{near}, expected a bandwidth such as '10 Gbps', "
            f"{UNLIMITED} or {NO_LINK}"
        )
        raise Fault(msg)
    return value


@record
class ClusterLink:
    """The network between two clusters, per direction.

    Attributes
    ----------
    capacity_bytes_per_s
        Bandwidth that all connections share, such as 10 Gbps; unlimited, if only
        the nodes' interfaces limit it; none, if there is no link.
    node_bytes_per_s
        Bandwidth of one node; default: that of its interfaces.
    connection_bytes_per_s
        Bandwidth of one pair of interfaces; default: that of the slower one.
    message_s
        Added for each of the messages that one connection carries in turn; default:
        0.
    latency_s
        One such as '1 ms'; paid once per transfer.
    staged
        host (default): device to host, network, host to device (HetAuto, section
        5.1); device: straight from device to device (H2, section 3.2).
    """

    elsewhere: ClassVar = ("latency",)

    capacity_bytes_per_s: Annotated[
        Bandwidth | None,
        Field(alias="bandwidth"),
        BeforeValidator(_capacity),
        WithJsonSchema(
            {"type": ["string", "number"], "examples": ["10 Gbps", UNLIMITED, NO_LINK]}
        ),
    ] = None
    node_bytes_per_s: Annotated[Bandwidth | None, Field(alias="per_node")] = None
    connection_bytes_per_s: Annotated[
        Bandwidth | None, Field(alias="per_connection")
    ] = None
    message_s: Annotated[Latency, Field(alias="per_message")] = 0.0
    latency_s: Annotated[Latency, Field(alias="latency")]
    staged: Staging = "host"

    @staticmethod
    def completed(given: dict[str, Any], _: object) -> dict[str, Any]:
        """Return what a file gives, if a bandwidth is."""
        if "bandwidth" not in given:
            msg = "is missing, expected one such as '10 Gbps', unlimited or none"
            raise Fault(msg, "bandwidth")
        return given


def _link(value: Any, read_link: Callable[[Any], Any], info: ValidationInfo) -> Any:
    """Read a link; None if there is none, whose other fields are read all the same."""
    word = value.get("bandwidth") if isinstance(value, dict) else None
    if isinstance(word, str) and word.strip().lower() == NO_LINK and info.context:
        read_link({"latency": "0 s", **_given(value), "bandwidth": UNLIMITED})
        return None
    return read_link(value)


def _given(link: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in link.items() if value is not None}


def _two(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) != 2:
        msg = (
            f"names {counted(len(names), 'cluster')}, expected two such as [a100, h20]"
        )
        raise Fault(msg)
    if names[0] == names[1]:
        raise Fault(f"names {names[0]!r} twice, expected two clusters")
    return names


OptionalLink = Annotated[ClusterLink | None, WrapValidator(_link)]


@record
class Pair:
    """An exception for two clusters: fields left out are those of the default.

    Attributes
    ----------
    between
        Two cluster names.
    link
        As the default.
    """

    between: Annotated[tuple[Name, ...], AfterValidator(_two), BeforeValidator(items)]
    link: Annotated[OptionalLink, Field(alias=FLAT)]


_PAIRS = TypeAdapter(tuple[Pair, ...])


class _Listed:
    """Marks links by pairs of clusters, which files list."""

    items = Pair

    @classmethod
    def __get_pydantic_json_schema__(cls, _: Any, handler: GetJsonSchemaHandler) -> Any:
        return handler(_PAIRS.core_schema)


def _pairs(value: Any, info: ValidationInfo) -> Any:
    """Read exceptions by pairs of clusters."""
    if info.context is None:
        return value
    if not isinstance(value, list):
        msg = f"is {describe(value)}, expected a list of links with between"
        raise Fault(msg)
    if "default" not in info.data:
        # They have its fields, whose faults are said.
        return {}
    found: dict[frozenset[str], ClusterLink | None] = {}
    pairs = _PAIRS.validate_python(value, context=info.context, strict=False)
    for index, pair in enumerate(pairs):
        if frozenset(pair.between) in found:
            msg = f"gives {' and '.join(pair.between)} a second time"
            raise Fault(msg, index, "between")
        found[frozenset(pair.between)] = pair.link
    return found


@record
class ClusterLinks:
    """Links between clusters: a default, and exceptions by unordered pair.

    None means that there is no link: neither a pipeline boundary nor the gradients of a
    tied embedding can cross.

    Attributes
    ----------
    default
        Required unless pairs lists every pair of clusters.
    pairs
        Exceptions.
    """

    default: OptionalLink = None
    pairs: Annotated[
        Mapping[frozenset[str], ClusterLink | None], BeforeValidator(_pairs), _Listed
    ] = field(default_factory=dict)

    @staticmethod
    def completed(given: dict[str, Any], _: object) -> dict[str, Any]:
        """Return what a file gives, with the default's fields in its exceptions."""
        default, pairs = given.get("default"), given.get("pairs")
        if isinstance(default, dict) and isinstance(pairs, list):
            usual = _given(default)
            given["pairs"] = [
                usual | _given(pair) if isinstance(pair, dict) else pair
                for pair in pairs
            ]
        return given

    def between(self, first: str, second: str) -> ClusterLink | None:
        """Return the link between two clusters, in either direction."""
        return self.pairs.get(frozenset({first, second}), self.default)
