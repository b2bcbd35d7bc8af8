"""The sequences that a pipeline takes if they have several lengths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hetopt.base.fields import Count
from hetopt.base.file_record import FileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix(FileRecord):
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

    per_microbatch: Count
    sequences: Mapping[int, Count]

    def __post_init__(self) -> None:
        longest_first = sorted(self.sequences.items(), reverse=True)
        object.__setattr__(self, "sequences", dict(longest_first))

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
