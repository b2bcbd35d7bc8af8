"""Refuse in one line what a solver cannot do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.problem.cluster.filling import fills_by_sum
from hetopt.problem.cluster.packing import fits_by_limits
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.registry import SOLVERS, relaxing_names, sampling_names, solver

if TYPE_CHECKING:
    from collections.abc import Collection

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.problem.training.principles import Principles

#: What a schedule may need: its rule's field, the solver's, and words for it.
_NEEDS = (
    ("blocking", "blocks", "blocking transfers"),
    ("interleaved", "interleaves", "several chunks per stage"),
    ("splits", "splits", "separate gradients of weights"),
)


def ensure_can(name: str, principles: Principles) -> None:
    """Raise InputError if a solver cannot relax P3 or P4 as asked."""
    if principles.relaxed and not solver(name).relaxes:
        able = relaxing_names()
        msg = f"solver {name} cannot relax {', '.join(principles.relaxed)}: use {able}"
        raise InputError(msg, field="relax")


def ensure_can_simulate(name: str) -> None:
    """Raise InputError if the least simulated time cannot be searched with a solver."""
    if name == "uniap":
        msg = f"is {name}, which has an objective of its own: leave one of both out"
        raise InputError(msg, field="solver")
    if not solver(name).proves:
        msg = (
            f"is {name}, but the search for the least simulated time starts from a "
            "proven optimum in closed form: use auto or dp"
        )
        raise InputError(msg, field="solver")


def can_plan(name: str, schedule: ScheduleName) -> bool:
    """Whether a solver supports a schedule."""
    try:
        ensure_plans(name, schedule)
    except InputError:
        return False
    return True


def ensure_plans(name: str, schedule: ScheduleName, *, closed: bool = True) -> None:
    """Raise InputError if a solver does not support a schedule.

    Parameters
    ----------
    closed
        Whether the closed form is to be minimised, rather than the simulated time.
    """
    if closed and rule_of(schedule).free:
        msg = (
            f"{schedule} leaves warm-up counts to hetopt plan --objective simulated: "
            "use that, or a schedule that prescribes them"
        )
        raise InputError(msg, field="training.schedule")
    for need, ability, what in _NEEDS:
        if getattr(rule_of(schedule), need) and not getattr(solver(name), ability):
            able = ", ".join(x.name for x in SOLVERS.values() if getattr(x, ability))
            msg = f"solver {name} does not support {what} ({schedule}): use {able}"
            raise InputError(msg, field="training.schedule")


def ensure_keeps(schedule: ScheduleName, principles: Principles) -> None:
    """Raise InputError if a schedule needs P3 and P4, but one is relaxed."""
    rule = rule_of(schedule)
    if (rule.interleaved or rule.splits) and principles.relaxed:
        msg = f"has no program under {schedule}: leave it out, or name another schedule"
        raise InputError(msg, field="relax")


def ensure_packs(problem: Problem, table: CostTable, principles: Principles) -> None:
    """Raise InputError if counting devices does not show whether stages fit the nodes.

    Without P4, stages have several sizes. Programs count the devices of a cluster, and
    those of its stages of at least a given size (``ProgramData.stock``).
    """
    if principles.sharing == "one":
        return
    for j, cluster in enumerate(problem.clusters):
        strategies = (
            own for part in table.slices for own in part.clusters[j].strategies
        )
        ensure_fills(cluster, {(own.devices, own.inside) for own in strategies})


def ensure_fills(cluster: Cluster, stages: Collection[tuple[int, int]]) -> None:
    """Raise InputError if counting does not show whether stages fit a cluster's nodes.

    Parameters
    ----------
    stages
        Devices of each stage, and those that have to be inside one node.
    """
    sizes = sorted({devices for devices, _ in stages})
    if fills_by_sum(cluster, sizes) or fits_by_limits(cluster, stages):
        return
    nodes = " and ".join(str(size) for size, _ in cluster.sizes)
    msg = (
        f"cannot count stages of {', '.join(map(str, sizes))} devices "
        f"in nodes of {nodes} (cluster {cluster.name!r}): without P4 each size "
        "has to divide the next; forbid others by "
        f"pin.forbid.clusters.{cluster.name}.dp"
    )
    raise InputError(msg, field="relax")


def ensure_races(name: str, flag: str) -> None:
    """Raise InputError if an option of the race is given to a solver without one."""
    if not solver(name).races:
        msg = f"solver {name} does not race over (p, q): leave this out"
        raise InputError(msg, field=flag)


def ensure_samples(name: str, flag: str) -> None:
    """Raise InputError if an option of tree search is given to another solver."""
    if not solver(name).samples:
        msg = f"solver {name} does not use this option: it is for {sampling_names()}"
        raise InputError(msg, field=flag)
