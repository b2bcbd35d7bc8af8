"""JSON Schema (draft 2020-12) of certificates."""

from __future__ import annotations

from typing import get_args

from hetopt.problem.training.principles import RELAXABLE
from hetopt.report.schemas.claims import CLAIMS, DEFS, OVER
from hetopt.report.schemas.plan import PLAN_RECORD
from hetopt.report.schemas.words import (
    DIGEST,
    TEXT,
    Schema,
    described,
    document,
    one_of,
    or_null,
    record,
    row,
    whole,
)
from hetopt.results.certificate import CERTIFICATE_SCHEMA, TREE_SCHEMA
from hetopt.results.result import Status
from hetopt.results.settlement import How

_BOUND: Schema = described(
    or_null(whole()), "Picoseconds; null where no plan is known, or none exists."
)

CERTIFICATE: Schema = document(
    "hetopt certificate",
    "What is claimed of every (p, q), for `hetopt verify`.",
    {
        "schema": {"const": CERTIFICATE_SCHEMA},
        "problem_digest": DIGEST,
        "table_digest": DIGEST,
        "solver": TEXT,
        "objective": one_of(("closed", "simulated")),
        "relaxed": row(one_of(RELAXABLE)),
        "status": one_of(get_args(Status)),
        "value_ps": _BOUND,
        "lower_bound_ps": _BOUND,
        "plan": or_null(PLAN_RECORD),
        "microbatches": row(record({"microbatches": whole(1), "bound_ps": _BOUND})),
        "programs": row(
            record(
                {
                    "stages": whole(1),
                    "microbatches": whole(1),
                    "how": one_of(get_args(How)),
                    "bound_ps": _BOUND,
                }
            )
        ),
    },
)

_CLAIM: Schema = DEFS["claim"]["properties"]

TREE_CERTIFICATE: Schema = document(
    "hetopt certificate of a search that branched",
    "What the bound of a result follows from, for `hetopt verify`.",
    {
        "schema": {"const": TREE_SCHEMA},
        "problem_digest": DIGEST,
        "table_digest": DIGEST,
        "over": OVER,
        "plan": or_null(PLAN_RECORD),
        "claims": CLAIMS,
    },
    defs={
        "claim": record(
            {},
            {
                **{key: each for key, each in _CLAIM.items() if key != "bound_s"},
                "certificate": described(
                    record(CERTIFICATE["properties"]),
                    "Of this problem, whose lower bound is claimed; without one only "
                    "device time counts.",
                ),
            },
        )
    },
)
