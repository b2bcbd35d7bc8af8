"""JSON Schema of the parts of files about several pipelines."""

from __future__ import annotations

from hetopt.report.schemas.words import (
    SECONDS,
    Schema,
    by_name,
    described,
    or_null,
    record,
    row,
    whole,
)

#: By cluster, the devices that a pipeline has in each of its nodes.
_NODES: Schema = by_name(
    row(whole(1), 1), "By cluster, the devices that the pipeline has in each node."
)
SHARE: Schema = described(
    record({"batch": whole(1), "nodes": _NODES}),
    "Of one of several pipelines: sequences of an iteration, devices.",
)

MIX: Schema = described(
    record(
        {
            "per_microbatch": whole(1),
            "sequences": by_name(whole(1), "Their number by tokens."),
        }
    ),
    "Where sequences have several lengths: those that the pipeline takes in an "
    "iteration, and those of one length that make a micro-batch.",
)

SEVERAL: Schema = described(
    record(
        {
            "most": whole(1),
            "divisions": whole(1),
            "bounds": row(
                record(
                    {
                        "division": row(_NODES, 1),
                        "bound_s": or_null(SECONDS),
                    },
                    {"pipeline": whole(), "batch": whole(1)},
                )
            ),
        }
    ),
    "Of a search for up to `most` pipelines: the ways to divide the nodes, and what "
    "one pipeline of a division takes at least with so many sequences, or all of its "
    "pipelines where lengths differ (null: there is no plan).",
)
