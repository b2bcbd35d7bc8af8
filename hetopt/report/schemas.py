"""JSON Schema (draft 2020-12) of the files that hetopt writes and reads back.

The problem file's schema comes from its reader (``hetopt.problem.schema``).
"""

from __future__ import annotations

from typing import Any, get_args

from hetopt.cost.table import SourceKind
from hetopt.cost.table_file import KIND_NUMBERS, STRATEGY_NUMBERS, TABLE_SCHEMA
from hetopt.plan import PLAN_SCHEMA
from hetopt.problem.principles import RELAXABLE
from hetopt.problem.training import RECOMPUTE, RESHARDING, SCHEDULE_CHOICES
from hetopt.report.comparison import COMPARISON_SCHEMA, WITHIN
from hetopt.result import RESULT_SCHEMA, How, Objective, Status

DRAFT = "https://json-schema.org/draft/2020-12/schema"

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_DIGEST: Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}


def _whole(least: int = 0) -> Schema:
    return {"type": "integer", "minimum": least}


def _one_of(values: tuple[str, ...]) -> Schema:
    return {"type": "string", "enum": list(values)}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(items: Schema, least: int = 0) -> Schema:
    return {"type": "array", "items": items, "minItems": least}


def _object(required: Schema, optional: Schema | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


_SECONDS: Schema = {"type": "number", "minimum": 0}

_STRATEGY: Schema = {
    "dp": _whole(1),
    "cp": _whole(1),
    "tp": _whole(1),
    "recompute": _one_of(RECOMPUTE),
}

_ZERO: Schema = {
    "type": "integer",
    "minimum": 0,
    "maximum": 3,
    "description": "ZeRO stage, where it is not the problem's.",
}

_STAGE = _object(
    {
        "cluster": _TEXT,
        "first_unit": {
            **_whole(),
            "description": "The stage holds units first_unit <= u < end_unit.",
        },
        "end_unit": _whole(1),
        **_STRATEGY,
        "warmup": {
            **_whole(1),
            "description": "Forward passes before the first backward pass.",
        },
    },
    {
        "resharding": {
            **_one_of(RESHARDING),
            "description": "How activations reach the next stage.",
        },
        "zero": _ZERO,
        "unit_strategies": {
            **_list(_object(_STRATEGY, {"zero": _ZERO})),
            "description": "One strategy per unit, where units may differ.",
        },
    },
)

_PLAN = _object(
    {
        "schema": {"const": PLAN_SCHEMA},
        "schedule": _one_of(SCHEDULE_CHOICES),
        "problem_digest": _DIGEST,
        "table_digest": _DIGEST,
        "pipelines": _list(
            _object({"microbatches": _whole(1), "stages": _list(_STAGE, 1)}), 1
        ),
    }
)

_TIMES: Schema = {
    "iteration_time_s": {**_SECONDS, "description": "Simulated, event by event."},
    "closed_form_s": _SECONDS,
}

_OBJECTIVE: Schema = {
    **_or_null(_SECONDS),
    "description": "What was minimised, where that is neither of the times.",
}

PLAN: Schema = {"$schema": DRAFT, "title": "hetopt plan", **_PLAN}

RESULT: Schema = {
    "$schema": DRAFT,
    "title": "hetopt result",
    "description": "What `hetopt plan --json` prints and `--out` holds.",
    **_object(
        {
            "schema": {"const": RESULT_SCHEMA},
            "status": _one_of(get_args(Status)),
            "objective": _one_of(get_args(Objective)),
            **{name: _or_null(schema) for name, schema in _TIMES.items()},
            "lower_bound_s": _or_null(_SECONDS),
            "gap": _or_null({"type": "number"}),
            "search_time_s": _SECONDS,
            "tokens_per_s": _or_null({"type": "number", "minimum": 0}),
            "mfu": _or_null({"type": "number", "minimum": 0}),
            "mfu_used": _or_null({"type": "number", "minimum": 0}),
            "settled": {
                "type": "object",
                "description": "Number of (p, q) by how they were settled.",
                "propertyNames": {"enum": list(get_args(How))},
                "additionalProperties": _whole(1),
            },
            "settlements": _list(
                _object(
                    {
                        "stages": _whole(1),
                        "microbatches": _whole(1),
                        "how": _one_of(get_args(How)),
                        "bound_s": _or_null(_SECONDS),
                    }
                )
            ),
            "solver": _TEXT,
            "table_kinds": {
                "type": "object",
                "description": "Where each cluster's times come from.",
                "additionalProperties": _one_of(get_args(SourceKind)),
            },
            "reason": _or_null(_TEXT),
            "plan": _or_null(_PLAN),
            "alternatives": _list(
                _object({**_TIMES, "plan": _PLAN}, {"objective_s": _OBJECTIVE})
            ),
        },
        {
            "objective_s": _OBJECTIVE,
            "solver_choice": {
                **_TEXT,
                "description": "Why `auto` chose this solver.",
            },
            "relaxed": {
                **_list(_one_of(RELAXABLE)),
                "description": "Principles that plans need not keep (--relax).",
            },
            "launch": _object(
                {
                    "launcher": _TEXT,
                    "schedule": _one_of(SCHEDULE_CHOICES),
                    "closed_form_s": _or_null(_SECONDS),
                    "iteration_time_s": _or_null(_SECONDS),
                    "proven": {"type": "boolean"},
                }
            ),
        },
    ),
}

_MATRIX = _list(_list(_whole()))

_POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}

_TABLE_STRATEGY = _object(
    {
        **_STRATEGY,
        **{name: _whole() for name in STRATEGY_NUMBERS},
        **{
            name: {
                "type": "object",
                "description": "One number per unit kind, by its name.",
                "additionalProperties": _whole(),
            }
            for name in KIND_NUMBERS
        },
    },
    {"zero": _ZERO},
)

_SLICE = _object(
    {
        "microbatches": _whole(1),
        "layouts": _list(
            _object({"cluster": _TEXT, "dp": _whole(1), "shards": _whole(1)})
        ),
        "transfer_ns": {
            **_list(_MATRIX),
            "description": "kappa by cut class, layout and next layout.",
        },
        "occupancy_ns": {
            **_list(_MATRIX),
            "description": "omega by cut class, layout and next layout.",
        },
        "resharding": _list(_list(_list(_one_of(RESHARDING)))),
        "tied_ns": {
            **_or_null(_MATRIX),
            "description": "By the layouts of the first and of the last stage.",
        },
        "clusters": _list(
            _object({"name": _TEXT, "strategies": _list(_TABLE_STRATEGY)}), 1
        ),
    },
    {
        "within_ns": {
            **_list(_MATRIX),
            "description": "Between layouts of one stage; only in per_unit.",
        }
    },
)

_PER_UNIT: Schema = {
    **_object(
        {
            "tensors": _list(_TEXT, 1),
            "edges": _list(
                _object({"first": _whole(), "second": _whole(1), "tensor": _TEXT})
            ),
            "slices": _list(_SLICE),
        }
    ),
    "description": "What plans with a strategy per unit are made from.",
}

TABLE: Schema = {
    "$schema": DRAFT,
    "title": "hetopt latency table",
    "description": "Every coefficient a solver reads: whole nanoseconds and bytes.",
    **_object(
        {
            "schema": {"const": TABLE_SCHEMA},
            "problem_digest": _DIGEST,
            "schedule": _one_of(SCHEDULE_CHOICES),
            "kinds": _list(_TEXT, 1),
            "body": _list({"type": "boolean"}, 1),
            "cut_classes": _list(_TEXT),
            "units": {**_list(_TEXT, 1), "description": "Kind of every unit."},
            "cuts": {**_list(_TEXT), "description": "Cut class after each unit."},
            "tokens": _whole(1),
            "model_flops": _POSITIVE,
            "clusters": _list(
                _object(
                    {
                        "name": _TEXT,
                        "devices": _whole(1),
                        "usable_bytes": _whole(),
                        "source": _one_of(get_args(SourceKind)),
                        "peak_flops": _POSITIVE,
                    }
                ),
                1,
            ),
            "slices": _list(_SLICE),
        },
        {"per_unit": _PER_UNIT},
    ),
}

_TIME: Schema = _or_null(_SECONDS)

_COMPARED = _object(
    {
        "solver": _TEXT,
        "seed": {**_or_null(_whole()), "description": "Null: nothing is drawn."},
        "relaxed": _list(_one_of(RELAXABLE)),
        "extra": {
            "type": "boolean",
            "description": "Run only for its optimum, which others are measured by.",
        },
        "status": _one_of((*get_args(Status), "failed")),
        "closed_form_s": _TIME,
        "iteration_time_s": _TIME,
        "above": {
            **_or_null({"type": "number"}),
            "description": "Share above the reference of its space.",
        },
        "first_s": _TIME,
        "within_s": {
            **_object(dict.fromkeys(WITHIN, _TIME)),
            "description": "When a plan so close to the reference was known.",
        },
        "proof_s": _TIME,
        "lower_bound_s": _TIME,
        "gap": _or_null({"type": "number"}),
        "search_time_s": _TIME,
        "process_time_s": _SECONDS,
        "failure": _or_null(_TEXT),
        "trace": {
            **_list({"type": "array", "items": _SECONDS, "maxItems": 2}),
            "description": "Seconds since the search began, closed form in seconds.",
        },
        "plan": _or_null(_PLAN),
    }
)

COMPARISON: Schema = {
    "$schema": DRAFT,
    "title": "hetopt comparison",
    "description": "What `hetopt compare` writes: solvers side by side.",
    **_object(
        {
            "schema": {"const": COMPARISON_SCHEMA},
            "machine": _TEXT,
            "time_limit_s": _POSITIVE,
            "jobs": _or_null(_whole(1)),
            "warm_up_s": {
                "type": "object",
                "description": "By solver: its first run, which is not counted.",
                "additionalProperties": _SECONDS,
            },
            "problems": _list(
                _object(
                    {
                        "problem": _TEXT,
                        "problem_digest": _DIGEST,
                        "schedule": _one_of(SCHEDULE_CHOICES),
                        "references": _list(
                            _object(
                                {
                                    "relaxed": _list(_one_of(RELAXABLE)),
                                    "value_s": _SECONDS,
                                    "proven": {"type": "boolean"},
                                    "solver": _TEXT,
                                    "lower_bound_s": _TIME,
                                }
                            )
                        ),
                        "runs": _list(_COMPARED, 1),
                    }
                ),
                1,
            ),
        }
    ),
}
