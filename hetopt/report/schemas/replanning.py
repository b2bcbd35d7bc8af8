"""JSON Schema of the output of ``hetopt replan --json``."""

from __future__ import annotations

from typing import get_args

from hetopt.report.replanning import REPLAN_SCHEMA
from hetopt.report.schemas.plan import PLAN_RECORD
from hetopt.report.schemas.words import (
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
from hetopt.results.result import Status

_CANDIDATE = record(
    {
        "closed_form_s": POSITIVE,
        "iteration_time_s": POSITIVE,
        "move_s": SECONDS,
        "moved_bytes": whole(),
        "total_s": POSITIVE,
    }
)
_SENDER = record({"sender": TEXT, "inside_bytes": whole(), "beyond_bytes": whole()})

REPLAN: Schema = document(
    "hetopt replan",
    "What `hetopt replan --json` prints: the next plan, its moves.",
    {
        "schema": {"const": REPLAN_SCHEMA},
        "status": described(
            one_of(get_args(Status)), "Of the plan's iteration time, as in its result."
        ),
        "reason": or_null(TEXT),
        "iterations": whole(1),
        "restart_s": SECONDS,
        "total_s": described(
            or_null(POSITIVE), "All iterations, the moves and the restart."
        ),
        "lower_bound_s": described(or_null(SECONDS), "Of the total of every plan."),
        "gap": or_null(SECONDS),
        "pays_after": described(
            or_null(whole()), "Iterations from which on no other candidate is better."
        ),
        "checkpoint_s": described(
            or_null(SECONDS), "To read everything from the checkpoint instead."
        ),
        "first_s": described(or_null(SECONDS), "Until the first candidate was known."),
        "search_time_s": SECONDS,
        "candidates": described(
            row(_CANDIDATE), "Plans that were compared, best first."
        ),
        "senders": described(
            row(_SENDER),
            "Bytes that each device sends within its node and beyond; `checkpoint` is "
            "one of them.",
        ),
        "ranks_before": described(
            row(row(row(TEXT))), "As `ranks`, of the plan that ran."
        ),
        "ranks": described(
            row(row(row(TEXT))), "By pipeline and stage, the device of every rank."
        ),
        "plan": or_null(PLAN_RECORD),
    },
)
