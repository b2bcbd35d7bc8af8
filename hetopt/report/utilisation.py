"""Why a model FLOPs utilisation (MFU) above 100% cannot be."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hetopt.results.result import Result


def beyond_peak(result: Result) -> str | None:
    """Return why an MFU above 100% is wrong, and of what; None if none is above.

    The FLOPs of an iteration are those of the model, without recomputation, and no
    device does more of them than its peak. So either the times are too short, or, as is
    likely of times that were measured, the peak is too low.
    """
    most = max(result.mfu or 0.0, result.mfu_used or 0.0)
    if result.best is None or most <= 1:
        return None
    used = result.best.plan.clusters
    sources = ", ".join(
        f"{name} {kind}" for name, kind in result.table_kinds.items() if name in used
    )
    return (
        f"above 100%, which no device reaches: latencies ({sources}) are shorter than "
        "peak_flops permits; most likely an accelerator's peak_flops is too low, by a "
        f"factor of {most:.2f} at least"
    )
