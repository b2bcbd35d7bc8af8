"""Readers of plans, of answers, and of what belongs to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.check.plan.reading import read_plan
from hetopt.plans.plan import Plan
from hetopt.report.whatif.reasons import Reasons
from hetopt.report.whatif.table import Whatif
from hetopt.results.certificate import Certificate, TreeCertificate
from hetopt.results.front import Front
from hetopt.results.result import Result
from hetopt.running.measured import Measured
from tests.readers.reader import Reader

if TYPE_CHECKING:
    from hetopt.base.file_record import FileRecord

STRATEGY = {"dp": 4, "cp": 1, "tp": 2, "ep": 2, "etp": 2, "recompute": "full"}
STAGE = {
    "cluster": "fast",
    "first_unit": 0,
    "end_unit": 3,
    **STRATEGY,
    "warmup": 2,
    "resharding": "p2p",
}
PLAN: dict[str, Any] = {
    "schema": "hetopt-plan/1",
    "schedule": "h-1f1b",
    "warmup_epsilon": 0.05,
    "problem_digest": "0" * 64,
    "table_digest": "f" * 64,
    "pipelines": [
        {
            "microbatches": 4,
            "share": {"batch": 8, "nodes": {"fast": [8, 8]}},
            "mix": {"per_microbatch": 4, "sequences": {"512": 8}},
            "stages": [STAGE, {**STAGE, "unit_strategies": [{**STRATEGY, "zero": 3}]}],
        }
    ],
}
COST = {
    "nodes": {"fast": 2},
    "unpriced": ["slow"],
    "per_hour": 3.0,
    "per_iteration": 0.5,
    "per_trillion_tokens": 9.0,
}
LIMITS = {"measure": "cost", "budget": 4.0, "min_tokens_per_s": 1.5}
VARIANT = {"schedule": "1f1b", "chunks": 1, "warmup_epsilon": 0.05}
OVER: list[Any] = [
    {"fleets": LIMITS},
    {"schedules": [VARIANT]},
    {"divisions": {"most": 2}},
    {"launcher": "torch"},
]
CLAIMS = {
    "by": "fleets",
    "of": 7,
    "children": [
        {"at": {"fast": 2}, "bound_s": 1.0, "best_s": 1.5},
        {"at": {"slow": 1}, "passed_over": "too slow"},
        {
            "at": [{"fast": [2, 2]}],
            "parts": [{"pipeline": 0, "batch": 3, "bound_s": 2.0}],
        },
    ],
}
TIMES = {"closed_form_s": 1.0, "iteration_time_s": 1.1}
ASKED = {
    "objective": "cost",
    "pareto": True,
    "chunks": [2, 4],
    "time_limit": 1.5,
    "budget": 3.0,
    "top": 2,
    "seed": 0,
}
RESULT: dict[str, Any] = {
    "schema": "hetopt-result/1",
    "status": "optimal",
    "objective": "closed",
    **TIMES,
    "objective_s": 0.9,
    "lower_bound_s": 1.0,
    "gap": 0.0,
    "search_time_s": 2.5,
    "tokens_per_s": 100.0,
    "mfu": 0.4,
    "mfu_used": 0.5,
    "settled": {"solved": 1},
    "settlements": [
        {"stages": 1, "microbatches": 4, "how": "solved", "bound_s": 1.0},
        {"stages": 2, "microbatches": 4, "how": "infeasible", "bound_s": None},
    ],
    "solver": "dp",
    "solver_choice": "so quick",
    "relaxed": ["p3"],
    "launch": {
        "launcher": "torch",
        "schedule": "1f1b",
        **TIMES,
        "proven": True,
    },
    "cost": COST,
    "asked": ASKED,
    "over": OVER,
    "claims": CLAIMS,
    "lower_cost": 0.5,
    "stability": [
        {
            "kind": "link",
            "clusters": ["fast", "slow"],
            "direction": "less",
            "factor": 0.5,
            "plan_s": 1.5,
            "other": {**TIMES, "plan": PLAN},
            "proven": True,
            "plan_cost": 0.5,
            "other_cost": 0.4,
        }
    ],
    "table_kinds": {"fast": "operators"},
    "reason": None,
    "plan": PLAN,
    "alternatives": [{**TIMES, "plan": PLAN}],
    "reported": [{"argument": "--x", "kind": "unknown", "why": "hetopt is small"}],
}
FRONT = {
    "schema": "hetopt-front/1",
    "status": "optimal",
    "objective": "closed",
    "solver": "dp",
    "search_time_s": 2.5,
    "open": 0,
    "relaxed": ["p3"],
    "asked": ASKED,
    "over": OVER,
    "claims": CLAIMS,
    "points": [{**TIMES, "tokens_per_s": 100.0, "cost": COST, "plan": PLAN}],
}
CERTIFICATE: dict[str, Any] = {
    "schema": "hetopt-certificate/1",
    "problem_digest": "0" * 64,
    "table_digest": "f" * 64,
    "solver": "dp",
    "objective": "closed",
    "relaxed": ["p3"],
    "status": "optimal",
    "value_ps": 10,
    "lower_bound_ps": 10,
    "plan": PLAN,
    "microbatches": [{"microbatches": 4, "bound_ps": 10}],
    "programs": [{"stages": 1, "microbatches": 4, "how": "solved", "bound_ps": 10}],
}
TREE = {
    "schema": "hetopt-certificate/2",
    "problem_digest": "0" * 64,
    "table_digest": "f" * 64,
    "over": OVER,
    "plan": PLAN,
    "claims": {
        "by": "fleets",
        "of": 7,
        "children": [{"at": {"fast": 2}, "certificate": CERTIFICATE}],
    },
}
MEASURED = {
    "schema": "hetopt-measured/1",
    "plan_digest": "a" * 64,
    "iteration_s": [2, 1.5],
    "loss": [9.0, 8.5],
    "stages": [
        {
            "forward_s": 0.5,
            "backward_s": 1.0,
            "sync_s": 0.0,
            "peak_bytes": 1,
            "weight_s": 0.5,
            "first_chunk_s": [0.5, 0.5, 0.5],
        }
    ],
    "boundaries_s": [0.1],
    "memory": "allocated",
    "devices": ["H100"],
    "versions": {"hetopt": "0.1", "torch": "2.9", "python": "3.11"},
    "units": None,
    "chunks": {
        "count": 2,
        "way_back_s": 0.1,
        "lead_s": [0.1, 0.2],
        "trail_s": [0.1, 0.2],
    },
    "conditions": {"threads": 4, "cores": 2, "load": 8.0, "cpu_shares": [0.5, 1.5]},
    "noise": ["a load"],
}
CHANGES = [{"what": "stages", "cluster": None, "before": "1", "after": "2"}]
ROW = {
    "change": "as it is",
    "problem_digest": "0" * 64,
    "status": "optimal",
    **TIMES,
    "against_base": 0.5,
    "lower_bound_s": 1.0,
    "gap": 0.0,
    "tokens_per_s": 100.0,
    "tokens_per_day": 1e9,
    "cost": COST,
    "plan_changes": CHANGES,
    "reason": None,
    "plan": PLAN,
}
WHATIF = {
    "schema": "hetopt-whatif/1",
    "problem": "p",
    "objective": "closed",
    "rows": [ROW],
}
ALONE = {
    "cluster": "fast",
    "devices": 4,
    "status": "optimal",
    "time_s": 1.0,
    "gap": 0.0,
    "tokens_per_s": 100.0,
    "reason": None,
}
REASONS = {
    "schema": "hetopt-reasons/1",
    **TIMES,
    "plan": PLAN,
    "limits": {"pace_stage": 0, "pace_share": 0.5, "full_stage": 1, "full_share": 0.5},
    "critical": [{"kind": "passes", "stage": 0, "share": 0.5}],
    "best_s": 1.0,
    "answers": [
        {
            "kind": "memory",
            "clusters": ["fast"],
            "status": "optimal",
            "closed_form_s": 1.0,
            "lower_bound_s": 1.0,
            "saves": 0.1,
            "plan_changes": [],
            "reason": None,
        }
    ],
    "mixing": {
        "objective": "closed",
        "devices": 8,
        "time_s": 1.0,
        "tokens_per_s": 100.0,
        "balance": 0.5,
        "over_fastest": 1.5,
        "hetero_speedup_ratio": 0.9,
        "alone": [ALONE, ALONE],
    },
}
#: What other snapshots have.
PARTS = ("plan", "cost", "asked", "over", "claims")


#: Of forms that a value may have, the first is expected.
FORMS = r"claims\.children\.2\.at: is a list, expected an object"


def record(
    name: str, kind: type[FileRecord], document: Any, closed: tuple[str, ...] = ()
) -> Reader:
    """Return the reader of a record's file."""
    return Reader(
        name=name,
        document=lambda: document,
        read=kind.from_json,
        closed=closed,
        elsewhere={"fast": FORMS, "unknown": FORMS},
    )


READERS = (
    record("plan", Plan, PLAN),
    Reader(
        name="plan-checked",
        document=lambda: PLAN,
        read=lambda data: read_plan(data, ""),
        elsewhere={"512": "sequences: is empty, expected sequences"},
    ),
    record("result", Result, RESULT, closed=("plan",)),
    record("front", Front, FRONT, closed=PARTS),
    record("certificate", Certificate, CERTIFICATE, closed=PARTS),
    record("certificate-tree", TreeCertificate, TREE, closed=("plan", "over")),
    record("measured", Measured, MEASURED),
    record("whatif", Whatif, WHATIF, closed=PARTS),
    record("reasons", Reasons, REASONS, closed=PARTS),
)
