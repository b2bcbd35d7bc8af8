"""Add the shares of sequence lengths to the training settings."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.base.record import Fault
from hetopt.problem.training.lengths import lengths_fault

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.training.training import Training


def with_lengths(
    training: Training, shares: Mapping[int, float], batch: int | str
) -> Training:
    """Return training settings with lengths.

    Parameters
    ----------
    training
        Settings without lengths.
    shares
        Tokens of a sequence -> share of the sequences.
    batch
        Global batch as the file gives it.

    Raises
    ------
    Fault
        The batch is in tokens, or the shares do not fit the batch or the longest
        sequence.
    """
    if isinstance(batch, str):
        msg = f"is {batch!r}, expected a number of sequences: lengths differ"
        raise Fault(msg, "training", "global_batch")
    lengths = tuple(sorted(shares.items()))
    fault = lengths_fault(lengths, training.global_batch, training.seq_len)
    if fault is not None:
        raise Fault(fault, "training", "lengths")
    return replace(training, lengths=lengths)
