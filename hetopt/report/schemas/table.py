"""JSON Schema (draft 2020-12) of the latency table."""

from __future__ import annotations

from typing import get_args

from hetopt.cost.table.table import SourceKind
from hetopt.cost.table_file.columns import (
    KIND_NUMBERS,
    STRATEGY_NUMBERS,
    WEIGHT_NUMBERS,
)
from hetopt.cost.table_file.parsing import TABLE_SCHEMA
from hetopt.problem.training.choices import RESHARDING, SCHEDULE_CHOICES
from hetopt.report.schemas.plan import OTHERS, STRATEGY
from hetopt.report.schemas.words import (
    DIGEST,
    DRAFT,
    EPSILON,
    POSITIVE,
    TEXT,
    Schema,
    one_of,
    or_null,
    record,
    row,
    whole,
)

_MATRIX = row(row(whole()))
_BY_KIND = {
    "type": "object",
    "description": "One number per unit kind, by its name.",
    "additionalProperties": whole(),
}

_TABLE_STRATEGY = record(
    {
        **STRATEGY,
        **{name: whole() for name in STRATEGY_NUMBERS},
        **dict.fromkeys(KIND_NUMBERS, _BY_KIND),
    },
    {**OTHERS, **dict.fromkeys(WEIGHT_NUMBERS, _BY_KIND)},
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
            "warmup_epsilon": EPSILON,
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
