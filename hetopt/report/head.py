"""The head of a report: how fast and how sure, which plan, and what to do next."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from hetopt.base.words import command_line, counted
from hetopt.report.rounding import digits_of, large, rounded
from hetopt.report.rows import chain
from hetopt.report.summary import headline, named_schedule
from hetopt.results.spending import cost_of_time

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.plans.plan import Plan
    from hetopt.problem.facts import Accuracy
    from hetopt.problem.problem import Problem
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.results.result import Objective, Result

#: With more clusters, or more runs of equal stages, only their numbers are told.
_MOST_CLUSTERS, _MOST_RUNS = 3, 5
#: With more devices of one error, only their number is told.
_MOST_DEVICES = 3
_MEANT: Mapping[Objective, str] = {
    "closed": " in closed form",
    "cost": " in closed form",
    "uniap": " as UniAP counts",
}


def answer(
    result: Result,
    best: PricedPlan,
    errors: Mapping[str, Accuracy | None] | None = None,
) -> str:
    """Return the line on how fast the plan is and how sure that is.

    Parameters
    ----------
    errors
        By device; None for a device whose times were never compared with a run. Empty
        if the user gave the times. Without it nothing is said about errors.
    """
    time_s = best.time_s(result.objective)
    digits = time_digits(time_s, errors or {})
    taken = f"{rounded(time_s, digits)} s per iteration"
    parts = [taken + meant(result.objective)]
    if result.objective == "cost" and result.cost is not None:
        paid = cost_of_time(result.cost.per_hour or 0.0, time_s)
        parts = [f"{rounded(paid, digits)} an iteration", *parts]
    # Of the time that is minimised; the result has those of the simulation.
    scale = best.iteration_time_s / time_s
    if result.tokens_per_s is not None:
        parts.append(f"{large(result.tokens_per_s * scale, digits)} tokens/s")
    if result.mfu is not None:
        parts.append(f"MFU {result.mfu * scale:.0%}")
    line = f"{', '.join(parts)}: {headline(result)}"
    return line if errors is None else f"{line}; {errors_text(errors)}"


def meant(objective: Objective) -> str:
    """Return how a time is meant that no simulation gives; else nothing."""
    return _MEANT.get(objective, "")


def time_digits(time_s: float, errors: Mapping[str, Accuracy | None]) -> int:
    """Return how many digits of a time the errors of all devices leave."""
    known = [each.median for each in errors.values() if each is not None]
    return digits_of(time_s, max(known) if len(known) == len(errors) > 0 else None)


def errors_text(errors: Mapping[str, Accuracy | None]) -> str:
    """Return how far off the times of each device are."""
    if not errors:
        return "times as the table has them"
    devices: dict[str, list[str]] = {}
    for device, each in errors.items():
        off = "unknown" if each is None else f"{each.median:.0%}"
        devices.setdefault(off, []).append(device)
    if [*devices] == ["unknown"]:
        return f"times of {_listed(devices['unknown'])} never checked against a run"
    # Known errors first.
    told = sorted(devices.items(), key=lambda each: each[0] == "unknown")
    return "times off by " + ", ".join(f"{off} ({_listed(of)})" for off, of in told)


def _listed(devices: list[str]) -> str:
    if len(devices) > _MOST_DEVICES:
        return f"{len(devices)} types of devices"
    return ", ".join(devices)


def layout(plan: Plan) -> str:
    """Return the line on where the stages are, and how the batch passes them."""
    schedule = named_schedule(plan)
    if len(plan.pipelines) > 1:
        devices = counted(plan.devices, "device")
        return f"{len(plan.pipelines)} pipelines side by side, {devices}, {schedule}"
    pipeline = plan.pipeline
    stages = pipeline.stages
    clusters = {stage.cluster for stage in stages}
    runs = [key for key, _ in groupby((s.cluster, s.strategy) for s in stages)]
    if len(clusters) > _MOST_CLUSTERS or len(runs) > _MOST_RUNS:
        where = f"{counted(len(clusters), 'cluster')}, {counted(len(stages), 'stage')}"
    else:
        where = chain(plan)
    microbatches = counted(pipeline.microbatches, "micro-batch", "es")
    return f"{where}, {microbatches}, {schedule}"


def device_errors(
    problem: Problem, known: Mapping[str, Accuracy | None]
) -> dict[str, Accuracy | None]:
    """Return the errors of clusters by the names of their devices."""
    return {
        problem.clusters[problem.cluster_index(name)].accelerator.name: each
        for name, each in known.items()
    }


def next_command(
    problem: str, plan: str, launcher: str | None, table: str | None = None
) -> str:
    """Return the command that launches a plan, or checks it without a launcher.

    Parameters
    ----------
    problem
        As the user named it.
    plan
        The file of the plan.
    launcher
        One that runs the plan as it is; None if there is none.
    table
        The user's file of coefficients; None if not given.
    """
    given = [] if table is None else ["--table", table]
    if launcher is None:
        return command_line(["hetopt", "check", problem, plan, *given])
    out = ["--to", launcher, "--out", "bundle"]
    return command_line(["hetopt", "export", problem, plan, *given, *out])
