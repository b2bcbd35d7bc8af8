"""Solvers by the names that users give them, hetopt's and the users' own."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.plugins import Plugins
from hetopt.problem.packing import fills_by_sum, fits_by_limits
from hetopt.problem.principles import PRUNED, Principles
from hetopt.schedule.schedules import rule_of
from hetopt.words import suggest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.cost.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.problem.training import ScheduleName
    from hetopt.solvers.request import Solve


@dataclass(frozen=True, slots=True, kw_only=True)
class Solver:
    """What hetopt has to know of a solver.

    Attributes
    ----------
    name
        What users call it by.
    home
        Its ``solve`` function (``hetopt.solvers.request.Solve``), or where it is,
        ``module:function``: a solver's libraries load with its module.
    races
        Whether it settles every (p, q): such a solver writes certificates and
        journals, and plans within a launcher's limits.
    proves
        Whether it ever says that a plan is optimal; if not, it is a heuristic.
    relaxes
        Whether it can also search the space without P3 or P4.
    frees_warmups
        Whether it chooses warm-up counts as well (schedule ``auto``).
    blocks
        Whether it knows schedules whose transfers keep stages waiting.
    interleaves
        Whether it knows schedules whose stages hold several chunks of the model.
    splits
        Whether it knows schedules that run gradients of weights later.
    samples
        Whether it draws at random, as often as ``--iterations`` says.
    space
        What the plans of a heuristic keep. An optimum of that space bounds them; one
        of the pruned space may not.
    """

    name: str
    home: str | Solve
    races: bool = False
    proves: bool = False
    relaxes: bool = False
    frees_warmups: bool = False
    blocks: bool = False
    interleaves: bool = False
    splits: bool = False
    samples: bool = False
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
    frees: bool = False,
    steps: bool = False,
) -> Solver:
    """Return a solver that races; ``steps``: it has each program's rows, or labels."""
    return Solver(
        name=name,
        home=f"hetopt.solvers.{home}",
        races=True,
        proves=True,
        relaxes=relaxes,
        frees_warmups=frees,
        blocks=steps,
        interleaves=steps,
        splits=steps,
    )


_ALL = (
    _race("auto", "auto:solve", relaxes=True, frees=True, steps=True),
    _race("cp-sat", "cp_sat:solve", frees=True, steps=True),
    _race("dp", "dp.solver:solve", relaxes=True, frees=True, steps=True),
    _race("milp", "mip.milp:solve", steps=True),
    _race("miqp-highs", "mip.miqp:solve_highs", relaxes=True),
    _race("miqp-scip", "mip.miqp:solve_scip", relaxes=True),
    _race("miqp-gurobi", "mip.miqp:solve_gurobi", relaxes=True),
    Solver(name="uniap", home="hetopt.solvers.uniap.solver:solve", proves=True),
    Solver(
        name="dfs",
        home="hetopt.solvers.heuristics.dfs:solve",
        frees_warmups=True,
        space=Principles.relaxing(["p4-falling-tp"]),
    ),
    Solver(
        name="uniform",
        home="hetopt.solvers.heuristics.one_strategy:solve_uniform",
        frees_warmups=True,
    ),
    Solver(
        name="amp",
        home="hetopt.solvers.heuristics.one_strategy:solve_amp",
        frees_warmups=True,
    ),
    Solver(
        name="metis",
        home="hetopt.solvers.heuristics.metis:solve",
        frees_warmups=True,
        space=Principles.relaxing(["p4"]),
    ),
    Solver(name="mcts", home="hetopt.solvers.mcts.solver:solve", samples=True),
    Solver(name="mcts-guided", home="hetopt.solvers.mcts.guided:solve", samples=True),
)
#: hetopt's solvers by name.
SOLVERS: Mapping[str, Solver] = MappingProxyType({each.name: each for each in _ALL})
#: Solvers of users; packages name theirs under this group in pyproject.toml.
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
        There is none of this name, or the package that names it does not provide it.
    """
    found = SOLVERS.get(name) or OWN.find(name)
    if found is not None:
        return found
    known = solver_names()
    hint = suggest(name, known)
    msg = f"there is no solver {name!r}{hint}, expected one of {', '.join(known)}"
    raise InputError(msg, field=field)


def relaxing_names() -> str:
    """Return hetopt's solvers that can relax principles, as a list in words."""
    return ", ".join(each.name for each in _ALL if each.relaxes)


def sampling_names() -> str:
    """Return hetopt's solvers that draw at random, as a list in words."""
    return ", ".join(each.name for each in _ALL if each.samples)


def ensure_can(name: str, principles: Principles) -> None:
    """Raise InputError if a solver knows only the space that P3 and P4 prune."""
    if principles.relaxed and not solver(name).relaxes:
        able = relaxing_names()
        msg = f"solver {name} cannot relax {', '.join(principles.relaxed)}: use {able}"
        raise InputError(msg, field="--relax")


def ensure_plans(name: str, schedule: ScheduleName) -> None:
    """Raise InputError if a solver does not know a schedule of this kind."""
    if rule_of(schedule).blocking and not solver(name).blocks:
        able = ", ".join(each.name for each in _ALL if each.blocks)
        msg = f"solver {name} has no transfers that block ({schedule}): use {able}"
        raise InputError(msg, field="training.schedule")
    if rule_of(schedule).interleaved and not solver(name).interleaves:
        able = ", ".join(each.name for each in _ALL if each.interleaves)
        msg = f"solver {name} has no stages of several chunks ({schedule}): use {able}"
        raise InputError(msg, field="training.schedule")
    if rule_of(schedule).splits and not solver(name).splits:
        able = ", ".join(each.name for each in _ALL if each.splits)
        msg = f"solver {name} has no weights' gradients apart ({schedule}): use {able}"
        raise InputError(msg, field="training.schedule")
    if rule_of(schedule).free and not solver(name).frees_warmups:
        msg = (
            f"solver {name} cannot choose warm-up counts ({schedule}): use dp or cp-sat"
        )
        raise InputError(msg, field="training.schedule")


def ensure_keeps(schedule: ScheduleName, principles: Principles) -> None:
    """Raise InputError if a schedule is only known where P3 and P4 are kept."""
    rule = rule_of(schedule)
    if (rule.interleaved or rule.splits) and principles.relaxed:
        msg = f"does not go with {schedule}: leave it out, or name another schedule"
        raise InputError(msg, field="--relax")


def ensure_packs(problem: Problem, table: CostTable, principles: Principles) -> None:
    """Raise InputError if it takes more than counting to pack stages into nodes.

    Without P4 they are of several sizes; programs count a cluster's devices, and those
    of stages of at least so many (``ProgramData.stock``).
    """
    if principles.sharing == "one":
        return
    for j, cluster in enumerate(problem.clusters):
        stages = {
            (own.devices, own.inside)
            for part in table.slices
            for own in part.clusters[j].strategies
        }
        sizes = sorted({devices for devices, _ in stages})
        if fills_by_sum(cluster, sizes) or fits_by_limits(cluster, stages):
            continue
        nodes = " and ".join(str(size) for size, _ in cluster.sizes)
        msg = (
            f"does not go with stages of {', '.join(map(str, sizes))} devices in "
            f"nodes of {nodes} (cluster {cluster.name!r}): without P4 each size has to "
            f"divide the next; forbid others by pin.forbid.clusters.{cluster.name}.dp"
        )
        raise InputError(msg, field="--relax")


def ensure_races(name: str, flag: str) -> None:
    """Raise InputError if an option of the race is given to a solver without one."""
    if not solver(name).races:
        msg = f"solver {name} does not race over (p, q): leave this out"
        raise InputError(msg, field=flag)


def ensure_samples(name: str, flag: str) -> None:
    """Raise InputError if an option of tree search is given to another solver."""
    if not solver(name).samples:
        msg = f"solver {name} has none: this is for {sampling_names()}"
        raise InputError(msg, field=flag)
