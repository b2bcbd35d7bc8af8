"""The field ``nodes`` of a cluster: their number, or the devices of each node."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

from hetopt.base.fields import each, whole
from hetopt.base.record import Fault

#: Most nodes whose devices may be listed one by one.
MAX_LISTED_NODES = 10**4

_WHOLE = {"type": "integer", "minimum": 1}


def _read_nodes(value: Any) -> int | tuple[int, ...]:
    """Read a number of equal nodes, or the devices of each node."""
    if not isinstance(value, list | tuple):
        return whole(1)(value)
    if not value:
        raise Fault("is an empty list, expected the devices of each node")
    if len(value) > MAX_LISTED_NODES:
        msg = f"lists {len(value)} nodes, expected at most {MAX_LISTED_NODES}"
        raise Fault(msg)
    return each(whole(1), value)


Nodes = Annotated[
    int | tuple[int, ...],
    BeforeValidator(_read_nodes),
    WithJsonSchema(
        {
            "anyOf": [
                _WHOLE,
                {
                    "type": "array",
                    "items": _WHOLE,
                    "minItems": 1,
                    "maxItems": MAX_LISTED_NODES,
                },
            ]
        }
    ),
]
