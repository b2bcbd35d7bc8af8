"""JSON Schema (draft 2020-12) of the files that hetopt writes and reads back.

The problem file's schema comes from its reader (``hetopt.problem.schema.problem``).
"""

from __future__ import annotations

from typing import get_args

from hetopt.certificate import CERTIFICATE_SCHEMA
from hetopt.cost.table import SourceKind
from hetopt.cost.table_columns import KIND_NUMBERS, STRATEGY_NUMBERS, WEIGHT_NUMBERS
from hetopt.cost.table_parsing import TABLE_SCHEMA
from hetopt.per_schedule import ScheduleStatus
from hetopt.plans import PLAN_SCHEMA
from hetopt.problem.principles import RELAXABLE
from hetopt.problem.training import RECOMPUTE, RESHARDING, SCHEDULE_CHOICES, SCHEDULES
from hetopt.report.money_schemas import COST, SPENT
from hetopt.report.schema_words import (
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
from hetopt.report.several_schemas import MIX, SEVERAL, SHARE
from hetopt.result import RESULT_SCHEMA, How, MoveKind, Objective, Status

_STRATEGY: Schema = {
    "dp": whole(1),
    "cp": whole(1),
    "tp": whole(1),
    "recompute": one_of(RECOMPUTE),
}

#: What a strategy leaves out where it is 1, or the problem's.
_OTHERS: dict[str, Schema] = {
    "ep": {**whole(1), "description": "Ranks that routed experts are spread over."},
    "etp": {**whole(1), "description": "Ranks that share each routed expert."},
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
        "first_unit": {
            **whole(),
            "description": "The stage holds units first_unit <= u < end_unit.",
        },
        "end_unit": whole(1),
        **_STRATEGY,
        "warmup": {
            **whole(1),
            "description": "Forward passes before the first backward pass.",
        },
    },
    {
        "resharding": {
            **one_of(RESHARDING),
            "description": "How activations reach the next stage; from the last one, "
            "if stages hold several chunks, the first.",
        },
        **_OTHERS,
        "unit_strategies": {
            **row(record(_STRATEGY, _OTHERS)),
            "description": "One strategy per unit, where units may differ.",
        },
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
        "chunks": {
            **whole(2),
            "description": "Of every stage; units are then of one of them.",
        }
    },
)

TIMES: Schema = {
    "iteration_time_s": {**SECONDS, "description": "Simulated, event by event."},
    "closed_form_s": SECONDS,
}

REPORTED: Schema = {
    **row(
        record(
            {
                "argument": TEXT,
                "kind": one_of(("unknown", "not priced")),
                "why": TEXT,
            }
        )
    ),
    "description": "What imported files say that hetopt does not know or price.",
}

_OBJECTIVE: Schema = {
    **or_null(SECONDS),
    "description": "What was minimised, where that is neither of the times.",
}

PLAN: Schema = {"$schema": DRAFT, "title": "hetopt plan", **PLAN_RECORD}

_STABILITY: Schema = {
    **row(
        record(
            {
                "kind": one_of(get_args(MoveKind)),
                "clusters": row(TEXT, 1),
                "direction": one_of(("more", "less")),
                "factor": or_null(POSITIVE),
                "plan_s": or_null(SECONDS),
                "other": or_null(record({**TIMES, "plan": PLAN_RECORD})),
                "proven": {"type": "boolean"},
            }
        )
    ),
    "description": "How far each coefficient may move until another plan is better by "
    "more than 1%: the factor, what this plan takes there (null: it does not fit), and "
    "the other plan (null: there is none). A factor of null: not up to the last tried.",
}

_SCHEDULES: Schema = {
    **row(
        record(
            {
                "schedule": one_of(SCHEDULES),
                "chunks": {
                    **whole(1),
                    "description": "Of every stage.",
                },
                "status": {
                    **one_of(get_args(ScheduleStatus)),
                    "description": "`refuted`: it has no better plan than the reported "
                    "one; `passed-over`: it was not to be searched.",
                },
                "objective_s": {
                    **or_null(SECONDS),
                    "description": "Of its best known plan, by what is minimised.",
                },
                "lower_bound_s": or_null(SECONDS),
                "search_time_s": SECONDS,
                "reason": {
                    **or_null(TEXT),
                    "description": "Why it was not searched.",
                },
            }
        ),
        1,
    ),
    "description": "What was found out about each schedule (--schedule best). Status, "
    "bound and gap of the result are about all that were searched, settlements about "
    "the plan's schedule.",
}

RESULT: Schema = {
    "$schema": DRAFT,
    "title": "hetopt result",
    "description": "What `hetopt plan --json` prints and `--out` holds.",
    **record(
        {
            "schema": {"const": RESULT_SCHEMA},
            "status": one_of(get_args(Status)),
            "objective": one_of(get_args(Objective)),
            **{name: or_null(schema) for name, schema in TIMES.items()},
            "lower_bound_s": or_null(SECONDS),
            "gap": or_null({"type": "number"}),
            "search_time_s": SECONDS,
            "tokens_per_s": or_null({"type": "number", "minimum": 0}),
            "mfu": or_null({"type": "number", "minimum": 0}),
            "mfu_used": or_null({"type": "number", "minimum": 0}),
            "settled": {
                "type": "object",
                "description": "Number of (p, q) by how they were settled.",
                "propertyNames": {"enum": list(get_args(How))},
                "additionalProperties": whole(1),
            },
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
            "table_kinds": {
                "type": "object",
                "description": "Where each cluster's times come from.",
                "additionalProperties": one_of(get_args(SourceKind)),
            },
            "reason": or_null(TEXT),
            "plan": or_null(PLAN_RECORD),
            "alternatives": row(
                record({**TIMES, "plan": PLAN_RECORD}, {"objective_s": _OBJECTIVE})
            ),
        },
        {
            "objective_s": _OBJECTIVE,
            "cost": COST,
            "spent": SPENT,
            "several": SEVERAL,
            "stability": _STABILITY,
            "schedules": _SCHEDULES,
            "solver_choice": {
                **TEXT,
                "description": "Why this solver, where `auto` chose it, or what it had "
                "to do without.",
            },
            "relaxed": {
                **row(one_of(RELAXABLE)),
                "description": "Principles that plans need not keep (--relax).",
            },
            "reported": REPORTED,
            "launch": record(
                {
                    "launcher": TEXT,
                    "schedule": one_of(SCHEDULE_CHOICES),
                    "closed_form_s": or_null(SECONDS),
                    "iteration_time_s": or_null(SECONDS),
                    "proven": {"type": "boolean"},
                }
            ),
        },
    ),
}

_MATRIX = row(row(whole()))
_BY_KIND = {
    "type": "object",
    "description": "One number per unit kind, by its name.",
    "additionalProperties": whole(),
}

_TABLE_STRATEGY = record(
    {
        **_STRATEGY,
        **{name: whole() for name in STRATEGY_NUMBERS},
        **dict.fromkeys(KIND_NUMBERS, _BY_KIND),
    },
    {**_OTHERS, **dict.fromkeys(WEIGHT_NUMBERS, _BY_KIND)},
)

_SLICE = record(
    {
        "microbatches": whole(1),
        "layouts": row(record({"cluster": TEXT, "dp": whole(1), "shards": whole(1)})),
        "transfer_ns": {
            **row(_MATRIX),
            "description": "kappa by cut class, layout and next layout.",
        },
        "occupancy_ns": {
            **row(_MATRIX),
            "description": "omega by cut class, layout and next layout.",
        },
        "resharding": row(row(row(one_of(RESHARDING)))),
        "tied_ns": {
            **or_null(_MATRIX),
            "description": "By the layouts of the first and of the last stage.",
        },
        "clusters": row(record({"name": TEXT, "strategies": row(_TABLE_STRATEGY)}), 1),
    },
    {
        "within_ns": {
            **row(_MATRIX),
            "description": "Between layouts of one stage; only in per_unit.",
        },
        "shared": {
            **record({"uplink_ns": row(whole()), "link_ns": row(row(whole()))}),
            "description": "How long a boundary keeps each cluster's uplink, and each "
            "link by both clusters; 0 where nothing is shared.",
        },
    },
)

_PER_UNIT: Schema = {
    **record(
        {
            "tensors": row(TEXT, 1),
            "edges": row(
                record({"first": whole(), "second": whole(1), "tensor": TEXT})
            ),
            "slices": row(_SLICE),
        }
    ),
    "description": "What plans with a strategy per unit are made from.",
}

TABLE: Schema = {
    "$schema": DRAFT,
    "title": "hetopt latency table",
    "description": "Every coefficient a solver reads: whole nanoseconds and bytes.",
    **record(
        {
            "schema": {"const": TABLE_SCHEMA},
            "problem_digest": DIGEST,
            "schedule": one_of(SCHEDULE_CHOICES),
            "kinds": row(TEXT, 1),
            "body": row({"type": "boolean"}, 1),
            "cut_classes": row(TEXT),
            "units": {**row(TEXT, 1), "description": "Kind of every unit."},
            "cuts": {**row(TEXT), "description": "Cut class after each unit."},
            "tokens": whole(1),
            "model_flops": POSITIVE,
            "clusters": row(
                record(
                    {
                        "name": TEXT,
                        "devices": whole(1),
                        "usable_bytes": whole(),
                        "source": one_of(get_args(SourceKind)),
                        "peak_flops": POSITIVE,
                    }
                ),
                1,
            ),
            "slices": row(_SLICE),
        },
        {
            "per_unit": _PER_UNIT,
            "chunks": {
                **whole(2),
                "description": "Of every stage; units are then of one of them.",
            },
            "way_back": {
                **TEXT,
                "description": "Cut class from the last stage back to the first.",
            },
            "pairs": {
                **row({**row(TEXT, 2), "maxItems": 2}, 1),
                "description": "With zb-v, the kinds of the two units that each of the "
                "last kinds stands for; units are then pairs.",
            },
        },
    ),
}

_BOUND: Schema = {
    **or_null(whole()),
    "description": "Picoseconds; null where no plan is known, or none exists.",
}

CERTIFICATE: Schema = {
    "$schema": DRAFT,
    "title": "hetopt certificate",
    "description": "What is claimed of every (p, q), for `hetopt verify`.",
    **record(
        {
            "schema": {"const": CERTIFICATE_SCHEMA},
            "problem_digest": DIGEST,
            "table_digest": DIGEST,
            "solver": TEXT,
            "objective": one_of(("closed", "simulated")),
            "relaxed": row(one_of(RELAXABLE)),
            "status": one_of(get_args(Status)),
            "value_ps": _BOUND,
            "lower_bound_ps": _BOUND,
            "plan": or_null(PLAN_RECORD),
            "microbatches": row(record({"microbatches": whole(1), "bound_ps": _BOUND})),
            "programs": row(
                record(
                    {
                        "stages": whole(1),
                        "microbatches": whole(1),
                        "how": one_of(get_args(How)),
                        "bound_ps": _BOUND,
                    }
                )
            ),
        }
    ),
}
