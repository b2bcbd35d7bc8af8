"""JSON Schema (draft 2020-12) of the latency table."""

from __future__ import annotations

from typing import get_args

from hetopt.base.file_record import json_schema
from hetopt.cost.table.table import SourceKind
from hetopt.cost.table_file.columns import (
    KIND_NUMBERS,
    STRATEGY_NUMBERS,
    WEIGHT_NUMBERS,
)
from hetopt.cost.table_file.parsing import TABLE_SCHEMA
from hetopt.plans.strategy import Strategy
from hetopt.problem.training.choices import RESHARDING, SCHEDULE_CHOICES
from hetopt.report.schemas.words import (
    DIGEST,
    EPSILON,
    FLAG,
    POSITIVE,
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

_MATRIX = row(row(whole()))
_BY_KIND = by_name(whole(), "One number per unit kind, by its name.")

_STRATEGY = json_schema(Strategy)
_DEGREES: Schema = _STRATEGY["properties"]

_TABLE_STRATEGY = record(
    {
        **{name: _DEGREES[name] for name in _STRATEGY["required"]},
        **{name: whole() for name in STRATEGY_NUMBERS},
        **dict.fromkeys(KIND_NUMBERS, _BY_KIND),
    },
    {**_DEGREES, **dict.fromkeys(WEIGHT_NUMBERS, _BY_KIND)},
)

_SLICE = record(
    {
        "microbatches": whole(1),
        "layouts": row(record({"cluster": TEXT, "dp": whole(1), "shards": whole(1)})),
        "transfer_ns": described(
            row(_MATRIX), "kappa by cut class, layout and next layout."
        ),
        "occupancy_ns": described(
            row(_MATRIX), "omega by cut class, layout and next layout."
        ),
        "resharding": row(row(row(one_of(RESHARDING)))),
        "tied_ns": described(
            or_null(_MATRIX), "By the layouts of the first and of the last stage."
        ),
        "clusters": row(record({"name": TEXT, "strategies": row(_TABLE_STRATEGY)}), 1),
    },
    {
        "within_ns": described(
            row(_MATRIX), "Between layouts of one stage; only in per_unit."
        ),
        "shared": described(
            record({"uplink_ns": row(whole()), "link_ns": row(row(whole()))}),
            "How long a boundary keeps each cluster's uplink, and each link by both "
            "clusters; 0 where nothing is shared.",
        ),
    },
)

_PER_UNIT: Schema = described(
    record(
        {
            "tensors": row(TEXT, 1),
            "edges": row(
                record({"first": whole(), "second": whole(1), "tensor": TEXT})
            ),
            "slices": row(_SLICE),
        }
    ),
    "What plans with a strategy per unit are made from.",
)

TABLE: Schema = document(
    "hetopt latency table",
    "Every coefficient a solver reads: whole nanoseconds and bytes.",
    {
        "schema": {"const": TABLE_SCHEMA},
        "problem_digest": DIGEST,
        "schedule": one_of(SCHEDULE_CHOICES),
        "kinds": row(TEXT, 1),
        "body": row(FLAG, 1),
        "cut_classes": row(TEXT),
        "units": described(row(TEXT, 1), "Kind of every unit."),
        "cuts": described(row(TEXT), "Cut class after each unit."),
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
        "chunks": described(whole(2), "Of every stage; units are then of one of them."),
        "warmup_epsilon": EPSILON,
        "way_back": described(TEXT, "Cut class from the last stage back to the first."),
        "pairs": described(
            row({**row(TEXT, 2), "maxItems": 2}, 1),
            "With zb-v, v-half and v-min, the kinds of the two units that each of the "
            "last kinds stands for; units are then pairs.",
        ),
    },
)
