"""JSON Schema of the parts of files about several pipelines."""

from __future__ import annotations

from hetopt.report.schemas.words import SECONDS, Schema, or_null, record, row, whole

#: By cluster, the devices that a pipeline has in each of its nodes.
_NODES: Schema = {
    "type": "object",
    "description": "By cluster, the devices that the pipeline has in each node.",
    "additionalProperties": row(whole(1), 1),
}
SHARE: Schema = {
    **record({"batch": whole(1), "nodes": _NODES}),
    "description": "Of one of several pipelines: sequences of an iteration, devices.",
}

MIX: Schema = {
    **record(
        {
            "per_microbatch": whole(1),
            "sequences": {
                "type": "object",
                "description": "Their number by tokens.",
                "additionalProperties": whole(1),
            },
        }
    ),
    "description": "Where sequences have several lengths: those that the pipeline "
    "takes in an iteration, and those of one length that make a micro-batch.",
}

SEVERAL: Schema = {
    **record(
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
    "description": "Of a search for up to `most` pipelines: the ways to divide the "
    "nodes, and what one pipeline of a division takes at least with so many sequences, "
    "or all of its pipelines where lengths differ (null: there is no plan).",
}
