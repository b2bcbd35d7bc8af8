"""JSON Schema (draft 2020-12) of reports that hetopt prints or writes as JSON."""

from __future__ import annotations

from typing import get_args

from hetopt.problem.training.choices import ANY, SCHEDULE_CHOICES
from hetopt.problem.training.principles import RELAXABLE
from hetopt.report.comparison.comparison import COMPARISON_SCHEMA, WITHIN
from hetopt.report.explanation import EXPLANATION_SCHEMA
from hetopt.report.schemas.claims import ASKED, CLAIMS, DEFS, OVER
from hetopt.report.schemas.money import COST
from hetopt.report.schemas.plan import PLAN_RECORD, REPORTED, TIMES
from hetopt.report.schemas.words import (
    DIGEST,
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
from hetopt.report.simulation import SIMULATION_SCHEMA
from hetopt.report.whatif.reasons import REASONS_SCHEMA
from hetopt.report.whatif.table import WHATIF_SCHEMA
from hetopt.results.front import FRONT_SCHEMA
from hetopt.results.result import Status
from hetopt.schedule.run import EventKind
from hetopt.whatif.reasons import PathKind

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
        "seed": described(
            or_null(whole()), "Null if the solver uses no random numbers."
        ),
        "relaxed": row(one_of(RELAXABLE)),
        "extra": {
            "type": "boolean",
            "description": "Run only for its optimum, which others are measured by.",
        },
        "status": one_of((*get_args(Status), "refused", "failed")),
        "closed_form_s": _TIME,
        "iteration_time_s": _TIME,
        "above": described(or_null(NUMBER), "Share above the reference of its space."),
        "first_s": _TIME,
        "within_s": described(
            record(dict.fromkeys(WITHIN, _TIME)),
            "When a plan so close to the reference was known.",
        ),
        "proof_s": _TIME,
        "lower_bound_s": _TIME,
        "gap": or_null(NUMBER),
        "search_time_s": _TIME,
        "process_time_s": SECONDS,
        "failure": or_null(TEXT),
        "trace": described(
            row({"type": "array", "items": SECONDS, "maxItems": 2}),
            "Seconds since the search began, closed form in seconds.",
        ),
        "plan": or_null(PLAN_RECORD),
    },
    {
        "cost": COST,
        **_EVERY_CLUSTER,
        "taken_share": described(
            or_null(NUMBER),
            "Share of its cores that other programs may have taken; null: not known.",
        ),
    },
)

COMPARISON: Schema = document(
    "hetopt comparison",
    "What `hetopt compare` writes: solvers side by side.",
    {
        "schema": {"const": COMPARISON_SCHEMA},
        "machine": TEXT,
        "time_limit_s": POSITIVE,
        "jobs": or_null(whole(1)),
        "warm_up_s": by_name(
            SECONDS, "By solver: its first run, which is not counted."
        ),
        "problems": row(
            record(
                {
                    "problem": TEXT,
                    "problem_digest": DIGEST,
                    "schedule": one_of((*SCHEDULE_CHOICES, ANY)),
                    "references": row(
                        record(
                            {
                                "relaxed": row(one_of(RELAXABLE)),
                                "value_s": SECONDS,
                                "proven": FLAG,
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
    },
)

_PRICED: Schema = {
    "closed_form_s": SECONDS,
    "iteration_time_s": SECONDS,
    "memory_bytes": described(row(whole(), 1), "Per device, by stage."),
    "usable_bytes": described(row(whole(), 1), "Per device, by stage."),
    "plan": PLAN_RECORD,
}

_CHANGE: Schema = record(
    {"what": TEXT, "cluster": or_null(TEXT), "before": TEXT, "after": TEXT}
)

EXPLANATION: Schema = document(
    "hetopt explanation",
    "What `hetopt explain --json` prints: a plan and a better one.",
    {
        "schema": {"const": EXPLANATION_SCHEMA},
        "mine": record(
            {
                **_PRICED,
                "feasible": FLAG,
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
    },
)

_RUN: Schema = {
    "stages": described(
        row(
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
        "Times are since the iteration began.",
    ),
    "critical_path": record(
        {
            "events": whole(1),
            "duration_s": by_name(
                POSITIVE, "Of the path's events, by their kind.", get_args(EventKind)
            ),
        }
    ),
}

SIMULATION: Schema = document(
    "hetopt simulation",
    "What `hetopt simulate --json` prints: one iteration of a plan.",
    {
        "schema": {"const": SIMULATION_SCHEMA},
        "problem_digest": DIGEST,
        "table_digest": DIGEST,
        "iteration_time_s": described(SECONDS, "Simulated, event by event."),
        "closed_form_s": SECONDS,
    },
    {
        "cost": COST,
        **_RUN,
        "pipelines": described(
            row(
                record(
                    {
                        "iteration_time_s": SECONDS,
                        "closed_form_s": SECONDS,
                        **_RUN,
                    }
                ),
                2,
            ),
            "Of several pipelines each by itself, in the place of `stages` and "
            "`critical_path`; its last wait includes adding up gradients over the "
            "pipelines.",
        ),
    },
) | {"anyOf": [{"required": [*_RUN]}, {"required": ["pipelines"]}]}

_NUMBER: Schema = or_null(NUMBER)

WHATIF: Schema = document(
    "hetopt what-if",
    "What `hetopt whatif --json` prints: variants of a problem.",
    {
        "schema": {"const": WHATIF_SCHEMA},
        "problem": TEXT,
        "objective": one_of(("closed", "simulated")),
        "rows": described(
            row(
                record(
                    {
                        "change": TEXT,
                        "problem_digest": or_null(DIGEST),
                        "status": one_of((*get_args(Status), "failed")),
                        "closed_form_s": _TIME,
                        "iteration_time_s": _TIME,
                        "against_base": described(
                            _NUMBER,
                            "How much longer what is minimised takes than in the "
                            "first row, as a share.",
                        ),
                        "lower_bound_s": _TIME,
                        "gap": _NUMBER,
                        "tokens_per_s": _TIME,
                        "tokens_per_day": _TIME,
                        "cost": or_null(COST),
                        "plan_changes": described(
                            row(_CHANGE), "From the plan of the first row."
                        ),
                        "reason": described(or_null(TEXT), "Why there is no plan."),
                        "plan": or_null(PLAN_RECORD),
                    }
                ),
                1,
            ),
            "The problem as it is comes first.",
        ),
    },
)

FRONT: Schema = document(
    "hetopt front",
    "What `hetopt plan --pareto --json` prints: plans that no other beats in both "
    "time and price per hour.",
    {
        "schema": {"const": FRONT_SCHEMA},
        "status": one_of(get_args(Status)),
        "objective": one_of(("closed", "simulated")),
        "solver": TEXT,
        "search_time_s": SECONDS,
        "open": described(whole(), "Choices of nodes that may hold a better plan."),
        "over": OVER,
        "claims": CLAIMS,
        "points": described(
            row(
                record(
                    {
                        **TIMES,
                        "tokens_per_s": POSITIVE,
                        "cost": COST,
                        "plan": PLAN_RECORD,
                    }
                )
            ),
            "Ascending by price per hour.",
        ),
    },
    {"relaxed": row(one_of(RELAXABLE)), "asked": ASKED},
    defs=DEFS,
)

_ALONE = {
    "cluster": TEXT,
    "devices": whole(1),
    "status": one_of((*get_args(Status), "failed")),
    "time_s": or_null(POSITIVE),
    **dict.fromkeys(("gap", "tokens_per_s"), _NUMBER),
    "reason": or_null(TEXT),
}
_MIXING = {
    "objective": one_of(("closed", "simulated")),
    "devices": described(whole(1), "That the plan uses."),
    **dict.fromkeys(("time_s", "tokens_per_s"), POSITIVE),
    "balance": described(POSITIVE, "Load balance of HAPT, Eq. 25."),
    "over_fastest": _NUMBER,
    "hetero_speedup_ratio": described(_NUMBER, "Of H2, section 6.2."),
    "alone": row(record(_ALONE), 2),
}

REASONS: Schema = document(
    "hetopt reasons",
    "What `hetopt explain --json` prints of one plan.",
    {
        "schema": {"const": REASONS_SCHEMA},
        **TIMES,
        "plan": PLAN_RECORD,
        "limits": described(
            record(
                {
                    "pace_stage": whole(),
                    "pace_share": NUMBER,
                    "full_stage": whole(),
                    "full_share": NUMBER,
                }
            ),
            "The stage that computes longest, and the share of the simulated "
            "iteration; the stage whose memory is the fullest, and how full.",
        ),
        "critical": described(
            row(
                record(
                    {
                        "kind": one_of(get_args(PathKind)),
                        "stage": or_null(whole()),
                        "share": POSITIVE,
                    }
                ),
                1,
            ),
            "What the longest chain of events of the simulated iteration is made of.",
        ),
        "best_s": described(
            _TIME, "Closed form of the best plan, with which answers are compared."
        ),
        "answers": row(
            record(
                {
                    "kind": described(
                        one_of(("memory", "node", "link", "unused")),
                        "One more GB a device, one more node, twice the bandwidth; "
                        "the use of a cluster that is left out.",
                    ),
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
        "mixing": described(
            or_null(record(_MIXING)), "Each cluster alone; null if there is only one."
        ),
    },
)
