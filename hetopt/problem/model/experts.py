"""Layers whose MLP is a mixture of experts: how many, how wide, how they are chosen."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from hetopt.base.checked import checked
from hetopt.base.least import ensure_least

Scores = Literal["softmax", "sigmoid"]

_COUNTS = ("number", "per_token", "ffn")
_LATER_COUNTS = ("shared_ffn", "groups", "groups_per_token")


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Experts of every routed layer, of which a router chooses some for each token.

    An expert is an MLP of the model's kind (gated or not, with its biases).

    Attributes
    ----------
    number
        Routed experts of a layer, E.
    per_token
        Experts that a token is sent to, k; at most ``number``.
    ffn
        Inner width of a routed expert, f_e.
    shared_ffn
        Inner width of all shared experts, which every token passes; 0: none.
    shared_gate
        Whether a token's result of the shared experts is multiplied with a number
        between 0 and 1, from a matrix of one column (Qwen2-MoE).
    groups, groups_per_token
        Groups of experts, and groups that a token's experts may be in (the node limit M
        of DeepSeek-V2 and -V3, which have one group on every node); both 0: no limit.
    router_bias
        Whether the router has a bias for each expert, besides its matrix.
    scores, normalised, scale
        Weights of experts: ``softmax`` or ``sigmoid`` of the router's result; whether
        those of a token's experts are divided by their sum; their factor.
    weighted_input
        Whether a token is multiplied with an expert's weight before the expert
        (Llama-4), not the expert's result.
    dense_layers
        Layers with the model's own MLP, counted from 0 and ascending; all others are
        routed.
    """

    number: int
    per_token: int
    ffn: int
    shared_ffn: int = 0
    shared_gate: bool = False
    groups: int = 0
    groups_per_token: int = 0
    router_bias: bool = False
    scores: Scores = "softmax"
    normalised: bool = True
    scale: float = 1.0
    weighted_input: bool = False
    dense_layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        ensure_least(self, 1, _COUNTS)
        ensure_least(self, 0, _LATER_COUNTS)
        if self.per_token > self.number:
            msg = (
                f"per_token is {self.per_token}, expected at most number "
                f"({self.number})"
            )
            raise ValueError(msg)
        if self.shared_gate and not self.shared_ffn:
            msg = "shared_gate is true, but there is no shared_ffn"
            raise ValueError(msg)
        if not 0 < self.scale < math.inf:
            msg = f"scale is {self.scale:g}, expected more than 0"
            raise ValueError(msg)
        self._check_groups()
        ascending = sorted({layer for layer in self.dense_layers if layer >= 0})
        if list(self.dense_layers) != ascending:
            msg = "dense_layers is not ascending from 0, expected each layer once"
            raise ValueError(msg)

    def _check_groups(self) -> None:
        """Raise ValueError if groups cannot hold a token's experts."""
        groups, most = self.groups, self.groups_per_token
        if (groups == 0) != (most == 0):
            here, other = ("groups", "groups_per_token")[:: 1 if groups else -1]
            msg = f"{here} is given without {other}, expected both or neither"
            raise ValueError(msg)
        if not groups:
            return
        if self.number % groups:
            msg = f"groups is {groups}, which does not divide number ({self.number})"
            raise ValueError(msg)
        if most > groups:
            msg = f"groups_per_token is {most}, expected at most groups ({groups})"
            raise ValueError(msg)
        if self.per_token > most * (self.number // groups):
            msg = (
                f"groups_per_token is {most}, whose groups hold fewer experts than "
                f"per_token ({self.per_token})"
            )
            raise ValueError(msg)

    def routed(self, layers: int) -> tuple[bool, ...]:
        """Return for each layer whether it is routed."""
        dense = frozenset(self.dense_layers)
        return tuple(layer not in dense for layer in range(layers))

    def fault(self, layers: int) -> str:
        """Return why so many layers cannot have these experts; empty if they can.

        The text begins with the name of the wrong field.
        """
        if self.dense_layers and self.dense_layers[-1] >= layers:
            return (
                f"dense_layers is up to {self.dense_layers[-1]}, expected layers from "
                f"0 to {layers - 1}"
            )
        if not any(self.routed(layers)):
            return "dense_layers is all layers, expected one that is routed at least"
        return ""
