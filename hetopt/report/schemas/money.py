"""JSON Schema of costs and nodes to rent in files."""

from __future__ import annotations

from hetopt.report.schemas.words import (
    NOT_NEGATIVE,
    TEXT,
    Schema,
    by_name,
    described,
    or_null,
    record,
    row,
    whole,
)

AMOUNT: Schema = or_null(NOT_NEGATIVE)

COST: Schema = described(
    record(
        {
            "nodes": by_name(whole(1), "Nodes to rent, by cluster."),
            "unpriced": described(
                row(TEXT),
                "Clusters among them without a price; if there are any, the amounts "
                "are null.",
            ),
            "per_hour": AMOUNT,
            "per_iteration": AMOUNT,
            "per_trillion_tokens": AMOUNT,
        }
    ),
    "Of the nodes that the plan uses, in the currency of the problem's prices, at the "
    "simulated iteration time; only where there are prices.",
)
