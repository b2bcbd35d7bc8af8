"""JSON Schema (draft 2020-12) of the measurements of ``hetopt run``."""

from __future__ import annotations

from typing import get_args

from hetopt.report.schemas.words import (
    DIGEST,
    DRAFT,
    POSITIVE,
    SECONDS,
    TEXT,
    Schema,
    one_of,
    or_null,
    record,
    row,
    whole,
)
from hetopt.running.measured import MEASURED_SCHEMA, MemoryKind

_MEASURED_STAGE = record(
    {
        "forward_s": SECONDS,
        "backward_s": SECONDS,
        "sync_s": {
            **SECONDS,
            "description": "From the end of the stage's last pass to that of the "
            "optimizer's step.",
        },
        "peak_bytes": {**whole(), "description": "Of its fullest rank."},
    },
    {
        "weight_s": {
            **SECONDS,
            "description": "Where gradients of weights run later, what of `backward_s` "
            "they are.",
        },
        "first_chunk_s": {
            **row(SECONDS),
            "description": "Of a folded pipeline: what of the forward, backward and "
            "weights' seconds is the first chunk's.",
        },
    },
)

_MEASURED_CHUNKS = {
    **record(
        {
            "count": whole(2),
            "way_back_s": {
                **SECONDS,
                "description": "As `boundaries_s`, between the last stage and the "
                "first.",
            },
            "lead_s": {
                **row(SECONDS),
                "description": "Forward and backward: how much longer passes of the "
                "first stage's first chunk are than of its others.",
            },
            "trail_s": {
                **row(SECONDS),
                "description": "Likewise of the last stage's last chunk.",
            },
        }
    ),
    "description": "Where stages hold several.",
}

MEASURED: Schema = {
    "$schema": DRAFT,
    "title": "hetopt measured run",
    "description": "What `hetopt run` writes, and `hetopt calibrate --run` reads: what "
    "iterations of a plan took.",
    **record(
        {
            "schema": {"const": MEASURED_SCHEMA},
            "plan_digest": {
                **DIGEST,
                "description": "Of the plan as it was launched, as in `job.json`.",
            },
            "iteration_s": {
                **row(POSITIVE, 1),
                "description": "Of each iteration, from a common start of all ranks "
                "to the end of the last one's optimizer step.",
            },
            "loss": {
                **row({"type": "number"}, 1),
                "description": "Mean per token, of each iteration.",
            },
            "stages": {
                **row(_MEASURED_STAGE, 1),
                "description": "Means over micro-batches, medians over iterations; a "
                "pass is as long as on the stage's slowest rank.",
            },
            "boundaries_s": {
                **row(SECONDS),
                "description": "Likewise, of one transfer from each stage to the next "
                "or back: from when it could begin to when all of it was there.",
            },
            "memory": {
                **one_of(get_args(MemoryKind)),
                "description": "What `peak_bytes` are: all that PyTorch allocated at "
                "once, or, on CPUs, what autograd kept for backward passes.",
            },
            "devices": {**row(TEXT, 1), "description": "What the ranks ran on."},
            "versions": record({"hetopt": TEXT, "torch": TEXT, "python": TEXT}),
            "units": {
                **or_null(TEXT),
                "description": "What made the model's units, FILE:FUNCTION; null for "
                "the plan's own model.",
            },
        },
        {"chunks": _MEASURED_CHUNKS},
    ),
}
