"""The sequences that a pipeline takes if they have several lengths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Sequences of an iteration by length, and how they make micro-batches.

    A micro-batch has sequences of one length. The last one of a length may have fewer
    sequences, but takes as long: some replicas are idle or have less work.

    Attributes
    ----------
    per_microbatch
        Sequences of a micro-batch over all replicas; it divides the global batch, and
        every stage's dp divides it.
    sequences
        Tokens -> number of sequences, at least 1; the longest first, which is the order
        of execution.
    """

    per_microbatch: int
    sequences: Mapping[int, int]

    @property
    def microbatches(self) -> Mapping[int, int]:
        """Micro-batches of each length, the longest first."""
        return {
            tokens: -(-number // self.per_microbatch)
            for tokens, number in self.sequences.items()
        }

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence."""
        return max(self.sequences)

    def to_json(self) -> dict[str, Any]:
        """Return this as plain JSON data."""
        return {
            "per_microbatch": self.per_microbatch,
            "sequences": {str(each): n for each, n in self.sequences.items()},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Mix:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        found = {int(each): n for each, n in data["sequences"].items()}
        return cls(
            per_microbatch=data["per_microbatch"],
            sequences={each: found[each] for each in sorted(found, reverse=True)},
        )
