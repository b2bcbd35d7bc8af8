"""Solvers by name, hetopt's own and those of users."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from hetopt.base.plugins import Plugins
from hetopt.base.words import suggest
from hetopt.errors import InputError
from hetopt.problem.training.principles import PRUNED, Principles

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.training.principles import Relaxable
    from hetopt.solvers.request import Solve


#: Compiled functions that are compiled together; see ``hetopt.solvers.kernels``.
KernelSetName = Literal[
    "bounds", "dp", "simulated", "free warm-ups", "tree", "verification"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solver:
    """What hetopt has to know about a solver.

    Attributes
    ----------
    name
        The name that users give to ``--solver``.
    home
        Its ``solve`` function (``hetopt.solvers.request.Solve``), or where it is,
        ``module:function``, so that the libraries of a solver load only when used.
    races
        Whether it settles every (p, q): such a solver writes certificates and
        journals, and plans within a launcher's limits.
    proves
        Whether it can prove that a plan is optimal; if not, it is a heuristic.
    relaxes
        Whether it can also search the space without P3 or P4.
    blocks
        Whether it supports schedules in which stages wait for transfers.
    interleaves
        Whether it supports schedules whose stages hold several chunks of the model.
    splits
        Whether it supports schedules that run gradients of weights later.
    samples
        Whether it samples at random, ``--iterations`` times.
    kernels
        Compiled functions that it calls; see ``hetopt.solvers.kernels``.
    every_cluster
        Whether its paper gives every cluster stages. Comparisons also run it that way.
    space
        Principles that the plans of a heuristic keep. Only a bound on that space is a
        bound on its plans; one on the pruned space may not be.
    """

    name: str
    home: str | Solve
    races: bool = False
    proves: bool = False
    relaxes: bool = False
    blocks: bool = False
    interleaves: bool = False
    splits: bool = False
    samples: bool = False
    kernels: tuple[KernelSetName, ...] = ()
    every_cluster: bool = False
    space: Principles = PRUNED

    def load(self) -> Solve:
        """Return the ``solve`` function."""
        if not isinstance(self.home, str):
            return self.home
        module, _, function = self.home.partition(":")
        solve: Solve = getattr(import_module(module), function)
        return solve


def _race(
    name: str,
    home: str,
    *,
    relaxes: bool = False,
    steps: bool = False,
    kernels: tuple[KernelSetName, ...] = ("bounds",),
) -> Solver:
    """Return a racing solver; ``steps``: it blocks, interleaves and splits."""
    return Solver(
        name=name,
        home=f"hetopt.solvers.{home}",
        races=True,
        proves=True,
        relaxes=relaxes,
        blocks=steps,
        interleaves=steps,
        splits=steps,
        kernels=kernels,
    )


#: Kernels of searches with the dynamic program.
_DP: tuple[KernelSetName, ...] = ("bounds", "dp")

_ALL = (
    _race("auto", "auto:solve", relaxes=True, steps=True, kernels=_DP),
    _race("cp-sat", "cp_sat:solve", steps=True),
    _race("dp", "dp.solver:solve", relaxes=True, steps=True, kernels=_DP),
    _race("milp", "mip.milp:solve", steps=True),
    _race("miqp-highs", "mip.miqp:solve_highs", relaxes=True),
    _race("miqp-scip", "mip.miqp:solve_scip", relaxes=True),
    _race("miqp-gurobi", "mip.miqp:solve_gurobi", relaxes=True),
    Solver(name="uniap", home="hetopt.solvers.uniap.solver:solve", proves=True),
    Solver(
        name="dfs",
        home="hetopt.solvers.heuristics.dfs:solve",
        kernels=("bounds",),
        space=Principles.relaxing(["p4-falling-tp"]),
    ),
    Solver(
        name="uniform",
        home="hetopt.solvers.heuristics.one_strategy:solve_uniform",
        kernels=_DP,
        every_cluster=True,
    ),
    Solver(
        name="amp",
        home="hetopt.solvers.heuristics.one_strategy:solve_amp",
        kernels=_DP,
        every_cluster=True,
    ),
    Solver(
        name="metis",
        home="hetopt.solvers.heuristics.metis:solve",
        kernels=("bounds",),
        space=Principles.relaxing(["p4"]),
    ),
    Solver(
        name="mcts",
        home="hetopt.solvers.mcts.solver:solve",
        samples=True,
        kernels=("bounds", "tree"),
    ),
    Solver(
        name="mcts-guided",
        home="hetopt.solvers.mcts.guided:solve",
        samples=True,
        kernels=("bounds", "tree"),
    ),
)
#: hetopt's solvers by name.
SOLVERS: Mapping[str, Solver] = MappingProxyType({each.name: each for each in _ALL})
#: Solvers of users; packages declare theirs in this group in pyproject.toml.
OWN = Plugins("hetopt.solvers", Solver, SOLVERS)


def register_solver(own: Solver) -> None:
    """Add a solver for this process; one of the same name is replaced.

    Raises
    ------
    InputError
        One of hetopt's own solvers has this name.
    """
    OWN.register(own)


def solver_names() -> tuple[str, ...]:
    """Return the names of all solvers, hetopt's first."""
    return tuple(dict.fromkeys((*SOLVERS, *OWN.names())))


def solver(name: str, field: str = "--solver") -> Solver:
    """Return a solver by name.

    Parameters
    ----------
    field
        Where the user named it.

    Raises
    ------
    InputError
        No solver has this name, or the package that declares it does not provide it.
    """
    found = SOLVERS.get(name) or OWN.find(name)
    if found is not None:
        return found
    known = solver_names()
    hint = suggest(name, known)
    msg = f"there is no solver {name!r}{hint}, expected one of {', '.join(known)}"
    raise InputError(msg, field=field)


def relaxed_by(name: str, principles: Principles) -> tuple[Relaxable, ...]:
    """Return what plans of a solver may break: what is asked, or what it relaxes."""
    return principles.relaxed or solver(name).space.relaxed


def relaxing_names() -> str:
    """Return the names of hetopt's solvers that can relax principles, in one text."""
    return ", ".join(each.name for each in _ALL if each.relaxes)


def sampling_names() -> str:
    """Return the names of hetopt's solvers that sample at random, in one text."""
    return ", ".join(each.name for each in _ALL if each.samples)
