"""JSON Schema of prices, costs and nodes to rent in files."""

from __future__ import annotations

from hetopt.report.schemas.words import (
    NOT_NEGATIVE,
    SECONDS,
    TEXT,
    Schema,
    by_name,
    described,
    or_null,
    record,
    row,
    whole,
)

_AMOUNT: Schema = or_null(NOT_NEGATIVE)

COST: Schema = described(
    record(
        {
            "nodes": by_name(whole(1), "Nodes to rent, by cluster."),
            "unpriced": described(
                row(TEXT),
                "Clusters among them without a price; if there are any, the amounts "
                "are null.",
            ),
            "per_hour": _AMOUNT,
            "per_iteration": _AMOUNT,
            "per_trillion_tokens": _AMOUNT,
        }
    ),
    "Of the nodes that the plan uses, in the currency of the problem's prices, at the "
    "simulated iteration time; only where there are prices.",
)

SPENT: Schema = described(
    record(
        {
            "budget": _AMOUNT,
            "min_tokens_per_s": _AMOUNT,
            "choices": described(whole(1), "Number of possible choices of nodes."),
            "lower_bound": described(
                _AMOUNT,
                "No iteration costs less, in closed form; only where cost is "
                "minimised.",
            ),
            "fleets": described(
                row(
                    record(
                        {
                            "nodes": by_name(
                                whole(1), "By cluster; those without any are left out."
                            ),
                            "bound_s": described(
                                or_null(SECONDS),
                                "No plan that needs no more nodes takes less; null: "
                                "there is none.",
                            ),
                        }
                    )
                ),
                "Choices of nodes that were searched; together with the device time "
                "of the others they prove the result.",
            ),
        }
    ),
    "What was found out about the nodes to rent, where prices decide.",
)
