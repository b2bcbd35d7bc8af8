"""Layers whose MLP is a mixture of experts: how many, how wide, how they are chosen."""

from __future__ import annotations

from dataclasses import InitVar
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, WithJsonSchema

from hetopt.base.faults import Fault
from hetopt.base.fields import Count, Flag, Positive, Whole, each, whole
from hetopt.base.record import record

Scores = Literal["softmax", "sigmoid"]
#: Most layers of a model; a unit is made for each of them.
MAX_LAYERS = 10**5


def first_layers(value: Any) -> tuple[int, ...]:
    """Return listed layers, or those that a number of first layers stands for."""
    read = whole(0, MAX_LAYERS)
    is_list = isinstance(value, list | tuple)
    return each(read, value) if is_list else tuple(range(read(value)))


_FROM_ZERO = {"type": "integer", "minimum": 0}
Layers = Annotated[
    tuple[int, ...],
    BeforeValidator(first_layers),
    WithJsonSchema({"anyOf": [_FROM_ZERO, {"type": "array", "items": _FROM_ZERO}]}),
]


@record
class Experts:
    """Layers with routed experts instead of an MLP; a router chooses some per token.

    An expert is an MLP of the model's kind (gated or not, with its biases).

    Attributes
    ----------
    number
        Routed experts of a layer.
    per_token
        Experts that a token is sent to; at most number.
    ffn
        Inner size of a routed expert.
    shared_ffn
        Inner size of the shared experts together, which all tokens pass; default:
        0, there are none.
    shared_gate
        The shared experts' result has a weight of its own, between 0 and 1
        (Qwen2-MoE); default: false.
    groups
        Groups of experts, of which a token's are in groups_per_token (DeepSeek-V2
        and -V3, a group on every node); default: 0, no limit.
    groups_per_token
        Groups that a token's experts are in; default: 0, no limit.
    router_bias
        The router has a number for each expert; default: false.
    scores
        Weights of experts are a softmax (default) or sigmoid of the router's
        result.
    normalised
        Weights of a token's experts add up to 1 before scale; default: true.
    scale
        What weights are multiplied with; default: 1.
    weighted_input
        A token is weighted before its experts (Llama-4), not their results;
        default: false.
    dense_layers
        Layers with one MLP for all tokens, of inner size ffn of the model: so many
        from the first on, or a list, counted from 0; default: none.
    every
        Every n-th layer is routed (2: the second, the fourth, ...); default: 1, all
        but dense_layers.
    """

    number: Count
    per_token: Count
    ffn: Count
    shared_ffn: Whole = 0
    shared_gate: Flag = False
    groups: Whole = 0
    groups_per_token: Whole = 0
    router_bias: Flag = False
    scores: Scores = "softmax"
    normalised: Flag = True
    scale: Positive = 1.0
    weighted_input: Flag = False
    dense_layers: Layers = ()
    every: InitVar[Count] = 1

    def __post_init__(self, every: int) -> None:
        groups, most = self.groups, self.groups_per_token
        if self.per_token > self.number:
            msg = f"is {self.per_token}, expected at most number ({self.number})"
            raise Fault(msg, "per_token")
        if self.shared_gate and not self.shared_ffn:
            raise Fault("is true, but there is no shared_ffn", "shared_gate")
        if (groups == 0) != (most == 0):
            here, other = ("groups", "groups_per_token")[:: 1 if groups else -1]
            raise Fault(f"is given without {other}, expected both or neither", here)
        if groups and self.number % groups:
            msg = f"is {groups}, which does not divide number ({self.number})"
            raise Fault(msg, "groups")
        if most > groups:
            msg = f"is {most}, expected at most groups ({groups})"
            raise Fault(msg, "groups_per_token")
        if groups and self.per_token > most * (self.number // groups):
            msg = (
                f"is {most}, whose groups hold fewer experts than per_token "
                f"({self.per_token})"
            )
            raise Fault(msg, "groups_per_token")
        ensure_ascending(self.dense_layers, "dense_layers")

    def routed(self, layers: int) -> tuple[bool, ...]:
        """Return for each layer whether it is routed."""
        dense = frozenset(self.dense_layers)
        return tuple(layer not in dense for layer in range(layers))

    def ensure_fit(self, layers: int) -> None:
        """Raise Fault if so many layers cannot have these experts."""
        ensure_among(self.dense_layers, layers, "dense_layers")
        if not any(self.routed(layers)):
            msg = "is all layers, expected one that is routed at least"
            raise Fault(msg, "dense_layers")


def ensure_ascending(numbers: tuple[int, ...], field: str) -> None:
    """Raise Fault unless a list of layers is ascending."""
    if list(numbers) != sorted(set(numbers)):
        raise Fault("is not ascending from 0, expected each layer once", field)


def ensure_among(numbers: tuple[int, ...], layers: int, field: str) -> None:
    """Raise Fault if an ascending list has other layers than a model has."""
    if numbers and numbers[-1] >= layers:
        msg = f"is up to {numbers[-1]}, expected layers from 0 to {layers - 1}"
        raise Fault(msg, field)
