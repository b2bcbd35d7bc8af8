"""JSON Schema of what a search branched over, and of its tree of claims."""

from __future__ import annotations

from hetopt.problem.training.choices import SCHEDULES
from hetopt.report.schemas.several import NODES
from hetopt.report.schemas.words import (
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    SECONDS,
    TEXT,
    Schema,
    by_name,
    described,
    one_of,
    or_null,
    record,
    row,
    whole,
)

_VARIANT: Schema = record(
    {
        "schedule": one_of(SCHEDULES),
        "chunks": described(whole(1), "Of every stage."),
        "warmup_epsilon": described(or_null(POSITIVE), "Of `h-1f1b`."),
    }
)

ASKED: Schema = described(
    record(
        {},
        {
            **dict.fromkeys(("problem", "objective", "schedule", "relax"), TEXT),
            **dict.fromkeys(("launcher", "solver", "table"), TEXT),
            **dict.fromkeys(("executor", "cost"), TEXT),
            **dict.fromkeys(("pareto", "stability"), FLAG),
            **dict.fromkeys(("budget", "min_tokens_per_s", "time_limit"), POSITIVE),
            **dict.fromkeys(("pipelines", "top", "jobs"), whole(1)),
            "chunks": row(whole(1), 1),
            "seed": whole(),
            "exploration": NOT_NEGATIVE,
            "iterations": whole(1),
        },
    ),
    "The options of `hetopt plan` that were not the usual ones; `hetopt plan --again` "
    "asks the same.",
)
OVER: Schema = described(
    row(
        record(
            {},
            {
                "fleets": described(
                    record(
                        {
                            "measure": one_of(("time", "cost", "front")),
                            "budget": or_null(POSITIVE),
                            "min_tokens_per_s": or_null(POSITIVE),
                        }
                    ),
                    "All choices of nodes to rent, within these limits.",
                ),
                "schedules": described(
                    row(_VARIANT, 1), "In the order in which ties are broken."
                ),
                "divisions": described(
                    record({"most": whole(1)}),
                    "All ways to divide the nodes among up to so many pipelines.",
                ),
                "launcher": described(TEXT, "Only plans that it can run."),
            },
        )
    ),
    "What the search branched over, from the root of `claims` down; each with one key.",
)

#: The type of ``at`` by what a node branches over: nodes by cluster, a schedule, or by
#: pipeline and cluster the devices of each node.
_AT: Schema = {
    "anyOf": [
        by_name({"anyOf": [NOT_NEGATIVE, TEXT, {"type": "null"}]}, "Nodes by cluster."),
        row(NODES, 1),
    ]
}

_CLAIM: Schema = {"$ref": "#/$defs/claim"}

DEFS: Schema = {
    "claim": record(
        {},
        {
            "at": described(
                _AT,
                "What makes this child: nodes by cluster, a schedule with its chunks "
                "and epsilon, or for each pipeline the devices of each node.",
            ),
            "bound_s": described(
                or_null(SECONDS), "No plan takes less; null: there is none."
            ),
            "best_s": described(SECONDS, "What the best plan found here takes."),
            "by": described(
                one_of(("fleets", "schedules", "divisions", "launcher")),
                "What its children differ in; with a launcher only in certificates.",
            ),
            "of": described(
                whole(), "Number of all children; device time bounds those not listed."
            ),
            "children": row(_CLAIM),
            "parts": described(
                row(_CLAIM),
                "Pipelines side by side, of this or another batch; or all the spaces "
                "that a rule of the launcher splits this one into.",
            ),
            "rule": described(TEXT, "By which the plans a launcher can run are split."),
            "pipeline": described(whole(), "The number of a part's pipeline."),
            "batch": described(whole(1), "The sequences of a part."),
            "passed_over": described(TEXT, "Why this child does not count."),
        },
    )
}

CLAIMS: Schema = described(
    _CLAIM,
    "What the search claims, and from which the bound follows (docs/explanation/"
    "proofs.md).",
)
