"""Solvers by the names that users give them."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.result import Result

#: Name -> ``module:function``; a solver's libraries load with its module.
SOLVERS: Mapping[str, str] = MappingProxyType(
    {
        "cp-sat": "hetopt.solvers.cp_sat:solve",
        "milp": "hetopt.solvers.milp:solve",
        "miqp-highs": "hetopt.solvers.miqp:solve_highs",
        "miqp-scip": "hetopt.solvers.miqp:solve_scip",
        "miqp-gurobi": "hetopt.solvers.miqp:solve_gurobi",
    }
)


def load(name: str) -> Callable[..., Result]:
    """Return the ``solve`` function of a solver; KeyError if there is none."""
    module, _, function = SOLVERS[name].partition(":")
    solve: Callable[..., Result] = getattr(import_module(module), function)
    return solve
