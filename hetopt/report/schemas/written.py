"""All JSON Schemas of what hetopt writes, by their names for ``hetopt schema``.

The problem file's schema comes from its reader (``hetopt.problem.schema.json_schema``).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.report.schemas.certificate import CERTIFICATE, TREE_CERTIFICATE
from hetopt.report.schemas.plan import PLAN
from hetopt.report.schemas.replanning import REPLAN
from hetopt.report.schemas.reports import (
    COMPARISON,
    EXPLANATION,
    FRONT,
    REASONS,
    SIMULATION,
    WHATIF,
)
from hetopt.report.schemas.result import RESULT
from hetopt.report.schemas.runs import MEASURED
from hetopt.report.schemas.table import TABLE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.report.schemas.words import Schema

SCHEMAS: Mapping[str, Schema] = MappingProxyType(
    {
        "result": RESULT,
        "plan": PLAN,
        "certificate": CERTIFICATE,
        "certificate-tree": TREE_CERTIFICATE,
        "table": TABLE,
        "comparison": COMPARISON,
        "explanation": EXPLANATION,
        "simulation": SIMULATION,
        "measured": MEASURED,
        "whatif": WHATIF,
        "front": FRONT,
        "reasons": REASONS,
        "replan": REPLAN,
    }
)
