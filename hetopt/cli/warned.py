"""Warnings that are printed in addition to a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.output import complain

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result


def warn(
    problem: Problem, table: CostTable, result: Result, *, own_table: bool
) -> None:
    """Warn of unusable clusters, unknown devices and latencies that do not fit."""
    if result.best is None:
        return
    from hetopt.cost.sources.by_cluster import far_outside, of_other_devices
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
        warnings += far_outside(problem, result.best.plan)
    complain(*(f"warning: {text}" for text in warnings))


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
