"""All JSON Schemas of what hetopt writes, by their names for ``hetopt schema``.

The problem file's schema comes from its reader (``hetopt.problem.schema.json_schema``).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hetopt.base.schema import json_schema
from hetopt.cost.table_file.records import TableFile
from hetopt.plans.plan import Plan
from hetopt.report.comparison.comparison import Comparison
from hetopt.report.explanation import ExplainedPlans
from hetopt.report.replanning import NextPlan
from hetopt.report.simulation import SimulatedPlan
from hetopt.report.whatif.reasons import Reasons
from hetopt.report.whatif.table import Whatif
from hetopt.results.certificate import Certificate, TreeCertificate
from hetopt.results.front import Front
from hetopt.results.result import Result
from hetopt.running.measured import Measured

if TYPE_CHECKING:
    from collections.abc import Mapping

SCHEMAS: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "result": json_schema(Result, "hetopt result"),
        "plan": json_schema(Plan, "hetopt plan"),
        "certificate": json_schema(Certificate, "hetopt certificate"),
        "certificate-tree": json_schema(
            TreeCertificate, "hetopt certificate of a search that branched"
        ),
        "table": json_schema(TableFile, "hetopt latency table"),
        "comparison": json_schema(Comparison, "hetopt comparison"),
        "explanation": json_schema(ExplainedPlans, "hetopt explanation"),
        "simulation": json_schema(SimulatedPlan, "hetopt simulation"),
        "measured": json_schema(Measured, "hetopt measured run"),
        "whatif": json_schema(Whatif, "hetopt what-if"),
        "front": json_schema(Front, "hetopt front"),
        "reasons": json_schema(Reasons, "hetopt reasons"),
        "replan": json_schema(NextPlan, "hetopt replan"),
    }
)
