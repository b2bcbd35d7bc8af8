"""JSON Schema of the parts of files about several pipelines."""

from __future__ import annotations

from hetopt.report.schemas.words import (
    Schema,
    by_name,
    described,
    record,
    row,
    whole,
)

#: By cluster, the devices that a pipeline has in each of its nodes.
NODES: Schema = by_name(
    row(whole(1), 1), "By cluster, the devices that the pipeline has in each node."
)
SHARE: Schema = described(
    record({"batch": whole(1), "nodes": NODES}),
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
