"""Problems, tables, plans and results as one line, as text and as HTML."""

from __future__ import annotations

import sys
from functools import singledispatch
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cost.parameter_counts import parameter_counts
from hetopt.cost.table.table import CostTable
from hetopt.plans.plan import Plan
from hetopt.problem.problem import Problem
from hetopt.report.drawing.html import html
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.head import answer, layout
from hetopt.report.plan_report import BYTES_PER_GB, plan_report, stage_tables
from hetopt.report.result_report import result_report
from hetopt.report.summary import headline, named_schedule, offloads
from hetopt.results.result import Result

if TYPE_CHECKING:
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.training import Training
    from hetopt.report.drawing.sheet import Part

#: Digits of a digest that are shown.
_DIGITS = 12


def line(shown: object) -> str:
    """Return a description of an object in one line."""
    return f"<{type(shown).__name__}: {_line(shown)}>"


def text(shown: object) -> str:
    """Return the report on an object as text that fits the terminal."""
    from hetopt.report.drawing.console import draw

    return draw(_parts(shown), sys.stdout, coloured=False).rstrip("\n")


def notebook(shown: object) -> str:
    """Return the report on an object as HTML."""
    return html(_parts(shown))


@singledispatch
def _line(shown: object) -> str:
    raise NotImplementedError(type(shown))


@singledispatch
def _parts(shown: object) -> list[Part]:
    raise NotImplementedError(type(shown))


@_line.register(Plan)
def _(plan: Plan) -> str:
    return layout(plan)


@_parts.register(Plan)
def _(plan: Plan) -> list[Part]:
    return [
        layout(plan),
        "",
        *stage_tables(plan),
        labelled([("problem", plan.problem_digest[:_DIGITS])]),
    ]


@_line.register(Result)
def _(result: Result) -> str:
    if result.best is None:
        return f"{result.status}: {headline(result)}"
    return f"{answer(result, result.best)}, by {result.solver}"


@_parts.register(Result)
def _(result: Result) -> list[Part]:
    if result.best is None:
        return [headline(result)]
    if result.problem is None or result.table is None:
        return plan_report(result, result.best)
    return result_report(result.problem, result.table, result, following=_following)


def _following(launcher: str | None) -> str:
    """Return the line on what to do next, in Python."""
    if launcher is None:
        return ""
    return f'next: hetopt.export_plan(result, to="{launcher}", out="bundle")'


@_line.register(CostTable)
def _(table: CostTable) -> str:
    sources = ", ".join(
        f"{name} {source}"
        for name, source in zip(table.cluster_names, table.sources, strict=True)
    )
    return (
        f"{sources}; {counted(len(table.units), 'unit')}, "
        f"{counted(len(table.slices), 'micro-batch count')}, "
        f"{sum(_strategies(table)):,} strategies, "
        f"schedule {named_schedule(table)}, "
        f"problem {table.problem_digest[:_DIGITS]}"
    )


@_parts.register(CostTable)
def _(table: CostTable) -> list[Part]:
    rows = zip(
        table.cluster_names,
        table.sources,
        table.cluster_devices,
        (f"{size / BYTES_PER_GB:.1f}" for size in table.usable_bytes),
        (f"{flops / 1e12:g}" for flops in table.peak_flops),
        (f"{number:,}" for number in _strategies(table)),
        strict=True,
    )
    counts = ", ".join(str(part.microbatches) for part in table.slices)
    return [
        sheet(
            (
                "cluster",
                "latencies",
                "devices",
                "usable GB",
                "peak TFLOP/s",
                "strategies",
            ),
            rows,
            left=("cluster", "latencies"),
        ),
        labelled(
            (
                ("units", f"{len(table.units)} of {', '.join(table.kinds)}"),
                ("micro-batches", counts or "none: nothing fits"),
                ("schedule", named_schedule(table)),
                ("tokens", f"{table.tokens:,} an iteration"),
                ("problem", table.problem_digest[:_DIGITS]),
            )
        ),
    ]


def _strategies(table: CostTable) -> list[int]:
    """Return the number of each cluster's strategies, over all micro-batch counts."""
    return [
        sum(len(part.clusters[number].strategies) for part in table.slices)
        for number in range(len(table.cluster_names))
    ]


@_line.register(Problem)
def _(problem: Problem) -> str:
    training = problem.training
    clusters = " + ".join(
        f"{cluster.devices} {cluster.name}" for cluster in problem.clusters
    )
    return (
        f"{problem.name}: {problem.model.name} on {clusters}, "
        f"{counted(training.global_batch, 'sequence')} of {training.seq_len} tokens, "
        f"schedule {named_schedule(training)}"
    )


def _precision(training: Training) -> str:
    """Return a training's precision and its options that are not the default."""
    parts: list[str] = [training.precision]
    if training.emulate is not None:
        parts.append(f"emulated in {training.emulate} where a device lacks it")
    if not training.sequence_parallel:
        parts.append("no sequence parallelism")
    for name in ("attention", "cross_entropy"):
        if getattr(training, name) == "unfused":
            parts.append(f"unfused {name.replace('_', ' ')}")
    if training.gradients != "fp32":
        parts.append(f"gradients in {training.gradients}")
    if training.moe.overlap:
        parts.append(f"{training.moe.overlap:.0%} of all-to-alls hidden")
    return ", ".join(parts)


def _groups(training: Training) -> str:
    """Return how many ranks share ZeRO's shards in words, if not all."""
    group = training.shard_group
    return "" if group is None else f" in groups of {group}"


def _experts(model: Model) -> str:
    """Return the total and active parameters in words; empty without experts."""
    if model.experts is None:
        return ""
    counts = parameter_counts(model)
    total, active = counts.total / 1e9, counts.active / 1e9
    return (
        f", {total:.2f} billion parameters of which {active:.2f} are active "
        "(token tables counted)"
    )


@_parts.register(Problem)
def _(problem: Problem) -> list[Part]:
    model, training = problem.model, problem.training
    return [
        sheet(
            (
                "cluster",
                "accelerator",
                "nodes",
                "devices per node",
                "memory GB",
                "latencies",
            ),
            (
                (
                    cluster.name,
                    cluster.accelerator.name,
                    cluster.nodes,
                    " and ".join(str(size) for size, _ in cluster.sizes),
                    f"{cluster.memory_bytes / BYTES_PER_GB:.1f}",
                    problem.latency.get(cluster.name, "auto"),
                )
                for cluster in problem.clusters
            ),
            left=("cluster", "accelerator", "latencies"),
        ),
        labelled(
            (
                ("problem", problem.name),
                (
                    "model",
                    f"{model.name}, {counted(model.layers, 'layer')}, "
                    f"{counted(len(model.units), 'unit')}{_experts(model)}",
                ),
                (
                    "training",
                    f"{counted(training.global_batch, 'sequence')} of "
                    f"{training.seq_len} tokens, {_precision(training)}, "
                    f"{training.optimizer}, ZeRO {training.zero}{_groups(training)}, "
                    f"schedule {named_schedule(training)}",
                ),
                *([("launcher", problem.launcher)] if problem.launcher else []),
            )
        ),
        *offloads(problem.clusters),
    ]
