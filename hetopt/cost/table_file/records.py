"""What a latency table's document holds, declared once (see ``file``)."""

from __future__ import annotations

from typing import get_args

from hetopt.cost.table.table import SourceKind
from hetopt.cost.table.ticks import TOO_LONG_NS
from hetopt.cost.table_file.values import (
    ByName,
    Flag,
    Grid,
    Index,
    OneOf,
    Positive,
    Record,
    Row,
    Text,
    Value,
    Whole,
)
from hetopt.problem.quantity import TOO_MANY_BYTES
from hetopt.problem.training.choices import RECOMPUTE, RESHARDING, SCHEDULE_CHOICES
from hetopt.schedule.orders import FOLDED_CHUNKS

TABLE_SCHEMA = "hetopt-table/1"

_COUNT = Whole(least=1)
_TIME = Whole(most=TOO_LONG_NS)
_BYTES = Whole(most=TOO_MANY_BYTES)
#: From the layout of one stage to that of the next, by class of tensor.
_BOUNDARY = ("crossing", "layouts", "layouts")


def _by_kind(of: Whole, *, optional: bool = False) -> ByName:
    about = "One number per unit kind, by its name."
    return ByName(of, "kinds", about=about, optional=optional)


#: Columns of a cluster's strategies: ``ClusterTable`` has arrays of these names.
COLUMNS: dict[str, Value] = {
    "microbatch": _COUNT,
    "devices": Whole(),
    "max_stages": Whole(),
    "layout": Whole(),
    "fixed_bytes": _BYTES,
    "sync_ns": _TIME,
    "forward_ns": _by_kind(_TIME),
    "backward_ns": _by_kind(_TIME),
    "state_bytes": _by_kind(_BYTES),
    "activation_bytes": _by_kind(_BYTES),
    "temporary_bytes": _by_kind(_BYTES),
    "sync_unit_ns": _by_kind(_TIME),
}
#: Further ones if the schedule splits the backward pass.
WEIGHT_COLUMNS: dict[str, Value] = {
    "weight_ns": _by_kind(_TIME, optional=True),
    "weight_bytes": _by_kind(_BYTES, optional=True),
}
STRATEGY = Record(
    {
        "dp": _COUNT,
        "cp": _COUNT,
        "tp": _COUNT,
        "recompute": OneOf(RECOMPUTE),
        **COLUMNS,
        "ep": Whole(
            least=1, optional=True, about="Ranks that routed experts are spread over."
        ),
        "etp": Whole(
            least=1, optional=True, about="Ranks that share each routed expert."
        ),
        "zero": Whole(
            most=3,
            optional=True,
            about="ZeRO stage, where it is not the problem's: in per_unit.",
        ),
        **WEIGHT_COLUMNS,
    }
)
SLICE = Record(
    {
        "microbatches": _COUNT,
        "layouts": Row(
            Record({"cluster": Index("clusters"), "dp": _COUNT, "shards": _COUNT}),
            axis="layouts",
        ),
        "transfer_ns": Grid(
            _TIME, _BOUNDARY, about="kappa by cut class, layout and next layout."
        ),
        "occupancy_ns": Grid(
            _TIME, _BOUNDARY, about="omega by cut class, layout and next layout."
        ),
        "resharding": Grid(Index(RESHARDING), _BOUNDARY),
        "tied_ns": Grid(
            _TIME,
            ("layouts", "layouts"),
            null=True,
            about="By the layouts of the first and of the last stage.",
        ),
        "clusters": Row(
            Record({"name": Text(), "strategies": Row(STRATEGY)}), along="clusters"
        ),
        "within_ns": Grid(
            _TIME,
            _BOUNDARY,
            optional=True,
            about="Between layouts of one stage; only in per_unit.",
        ),
        "shared": Record(
            {
                "uplink_ns": Grid(_TIME, ("clusters",)),
                "link_ns": Grid(_TIME, ("clusters", "clusters")),
            },
            optional=True,
            about="How long a boundary keeps each cluster's uplink, and each link by "
            "both clusters; 0 where nothing is shared.",
        ),
    }
)
EDGE = Record({"first": Whole(), "second": Whole(), "tensor": Index("crossing")})
PER_UNIT = Record(
    {
        "tensors": Row(Text(), least=1, axis="crossing"),
        "edges": Row(EDGE),
        "slices": Row(SLICE),
    },
    optional=True,
    about="What plans with a strategy per unit are made from.",
)
CLUSTER = Record(
    {
        "name": Text(),
        "devices": _COUNT,
        "usable_bytes": Whole(most=TOO_MANY_BYTES - 1),
        "source": OneOf(get_args(SourceKind)),
        "peak_flops": Positive(),
    }
)
#: What ``CostTable`` calls their values, one for each cluster.
CLUSTER_COLUMNS = {
    "name": "cluster_names",
    "devices": "cluster_devices",
    "usable_bytes": "usable_bytes",
    "source": "sources",
    "peak_flops": "peak_flops",
}
TABLE = Record(
    {
        "schema": OneOf((TABLE_SCHEMA,)),
        "problem_digest": Text(),
        "schedule": OneOf(SCHEDULE_CHOICES),
        "kinds": Row(Text(), least=1, axis="kinds"),
        "body": Row(Flag(), along="kinds"),
        "cut_classes": Row(Text(), least=1, axis="crossing"),
        "units": Row(Index("kinds"), least=3, about="Kind of every unit."),
        "cuts": Row(Index("crossing"), about="Cut class after each unit."),
        "tokens": _COUNT,
        "model_flops": Positive(),
        "clusters": Row(CLUSTER, least=1, axis="clusters"),
        "chunks": Whole(
            least=2,
            optional=True,
            about="Of every stage; units are then of one of them.",
        ),
        "warmup_epsilon": Positive(optional=True),
        "way_back": Index(
            "crossing",
            optional=True,
            about="Cut class from the last stage back to the first.",
        ),
        "pairs": Row(
            Row(Index("kinds"), least=FOLDED_CHUNKS, most=FOLDED_CHUNKS),
            least=1,
            optional=True,
            about="With zb-v, v-half and v-min, the kinds of the two units that each "
            "of the last kinds stands for; units are then pairs.",
        ),
        "slices": Row(SLICE),
        "per_unit": PER_UNIT,
    }
)
