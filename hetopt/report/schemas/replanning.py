"""JSON Schema of the output of ``hetopt replan --json``."""

from __future__ import annotations

from typing import get_args

from hetopt.report.replanning import REPLAN_SCHEMA
from hetopt.report.schemas.plan import PLAN_RECORD
from hetopt.report.schemas.words import (
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

REPLAN: Schema = {
    "$schema": DRAFT,
    "title": "hetopt replan",
    "description": "What `hetopt replan --json` prints: the next plan, its moves.",
    **record(
        {
            "schema": {"const": REPLAN_SCHEMA},
            "status": {
                **one_of(get_args(Status)),
                "description": "Of the plan's iteration time, as in its result.",
            },
            "reason": or_null(TEXT),
            "iterations": whole(1),
            "restart_s": SECONDS,
            "total_s": {
                **or_null(POSITIVE),
                "description": "All iterations, the moves and the restart.",
            },
            "lower_bound_s": {
                **or_null(SECONDS),
                "description": "Of the total of every plan.",
            },
            "gap": or_null(SECONDS),
            "pays_after": {
                **or_null(whole()),
                "description": "Iterations from which on no other candidate is better.",
            },
            "checkpoint_s": {
                **or_null(SECONDS),
                "description": "To read everything from the checkpoint instead.",
            },
            "first_s": {
                **or_null(SECONDS),
                "description": "Until the first candidate was known.",
            },
            "search_time_s": SECONDS,
            "candidates": {
                **row(_CANDIDATE),
                "description": "Plans that were compared, best first.",
            },
            "senders": {
                **row(_SENDER),
                "description": "Bytes that each device sends within its node and "
                "beyond; `checkpoint` is one of them.",
            },
            "ranks_before": {
                **row(row(row(TEXT))),
                "description": "As `ranks`, of the plan that ran.",
            },
            "ranks": {
                **row(row(row(TEXT))),
                "description": "By pipeline and stage, the device of every rank.",
            },
            "plan": or_null(PLAN_RECORD),
        }
    ),
}
