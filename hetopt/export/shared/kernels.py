"""Choices of training that only some runtimes have a setting for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.launcher import Loss

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from hetopt.problem.training.training import Training

FP8 = "precision: fp8"
BLOCK_SCALED = "precision: mxfp8 or nvfp4"
NO_SEQUENCE_PARALLEL = "sequence_parallel: false"
UNFUSED_ATTENTION = "attention: unfused"
UNFUSED_LOSS = "cross_entropy: unfused"
GRADIENTS_BF16 = "gradients: bf16"
OVERLAP_TENSOR = "overlap_tensor: true"
ALL = (
    FP8,
    BLOCK_SCALED,
    NO_SEQUENCE_PARALLEL,
    UNFUSED_ATTENTION,
    UNFUSED_LOSS,
    GRADIENTS_BF16,
    OVERLAP_TENSOR,
)


def choice_losses(training: Training, has: Collection[str] = ()) -> Iterator[Loss]:
    """Yield the choices other than defaults for which a runtime has no setting.

    Parameters
    ----------
    has
        Those of ``ALL`` for which the runtime has a setting.
    """
    asked = {
        FP8: training.precision == "fp8",
        BLOCK_SCALED: training.precision in ("mxfp8", "nvfp4"),
        NO_SEQUENCE_PARALLEL: not training.sequence_parallel,
        UNFUSED_ATTENTION: training.attention == "unfused",
        UNFUSED_LOSS: training.cross_entropy == "unfused",
        GRADIENTS_BF16: training.gradients == "bf16",
        OVERLAP_TENSOR: bool(training.overlap_tensor),
    }
    for choice in ALL:
        if asked[choice] and choice not in has:
            # Only time is lost.
            slower = "collectives before and after multiplications"
            yield Loss(
                f"training.{choice}: it has no setting for it",
                instead=slower if choice == OVERLAP_TENSOR else None,
            )
