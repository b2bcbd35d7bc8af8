"""Messages of a layer's tokens to the experts they are routed to, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """Messages of a micro-batch and device in one direction; arrays are (R,).

    Attributes
    ----------
    token_bytes
        Bytes of every token once.
    copies
        Number of experts that a token is sent to, scaled by ``load``.
    load
        Tokens of the fullest rank over the even share; included in ``copies``.
    groups
        Number of groups of experts, and most groups that a token's experts are in: it
        is sent once to each of their nodes, and forwarded inside. Without a limit each
        expert is its own group. None if a token is sent to every expert separately.
    """

    token_bytes: Floats
    copies: float
    load: float = 1.0
    groups: tuple[int, int] | None

    @property
    def total_bytes(self) -> Floats:
        """Bytes of all tokens with one copy per expert; (R,)."""
        return self.token_bytes * self.copies
