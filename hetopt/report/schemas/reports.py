"""JSON Schema (draft 2020-12) of reports that hetopt prints or writes as JSON."""

from __future__ import annotations

from typing import get_args

from hetopt.problem.training.choices import SCHEDULE_CHOICES
from hetopt.problem.training.principles import RELAXABLE
from hetopt.report.comparison.comparison import COMPARISON_SCHEMA, WITHIN
from hetopt.report.explanation import EXPLANATION_SCHEMA
from hetopt.report.schemas.money import COST, SPENT
from hetopt.report.schemas.plan import PLAN_RECORD, REPORTED, TIMES
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
from hetopt.report.simulation import SIMULATION_SCHEMA
from hetopt.report.whatif.reasons import REASONS_SCHEMA
from hetopt.report.whatif.table import WHATIF_SCHEMA
from hetopt.results.front import FRONT_SCHEMA
from hetopt.results.result import Status
from hetopt.schedule.times import EventKind

_TIME: Schema = or_null(SECONDS)
#: Absent in files written before comparisons had it.
_EVERY_CLUSTER: Schema = {
    "every_cluster": {
        "type": "boolean",
        "description": "Whether only plans with stages on each cluster count.",
    }
}

_COMPARED = record(
    {
        "solver": TEXT,
        "seed": {
            **or_null(whole()),
            "description": "Null if the solver uses no random numbers.",
        },
        "relaxed": row(one_of(RELAXABLE)),
        "extra": {
            "type": "boolean",
            "description": "Run only for its optimum, which others are measured by.",
        },
        "status": one_of((*get_args(Status), "failed")),
        "closed_form_s": _TIME,
        "iteration_time_s": _TIME,
        "above": {
            **or_null({"type": "number"}),
            "description": "Share above the reference of its space.",
        },
        "first_s": _TIME,
        "within_s": {
            **record(dict.fromkeys(WITHIN, _TIME)),
            "description": "When a plan so close to the reference was known.",
        },
        "proof_s": _TIME,
        "lower_bound_s": _TIME,
        "gap": or_null({"type": "number"}),
        "search_time_s": _TIME,
        "process_time_s": SECONDS,
        "failure": or_null(TEXT),
        "trace": {
            **row({"type": "array", "items": SECONDS, "maxItems": 2}),
            "description": "Seconds since the search began, closed form in seconds.",
        },
        "plan": or_null(PLAN_RECORD),
    },
    {"cost": COST, **_EVERY_CLUSTER},
)

COMPARISON: Schema = {
    "$schema": DRAFT,
    "title": "hetopt comparison",
    "description": "What `hetopt compare` writes: solvers side by side.",
    **record(
        {
            "schema": {"const": COMPARISON_SCHEMA},
            "machine": TEXT,
            "time_limit_s": POSITIVE,
            "jobs": or_null(whole(1)),
            "warm_up_s": {
                "type": "object",
                "description": "By solver: its first run, which is not counted.",
                "additionalProperties": SECONDS,
            },
            "problems": row(
                record(
                    {
                        "problem": TEXT,
                        "problem_digest": DIGEST,
                        "schedule": one_of(SCHEDULE_CHOICES),
                        "references": row(
                            record(
                                {
                                    "relaxed": row(one_of(RELAXABLE)),
                                    "value_s": SECONDS,
                                    "proven": {"type": "boolean"},
                                    "solver": TEXT,
                                    "lower_bound_s": _TIME,
                                },
                                _EVERY_CLUSTER,
                            )
                        ),
                        "runs": row(_COMPARED, 1),
                    }
                ),
                1,
            ),
        }
    ),
}

_PRICED: Schema = {
    "closed_form_s": SECONDS,
    "iteration_time_s": SECONDS,
    "memory_bytes": {**row(whole(), 1), "description": "Per device, by stage."},
    "usable_bytes": {**row(whole(), 1), "description": "Per device, by stage."},
    "plan": PLAN_RECORD,
}

_CHANGE: Schema = record(
    {"what": TEXT, "cluster": or_null(TEXT), "before": TEXT, "after": TEXT}
)

EXPLANATION: Schema = {
    "$schema": DRAFT,
    "title": "hetopt explanation",
    "description": "What `hetopt explain --json` prints: a plan and a better one.",
    **record(
        {
            "schema": {"const": EXPLANATION_SCHEMA},
            "mine": record(
                {
                    **_PRICED,
                    "feasible": {"type": "boolean"},
                    "findings": row(TEXT),
                    "reported": REPORTED,
                }
            ),
            "ours": record(_PRICED),
            "speedup": record({"closed_form": POSITIVE, "simulated": POSITIVE}),
            "steps": row(
                record(
                    {
                        "changes": row(_CHANGE, 1),
                        "closed_form_s": SECONDS,
                        "iteration_time_s": SECONDS,
                    }
                )
            ),
        }
    ),
}

_RUN: Schema = {
    "stages": {
        **row(
            record(
                {
                    "stage": whole(),
                    "cluster": TEXT,
                    "busy_s": SECONDS,
                    "idle_share": {
                        "type": "number",
                        "minimum": 0,
                        "maximum": 1,
                    },
                    "first_forward_s": SECONDS,
                    "last_backward_s": SECONDS,
                }
            ),
            1,
        ),
        "description": "Times are since the iteration began.",
    },
    "critical_path": record(
        {
            "events": whole(1),
            "duration_s": {
                "type": "object",
                "description": "Of the path's events, by their kind.",
                "propertyNames": {"enum": list(get_args(EventKind))},
                "additionalProperties": POSITIVE,
            },
        }
    ),
}

SIMULATION: Schema = {
    "$schema": DRAFT,
    "title": "hetopt simulation",
    "description": "What `hetopt simulate --json` prints: one iteration of a plan.",
    **record(
        {
            "schema": {"const": SIMULATION_SCHEMA},
            "problem_digest": DIGEST,
            "table_digest": DIGEST,
            "iteration_time_s": {
                **SECONDS,
                "description": "Simulated, event by event.",
            },
            "closed_form_s": SECONDS,
        },
        {
            "cost": COST,
            **_RUN,
            "pipelines": {
                **row(
                    record(
                        {
                            "iteration_time_s": SECONDS,
                            "closed_form_s": SECONDS,
                            **_RUN,
                        }
                    ),
                    2,
                ),
                "description": "Of several pipelines each by itself, in the place of "
                "`stages` and `critical_path`; its last wait includes adding up "
                "gradients over the pipelines.",
            },
        },
    ),
    "anyOf": [{"required": [*_RUN]}, {"required": ["pipelines"]}],
}

_NUMBER: Schema = or_null({"type": "number"})

WHATIF: Schema = {
    "$schema": DRAFT,
    "title": "hetopt what-if",
    "description": "What `hetopt whatif --json` prints: variants of a problem.",
    **record(
        {
            "schema": {"const": WHATIF_SCHEMA},
            "problem": TEXT,
            "objective": one_of(("closed", "simulated")),
            "rows": {
                **row(
                    record(
                        {
                            "change": TEXT,
                            "problem_digest": or_null(DIGEST),
                            "status": one_of((*get_args(Status), "failed")),
                            "closed_form_s": _TIME,
                            "iteration_time_s": _TIME,
                            "against_base": {
                                **_NUMBER,
                                "description": "How much longer what is minimised "
                                "takes than in the first row, as a share.",
                            },
                            "lower_bound_s": _TIME,
                            "gap": _NUMBER,
                            "tokens_per_s": _TIME,
                            "tokens_per_day": _TIME,
                            "cost": or_null(COST),
                            "plan_changes": {
                                **row(_CHANGE),
                                "description": "From the plan of the first row.",
                            },
                            "reason": {
                                **or_null(TEXT),
                                "description": "Why there is no plan.",
                            },
                            "plan": or_null(PLAN_RECORD),
                        }
                    ),
                    1,
                ),
                "description": "The problem as it is comes first.",
            },
        }
    ),
}

FRONT: Schema = {
    "$schema": DRAFT,
    "title": "hetopt front",
    "description": "What `hetopt plan --pareto --json` prints: plans that no other "
    "beats in both time and price per hour.",
    **record(
        {
            "schema": {"const": FRONT_SCHEMA},
            "status": one_of(get_args(Status)),
            "objective": one_of(("closed", "simulated")),
            "solver": TEXT,
            "search_time_s": SECONDS,
            "open": {
                **whole(),
                "description": "Choices of nodes that may hold a better plan.",
            },
            "spent": SPENT,
            "points": {
                **row(
                    record(
                        {
                            **TIMES,
                            "tokens_per_s": POSITIVE,
                            "cost": COST,
                            "plan": PLAN_RECORD,
                        }
                    )
                ),
                "description": "Ascending by price per hour.",
            },
        },
        {"relaxed": row(one_of(RELAXABLE))},
    ),
}

_ALONE = {
    "cluster": TEXT,
    "devices": whole(1),
    "status": one_of((*get_args(Status), "failed")),
    **dict.fromkeys(("time_s", "gap", "tokens_per_s"), _NUMBER),
    "reason": or_null(TEXT),
}
_MIXING = {
    "objective": one_of(("closed", "simulated")),
    **dict.fromkeys(("time_s", "tokens_per_s"), POSITIVE),
    "balance": {**POSITIVE, "description": "Load balance of HAPT, Eq. 25."},
    "over_fastest": _NUMBER,
    "hetero_speedup_ratio": {**_NUMBER, "description": "Of H2, section 6.2."},
    "alone": row(record(_ALONE), 2),
}

REASONS: Schema = {
    "$schema": DRAFT,
    "title": "hetopt reasons",
    "description": "What `hetopt explain --json` prints of one plan.",
    **record(
        {
            "schema": {"const": REASONS_SCHEMA},
            **TIMES,
            "plan": PLAN_RECORD,
            "limits": {
                **record(
                    {
                        "pace_stage": whole(),
                        "pace_share": {"type": "number"},
                        "full_stage": whole(),
                        "full_share": {"type": "number"},
                    }
                ),
                "description": "The stage that computes longest, and the share of the "
                "simulated iteration; the stage whose memory is the fullest, and how "
                "full.",
            },
            "best_s": {
                **_TIME,
                "description": "Closed form of the best plan, with which answers are "
                "compared.",
            },
            "answers": row(
                record(
                    {
                        "kind": {
                            **one_of(("memory", "node", "link", "unused")),
                            "description": "One more GB a device, one more node, twice "
                            "the bandwidth; the use of a cluster that is left out.",
                        },
                        "clusters": row(TEXT, 1),
                        "status": one_of((*get_args(Status), "failed")),
                        "closed_form_s": _TIME,
                        "lower_bound_s": _TIME,
                        "saves": _NUMBER,
                        "plan_changes": row(_CHANGE),
                        "reason": or_null(TEXT),
                    }
                )
            ),
            "mixing": {
                **or_null(record(_MIXING)),
                "description": "Each cluster alone; null if there is only one.",
            },
        }
    ),
}
