"""JSON Schema (draft 2020-12) of the measurements of ``hetopt run``."""

from __future__ import annotations

from typing import get_args

from hetopt.report.schemas.words import (
    DIGEST,
    NOT_NEGATIVE,
    NUMBER,
    POSITIVE,
    SECONDS,
    TEXT,
    Schema,
    described,
    document,
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
        "sync_s": described(
            SECONDS,
            "From the end of the stage's last pass to that of the optimizer's step.",
        ),
        "peak_bytes": described(whole(), "Of its fullest rank."),
    },
    {
        "weight_s": described(
            SECONDS,
            "Where gradients of weights run later, what of `backward_s` they are.",
        ),
        "first_chunk_s": described(
            row(SECONDS),
            "Of a folded pipeline: what of the forward, backward and weights' seconds "
            "is the first chunk's.",
        ),
    },
)

_MEASURED_CHUNKS = described(
    record(
        {
            "count": whole(2),
            "way_back_s": described(
                SECONDS, "As `boundaries_s`, between the last stage and the first."
            ),
            "lead_s": described(
                row(SECONDS),
                "Forward and backward: how much longer passes of the first stage's "
                "first chunk are than of its others.",
            ),
            "trail_s": described(
                row(SECONDS), "Likewise of the last stage's last chunk."
            ),
        }
    ),
    "Where stages hold several.",
)

_CONDITIONS = described(
    record(
        {
            "threads": described(whole(1), "Of each rank, on a CPU."),
            "cores": described(whole(1), "Of the machine."),
            "load": described(
                or_null(NOT_NEGATIVE),
                "Mean number of threads that ran or waited for a core, or null.",
            ),
            "cpu_shares": described(row(NOT_NEGATIVE), "CPU over wall time, by rank."),
        }
    ),
    "During the timed iterations; absent if an older hetopt wrote the bundle.",
)

MEASURED: Schema = document(
    "hetopt measured run",
    "What `hetopt run` writes, and `hetopt calibrate --run` reads: what iterations of "
    "a plan took.",
    {
        "schema": {"const": MEASURED_SCHEMA},
        "plan_digest": described(
            DIGEST, "Of the plan as it was launched, as in `job.json`."
        ),
        "iteration_s": described(
            row(POSITIVE, 1),
            "Of each iteration, from a common start of all ranks to the end of the "
            "last one's optimizer step.",
        ),
        "loss": described(row(NUMBER, 1), "Mean per token, of each iteration."),
        "stages": described(
            row(_MEASURED_STAGE, 1),
            "Means over micro-batches, medians over iterations; a pass is as long as "
            "on the stage's slowest rank.",
        ),
        "boundaries_s": described(
            row(SECONDS),
            "Likewise, of one transfer from each stage to the next or back: from when "
            "it could begin to when all of it was there.",
        ),
        "memory": described(
            one_of(get_args(MemoryKind)),
            "What `peak_bytes` are: all that PyTorch allocated at once, or, on CPUs, "
            "what autograd kept for backward passes.",
        ),
        "devices": described(row(TEXT, 1), "What the ranks ran on."),
        "versions": record({"hetopt": TEXT, "torch": TEXT, "python": TEXT}),
        "units": described(
            or_null(TEXT),
            "What made the model's units, FILE:FUNCTION; null for the plan's own "
            "model.",
        ),
    },
    {
        "chunks": _MEASURED_CHUNKS,
        "conditions": _CONDITIONS,
        "noise": described(
            row(TEXT),
            "Why the times are unreliable: iterations that differ by more than 10% of "
            "their median, or a load above the cores by more than 10%.",
        ),
    },
)
