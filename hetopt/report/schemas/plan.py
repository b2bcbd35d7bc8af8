"""JSON Schema (draft 2020-12) of plans, and of the parts that other files share."""

from __future__ import annotations

from hetopt.plans.plan import PLAN_SCHEMA
from hetopt.problem.training.choices import RECOMPUTE, RESHARDING, SCHEDULE_CHOICES
from hetopt.report.schemas.several import MIX, SHARE
from hetopt.report.schemas.words import (
    DIGEST,
    DRAFT,
    EPSILON,
    SECONDS,
    TEXT,
    Schema,
    described,
    one_of,
    record,
    row,
    whole,
)

STRATEGY: Schema = {
    "dp": whole(1),
    "cp": whole(1),
    "tp": whole(1),
    "recompute": one_of(RECOMPUTE),
}

#: Keys that a strategy omits if they are 1, or equal to the problem's.
OTHERS: dict[str, Schema] = {
    "ep": described(whole(1), "Ranks that routed experts are spread over."),
    "etp": described(whole(1), "Ranks that share each routed expert."),
    "zero": {
        "type": "integer",
        "minimum": 0,
        "maximum": 3,
        "description": "ZeRO stage, where it is not the problem's.",
    },
}

_STAGE = record(
    {
        "cluster": TEXT,
        "first_unit": described(
            whole(), "The stage holds units first_unit <= u < end_unit."
        ),
        "end_unit": whole(1),
        **STRATEGY,
        "warmup": described(whole(1), "Forward passes before the first backward pass."),
    },
    {
        "resharding": described(
            one_of(RESHARDING),
            "How activations reach the next stage; from the last one, if stages hold "
            "several chunks, the first.",
        ),
        **OTHERS,
        "unit_strategies": described(
            row(record(STRATEGY, OTHERS)),
            "One strategy per unit, where units may differ.",
        ),
    },
)

PLAN_RECORD = record(
    {
        "schema": {"const": PLAN_SCHEMA},
        "schedule": one_of(SCHEDULE_CHOICES),
        "problem_digest": DIGEST,
        "table_digest": DIGEST,
        "pipelines": row(
            record(
                {"microbatches": whole(1), "stages": row(_STAGE, 1)},
                {"share": SHARE, "mix": MIX},
            ),
            1,
        ),
    },
    {
        "chunks": described(whole(2), "Of every stage; units are then of one of them."),
        "warmup_epsilon": EPSILON,
    },
)

TIMES: Schema = {
    "iteration_time_s": described(SECONDS, "Simulated, event by event."),
    "closed_form_s": SECONDS,
}

REPORTED: Schema = described(
    row(
        record(
            {
                "argument": TEXT,
                "kind": one_of(("unknown", "not priced")),
                "why": TEXT,
            }
        )
    ),
    "What imported files say that hetopt does not know or price.",
)

PLAN: Schema = {"$schema": DRAFT, "title": "hetopt plan", **PLAN_RECORD}
