"""hetopt: choose how to parallelise LLM training on a mixed cluster, with proof.

The names below are loaded when they are first used, so that ``import hetopt`` is fast
and loads no solver library.

>>> import hetopt
>>> result = hetopt.plan("problem.yaml")
>>> result.status
'optimal'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from hetopt.base.shown import Shown
from hetopt.errors import (
    CheckError,
    DigestError,
    HetoptError,
    InfeasibleError,
    InputError,
    SolverError,
)
from hetopt.version import __version__

if TYPE_CHECKING:
    from hetopt.cost.build import build_table
    from hetopt.cost.table.table import CostTable
    from hetopt.export.exporting import export_plan
    from hetopt.planning.plan import plan
    from hetopt.plans.plan import Pipeline, Plan, Stage
    from hetopt.plans.strategy import Strategy
    from hetopt.pricing.price import price
    from hetopt.problem.problem import Problem
    from hetopt.problem.reading import read_problem
    from hetopt.results.result import Result
    from hetopt.solvers.params import RaceParams

__all__ = [
    "CheckError",
    "CostTable",
    "DigestError",
    "HetoptError",
    "InfeasibleError",
    "InputError",
    "Pipeline",
    "Plan",
    "Problem",
    "RaceParams",
    "Result",
    "SolverError",
    "Stage",
    "Strategy",
    "__version__",
    "build_table",
    "export_plan",
    "plan",
    "price",
    "read_problem",
]

_HOMES = {
    "CostTable": "hetopt.cost.table.table",
    "Pipeline": "hetopt.plans.plan",
    "Plan": "hetopt.plans.plan",
    "Problem": "hetopt.problem.problem",
    "RaceParams": "hetopt.solvers.params",
    "Result": "hetopt.results.result",
    "Stage": "hetopt.plans.plan",
    "Strategy": "hetopt.plans.strategy",
    "build_table": "hetopt.cost.build",
    "export_plan": "hetopt.export.exporting",
    "plan": "hetopt.planning.plan",
    "price": "hetopt.pricing.price",
    "read_problem": "hetopt.problem.reading",
}

Shown.presenter = "hetopt.report.showing"


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        msg = f"module 'hetopt' has no attribute {name!r}"
        raise AttributeError(msg)
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
