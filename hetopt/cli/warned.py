"""Warnings that are printed in addition to a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.output import complain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.export.launcher import Launcher
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result


def warn(
    problem: Problem, name: str, table: CostTable, result: Result, *, own_table: bool
) -> None:
    """Warn of what is unusual about the devices, their latencies and the result.

    Parameters
    ----------
    name
        As the user named the problem.
    """
    if result.best is None:
        return
    from hetopt.cost.sources.by_cluster import of_other_devices
    from hetopt.cost.sources.coverage import extrapolated
    from hetopt.report.utilisation import beyond_peak
    from hetopt.solvers.race.diagnosis import unusable

    warnings = [f"a cluster cannot be used: {why}" for why in unusable(problem, table)]
    training = problem.training
    warnings += [
        f"cluster {cluster.name!r}: {cluster.accelerator.name} has no "
        f"{training.precision}, its multiplications are priced at the rate of "
        f"{training.emulate}"
        for cluster in problem.clusters
        if cluster.accelerator.lacks(training.precision)
    ]
    if (wrong := beyond_peak(result)) is not None:
        warnings.append(f"the MFU is {wrong}")
    if not own_table:
        warnings += _of_unknown_devices(problem)
        warnings += of_other_devices(problem)
        warnings += extrapolated(problem, table, result.best.plan, name)
    complain(*(f"warning: {text}" for text in warnings))


def note(problem: Problem, plans: Sequence[Plan], target: Launcher) -> None:
    """Print what a launcher assumes of the clusters of some plans."""
    used = {name for plan in plans for name in plan.clusters}
    clusters = [each for each in problem.clusters if each.name in used]
    complain(*(f"note: {text}" for text in target.notes(clusters)))


def _of_unknown_devices(problem: Problem) -> list[str]:
    """Return one warning on all devices that are like none of the catalogue."""
    devices = [cluster.accelerator for cluster in problem.clusters]
    names = dict.fromkeys(
        each.name for each in devices if each.preset is None and each.like is None
    )
    if not names:
        return []
    return [
        f"{', '.join(names)}: the shares of their rates that devices reach are assumed "
        "where an accelerator has neither preset nor like: name the nearest device of "
        "`hetopt catalog`, as in {like: H100, ...}"
    ]
