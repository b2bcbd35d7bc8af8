"""JSON Schema (draft 2020-12) of a solver's result."""

from __future__ import annotations

from typing import get_args

from hetopt.cost.table.table import SourceKind
from hetopt.problem.training.choices import SCHEDULE_CHOICES
from hetopt.problem.training.principles import RELAXABLE
from hetopt.report.schemas.claims import ASKED, CLAIMS, DEFS, OVER
from hetopt.report.schemas.money import AMOUNT, COST
from hetopt.report.schemas.plan import PLAN_RECORD, REPORTED, TIMES
from hetopt.report.schemas.words import (
    FLAG,
    NUMBER,
    POSITIVE,
    SECONDS,
    TEXT,
    Schema,
    by_name,
    described,
    document,
    one_of,
    or_null,
    record,
    row,
    whole,
)
from hetopt.results.crossing import MoveKind
from hetopt.results.result import RESULT_SCHEMA, Objective, Status
from hetopt.results.settlement import How

_OBJECTIVE: Schema = described(
    or_null(SECONDS), "What was minimised, where that is neither of the times."
)

_STABILITY: Schema = described(
    row(
        record(
            {
                "kind": one_of(get_args(MoveKind)),
                "clusters": row(TEXT, 1),
                "direction": one_of(("more", "less")),
                "factor": or_null(POSITIVE),
                "plan_s": or_null(SECONDS),
                "other": or_null(record({**TIMES, "plan": PLAN_RECORD})),
                "proven": FLAG,
            },
            {"plan_cost": AMOUNT, "other_cost": AMOUNT},
        )
    ),
    "How far each coefficient may move until another plan is better by more than 1%: "
    "the factor, what this plan takes there (null: it does not fit), and the other "
    "plan (null: there is none). A factor of null: not up to the last tried. If cost "
    "is minimised, what an iteration of each costs there, of this plan only if it is "
    "permitted.",
)

RESULT: Schema = document(
    "hetopt result",
    "What `hetopt plan --json` prints and `--out` holds.",
    {
        "schema": {"const": RESULT_SCHEMA},
        "status": one_of(get_args(Status)),
        "objective": one_of(get_args(Objective)),
        **{name: or_null(schema) for name, schema in TIMES.items()},
        "lower_bound_s": or_null(SECONDS),
        "gap": or_null(NUMBER),
        "search_time_s": SECONDS,
        "tokens_per_s": or_null(SECONDS),
        "mfu": or_null(SECONDS),
        "mfu_used": or_null(SECONDS),
        "settled": by_name(
            whole(1), "Number of (p, q) by how they were settled.", get_args(How)
        ),
        "settlements": row(
            record(
                {
                    "stages": whole(1),
                    "microbatches": whole(1),
                    "how": one_of(get_args(How)),
                    "bound_s": or_null(SECONDS),
                }
            )
        ),
        "solver": TEXT,
        "table_kinds": by_name(
            one_of(get_args(SourceKind)), "Where each cluster's times come from."
        ),
        "reason": or_null(TEXT),
        "plan": or_null(PLAN_RECORD),
        "alternatives": row(
            record({**TIMES, "plan": PLAN_RECORD}, {"objective_s": _OBJECTIVE})
        ),
    },
    {
        "objective_s": _OBJECTIVE,
        "cost": COST,
        "asked": ASKED,
        "over": OVER,
        "claims": CLAIMS,
        "lower_cost": described(
            AMOUNT, "No iteration costs less; only where cost is minimised."
        ),
        "stability": _STABILITY,
        "solver_choice": described(
            TEXT,
            "Why this solver, where `auto` chose it, or what it had to do without.",
        ),
        "relaxed": described(
            row(one_of(RELAXABLE)), "Principles that plans need not keep (--relax)."
        ),
        "reported": REPORTED,
        "launch": record(
            {
                "launcher": TEXT,
                "schedule": one_of(SCHEDULE_CHOICES),
                "closed_form_s": or_null(SECONDS),
                "iteration_time_s": or_null(SECONDS),
                "proven": FLAG,
            }
        ),
    },
    defs=DEFS,
)
