"""Assumptions about how tokens reach the experts they are routed to."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from hetopt.base.faults import Fault
from hetopt.base.fields import Flag, Number, Positive
from hetopt.base.record import record
from hetopt.base.words import describe

_NO_CAPACITY = "none"
Dispatcher = Literal["alltoall", "deepep", "hybridep"]
#: Rates at which tokens are dispatched, over that of all-to-alls, of a layer of 32
#: experts on 8 H100 in Megatron-LM's functional tests (``benchmarks.moe_layers``).
DISPATCH_RATES: dict[Dispatcher, float] = {
    "alltoall": 1.0,
    "deepep": 1 / 0.54,
    "hybridep": 1 / 0.45,
}


def _capacity(value: Any) -> Any:
    if value == _NO_CAPACITY:
        return None
    if isinstance(value, str):
        msg = f"is {describe(value)}, expected a number or {_NO_CAPACITY}"
        raise Fault(msg)
    return value


@record
class Dispatch:
    """Dispatch of tokens to routed experts, and assumptions about it.

    Attributes
    ----------
    imbalance
        Tokens of the fullest rank over the even share, an assumption, as the
        experts of a token are not known before training: at least 1.
    capacity
        Most tokens of an expert over the even share (Megatron-LM's capacity
        factor); tokens beyond it are dropped; none: no limit.
    dispatcher
        The program that sends tokens: all-to-alls of NCCL, DeepEP or HybridEP; default:
        times are those of all-to-alls, and launchers are given them, or DeepEP for
        node_dedup.
    node_dedup
        true: a token whose experts share a node is sent there once and forwarded
        inside it (DeepSeek-V3, section 3.2.2).
    overlap
        Share of the all-to-alls that the computation of another micro-batch hides,
        if that takes as long (DeepSeek-V3, section 3.2.1), an assumption: 0 to 1.
    """

    empty_is_wrong: ClassVar = True

    imbalance: Annotated[Number, Field(ge=1)] = 1.0
    capacity: Annotated[
        Positive | None,
        BeforeValidator(_capacity),
        WithJsonSchema(
            {"type": ["number", "string"], "examples": [1.25, _NO_CAPACITY]}
        ),
    ] = None
    dispatcher: Dispatcher | None = None
    node_dedup: Flag = False
    overlap: Annotated[Number, Field(ge=0, le=1)] = 0.0

    def __post_init__(self) -> None:
        if self.node_dedup and self.dispatcher == "alltoall":
            msg = "is true, but an all-to-all sends every copy: expected false here"
            raise Fault(msg, "node_dedup")

    @property
    def priced_as(self) -> Dispatcher:
        """Whose rate times are of."""
        return self.dispatcher or "alltoall"

    @property
    def sent_by(self) -> Dispatcher:
        """What a launcher is given to send tokens."""
        return self.dispatcher or ("deepep" if self.node_dedup else "alltoall")

    @property
    def overlaps(self) -> bool:
        """Whether computation of another micro-batch hides some of the dispatch."""
        return self.overlap > 0

    @property
    def load(self) -> float:
        """Tokens of the fullest rank over the even share, after dropping."""
        if self.capacity is None:
            return self.imbalance
        return min(self.imbalance, self.capacity)


#: Every expert gets the same number of tokens.
EVEN = Dispatch()


def or_even(value: Any) -> Any:
    """Return ``EVEN`` where a file has nothing."""
    return EVEN if value is None else value
