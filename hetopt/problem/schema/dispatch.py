"""The ``moe`` section of ``training``: how tokens reach routed experts."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from hetopt.base.words import describe
from hetopt.problem.schema.architecture import read_number
from hetopt.problem.schema.fields import Flag, Strict, field_error, optional, positive

NO_CAPACITY = "none"


def _read_capacity(value: Any) -> float | None:
    if value is None or value == NO_CAPACITY:
        return None
    if isinstance(value, str):
        msg = f"is {describe(value)}, expected a number or {NO_CAPACITY}"
        raise field_error(msg)
    return float(positive(read_number)(value))


class DispatchSpec(Strict):
    """Dispatch of tokens to routed experts, and assumptions about it."""

    imbalance: Annotated[
        float,
        BeforeValidator(read_number),
        WithJsonSchema({"type": "number", "minimum": 1}),
    ] = Field(
        1.0,
        description="Tokens of the fullest rank over the even share, an assumption: "
        "at least 1.",
    )
    capacity: Annotated[
        float | None,
        BeforeValidator(_read_capacity),
        WithJsonSchema({"type": ["number", "string"], "examples": [1.25, NO_CAPACITY]}),
    ] = optional(
        "Most tokens of an expert over the even share; tokens beyond it "
        "are dropped; none: no limit."
    )
    node_dedup: Flag = Field(
        False,
        description="true: a token whose experts share a node is sent there once.",
    )
    overlap: Annotated[
        float,
        BeforeValidator(read_number),
        WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
    ] = Field(
        0.0,
        description="Share of the all-to-alls that the computation of another "
        "micro-batch hides, an assumption: 0 to 1.",
    )
