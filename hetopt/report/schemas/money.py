"""JSON Schema of prices, costs and nodes to rent in files."""

from __future__ import annotations

from hetopt.report.schemas.words import (
    SECONDS,
    TEXT,
    Schema,
    or_null,
    record,
    row,
    whole,
)

_AMOUNT: Schema = or_null({"type": "number", "minimum": 0})

COST: Schema = {
    **record(
        {
            "nodes": {
                "type": "object",
                "description": "Nodes to rent, by cluster.",
                "additionalProperties": whole(1),
            },
            "unpriced": {
                **row(TEXT),
                "description": "Clusters among them without a price; if there are any, "
                "the amounts are null.",
            },
            "per_hour": _AMOUNT,
            "per_iteration": _AMOUNT,
            "per_trillion_tokens": _AMOUNT,
        }
    ),
    "description": "Of the nodes that the plan uses, in the currency of the problem's "
    "prices, at the simulated iteration time; only where there are prices.",
}

SPENT: Schema = {
    **record(
        {
            "budget": _AMOUNT,
            "min_tokens_per_s": _AMOUNT,
            "choices": {
                **whole(1),
                "description": "Number of possible choices of nodes.",
            },
            "lower_bound": {
                **_AMOUNT,
                "description": "No iteration costs less, in closed form; only where "
                "cost is minimised.",
            },
            "fleets": {
                **row(
                    record(
                        {
                            "nodes": {
                                "type": "object",
                                "description": "By cluster; those without any are "
                                "left out.",
                                "additionalProperties": whole(1),
                            },
                            "bound_s": {
                                **or_null(SECONDS),
                                "description": "No plan that needs no more nodes takes "
                                "less; null: there is none.",
                            },
                        }
                    )
                ),
                "description": "Choices of nodes that were searched; together with the "
                "device time of the others they prove the result.",
            },
        }
    ),
    "description": "What was found out about the nodes to rent, where prices decide.",
}
