"""What the tokens of a layer send to the experts they are routed to, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatched:
    """Of one micro-batch and device, one way; arrays are (R,).

    Attributes
    ----------
    token_bytes
        Of every token once.
    copies
        Experts that a token is sent to; above those it chose where ranks are filled
        unevenly.
    load
        Tokens of the fullest rank over the even share, which ``copies`` count.
    groups
        Groups that experts are in, and of how many a token's are at most: it is sent
        once to each of their nodes, and handed on inside. Where groups limit nothing
        each expert is one. None: a token is sent to every expert.
    """

    token_bytes: Floats
    copies: float
    load: float = 1.0
    groups: tuple[int, int] | None

    @property
    def total_bytes(self) -> Floats:
        """Of a copy for every expert; (R,)."""
        return self.token_bytes * self.copies
