"""Solvers by the names that users give them."""

from __future__ import annotations

from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.problem.principles import Principles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hetopt.problem.training import ScheduleName
    from hetopt.result import Result

#: Name -> ``module:function``; a solver's libraries load with its module.
SOLVERS: Mapping[str, str] = MappingProxyType(
    {
        "auto": "hetopt.solvers.auto:solve",
        "cp-sat": "hetopt.solvers.cp_sat:solve",
        "dp": "hetopt.solvers.dp.solver:solve",
        "milp": "hetopt.solvers.mip.milp:solve",
        "miqp-highs": "hetopt.solvers.mip.miqp:solve_highs",
        "miqp-scip": "hetopt.solvers.mip.miqp:solve_scip",
        "miqp-gurobi": "hetopt.solvers.mip.miqp:solve_gurobi",
        "uniap": "hetopt.solvers.uniap.solver:solve",
        "dfs": "hetopt.solvers.heuristics.dfs:solve",
        "uniform": "hetopt.solvers.heuristics.one_strategy:solve_uniform",
        "amp": "hetopt.solvers.heuristics.one_strategy:solve_amp",
        "metis": "hetopt.solvers.heuristics.metis:solve",
        "mcts": "hetopt.solvers.mcts.solver:solve",
        "mcts-guided": "hetopt.solvers.mcts.guided:solve",
    }
)

#: Solvers that can also search the space without P3 or P4.
WIDE = ("auto", "dp", "miqp-highs", "miqp-scip", "miqp-gurobi")
#: Solvers that choose warm-up counts as well.
FREE = ("auto", "cp-sat", "dp", "dfs", "uniform", "amp", "metis")
#: Solvers that look for good plans and settle no (p, q).
HEURISTICS = ("mcts", "mcts-guided", "dfs", "uniform", "amp", "metis")
#: Those that draw at random, so many times, more or less curious.
SAMPLING = ("mcts", "mcts-guided")
#: Heuristics whose plans need not keep all principles, and what they do keep: an
#: optimum of that space bounds them, one of the pruned space may not.
WIDER: Mapping[str, Principles] = MappingProxyType(
    {
        "dfs": Principles.relaxing(["p4-falling-tp"]),
        "metis": Principles.relaxing(["p4"]),
    }
)


def ensure_can(name: str, principles: Principles) -> None:
    """Raise InputError if a solver knows only the space that P3 and P4 prune."""
    if principles.relaxed and name not in WIDE:
        able = ", ".join(other for other in WIDE if other in SOLVERS)
        msg = f"solver {name} cannot relax {', '.join(principles.relaxed)}: use {able}"
        raise InputError(msg, field="--relax")


def ensure_plans(name: str, schedule: ScheduleName) -> None:
    """Raise InputError if a solver needs a schedule that prescribes warm-up counts."""
    if schedule != "auto":
        return
    if name not in FREE:
        msg = f"solver {name} cannot choose warm-up counts (auto): use dp or cp-sat"
        raise InputError(msg, field="--schedule")


def ensure_races(name: str, flag: str) -> None:
    """Raise InputError if an option of the race is given to a solver without one."""
    if name == "uniap" or name in HEURISTICS:
        msg = f"solver {name} does not race over (p, q): leave this out"
        raise InputError(msg, field=flag)


def ensure_samples(name: str, flag: str) -> None:
    """Raise InputError if an option of tree search is given to another solver."""
    if name not in SAMPLING:
        msg = f"solver {name} has none: this is for {', '.join(SAMPLING)}"
        raise InputError(msg, field=flag)


def load(name: str) -> Callable[..., Result]:
    """Return the ``solve`` function of a solver; KeyError if there is none."""
    module, _, function = SOLVERS[name].partition(":")
    solve: Callable[..., Result] = getattr(import_module(module), function)
    return solve
