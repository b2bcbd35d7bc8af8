"""Makes a plan of what a runtime's files say, and prices it.

What the files leave open is decided as elsewhere in hetopt: the schedule gives the
warm-up counts, and every boundary has the cheapest resharding of the latency table.
``warm_ups`` chooses the plan's schedule: the problem's, the runtime's or ``free-1f1b``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from hetopt.base.words import counted
from hetopt.check import check_plan
from hetopt.check.plan.rules import mesh_findings
from hetopt.cost.build import build_table
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import CheckError, InputError
from hetopt.export.back.differences import stand_together
from hetopt.export.back.name_clusters import name_clusters
from hetopt.export.back.roomy_table import roomy_table
from hetopt.export.back.units import check_layers, chunk_ends, stage_units
from hetopt.export.back.warm_ups import scheduled
from hetopt.export.shared.architecture import shown
from hetopt.export.shared.losses import by_stage
from hetopt.formulations.decision import Decision
from hetopt.pricing.price import price
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.architecture import ARCHITECTURE_FIELDS
from hetopt.problem.model.stated import stated
from hetopt.problem.training.pins import Pins
from hetopt.problem.training.principles import Principles
from hetopt.results.priced_plan import PricedPlan
from hetopt.results.result import Result
from hetopt.results.settlement import Settlement
from hetopt.solvers.decisions.assembly import plan_of
from hetopt.solvers.race.merging import with_plans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.plans.plan import Plan
    from hetopt.plans.strategy import Strategy
    from hetopt.pricing.price import Price
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.principles import Sharing
    from hetopt.results.reported import Reported


#: Fields of ``problem.training.moe``, the dispatch of routed experts' tokens.
_DISPATCH = ("capacity", "node_dedup", "sent_by", "overlaps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """A plan from a runtime's files.

    Attributes
    ----------
    problem
        The problem, under the schedule of the plan.
    table
        The latency table of ``problem``.
    price
        What the plan costs; ``usable_bytes`` are the problem's.
    principles
        Those that the plan keeps.
    findings
        Why the plan is infeasible, as ``hetopt check`` reports it; empty if feasible.
    reported
        What the files say that hetopt does not know or cannot price.
    """

    problem: Problem
    table: CostTable
    plan: Plan
    price: Price
    principles: Principles
    findings: tuple[str, ...]
    reported: tuple[Reported, ...] = ()

    def result(self) -> Result:
        """Return the plan as a result that claims no bound."""
        table, pipeline = self.table, self.plan.pipeline
        without = Result(
            status="unknown",
            solver="import",
            best=None,
            lower_bound_s=None,
            gap=None,
            search_time_s=0.0,
            settlements=(
                Settlement(
                    stages=len(pipeline.stages),
                    microbatches=pipeline.microbatches,
                    how="unsettled",
                    bound_s=None,
                ),
            ),
            tokens_per_s=None,
            mfu=None,
            mfu_used=None,
            table_kinds=dict(zip(table.cluster_names, table.sources, strict=True)),
            relaxed=self.principles.relaxed,
            reported=self.reported,
        )
        return with_plans(without, [PricedPlan.of(self.plan, self.price)], table)


def import_plan(
    pipeline: PipelineReadBack,
    problem: Problem,
    read_table: Callable[[Problem], CostTable] | None = None,
) -> Imported:
    """Turn what files say into a plan of ``problem``, feasible or not, and price it.

    Parameters
    ----------
    read_table
        Reads the user's own table, given the problem under the plan's schedule. None
        to build the table.

    Raises
    ------
    InputError
        The files belong to another job, do not tell which cluster runs each stage, or
        ask for what no plan of hetopt can express or the user's table has no costs for.
    """
    _check_job(pipeline, problem)
    clusters = name_clusters(pipeline, problem)
    _check_meshes(pipeline, problem, clusters)
    _check_offload(pipeline, problem, clusters)
    ends = chunk_ends(pipeline, problem)
    problem, warmups = scheduled(pipeline, problem, clusters, ends)
    table = (read_table or build_table)(problem)
    strategies = [stage.strategy for stage in pipeline.stages]
    wanted = list(zip(clusters, strategies, strict=True))
    units = stage_units(pipeline, problem, ends)
    decision = decision_of(table, pipeline.microbatches, wanted, units, warmups)
    costs = table
    if missing := _missing(table, pipeline.microbatches, wanted):
        if read_table is not None:
            _refuse_missing(missing[0], pipeline.microbatches)
        costs = roomy_table(problem, [pipeline.microbatches], wanted)
    plan = replace(
        plan_of(decision, costs, table_digest(table)),
        problem_digest=problem_digest(problem),
    )
    usable = tuple(table.usable_bytes[table.cluster_names.index(c)] for c in clusters)
    principles = principles_of(plan)
    findings: tuple[str, ...] = ()
    try:
        check_plan(problem, table, plan, principles)
    except CheckError as error:
        findings = tuple(error.findings)
    return Imported(
        problem=problem,
        table=table,
        plan=plan,
        price=replace(price(plan, costs), usable_bytes=usable),
        principles=principles,
        findings=findings,
        reported=pipeline.reported,
    )


def _refuse_missing(wanted: tuple[str, Strategy], microbatches: int) -> NoReturn:
    name, strategy = wanted
    msg = (
        f"has no {strategy} on {name!r} with {microbatches} "
        "micro-batches, which the files ask for"
    )
    raise InputError(msg, field="--table")


def principles_of(plan: Plan) -> Principles:
    """Return all principles that a plan keeps."""
    own: dict[str, list[Strategy]] = {}
    for stage in plan.pipeline.stages:
        own.setdefault(stage.cluster, []).append(stage.strategy)
    sharing: Sharing = "any"
    if all(len(set(used)) == 1 for used in own.values()):
        sharing = "one"
    elif all(a.tp >= b.tp for used in own.values() for a, b in pairwise(used)):
        sharing = "falling-tp"
    consecutive = stand_together(plan.pipeline.stages)
    return Principles(consecutive=consecutive, sharing=sharing)


def _check_job(pipeline: PipelineReadBack, problem: Problem) -> None:
    """Raise InputError if the files belong to another model or training."""
    says = dict(pipeline.says)
    if says.get("zero") and _shard_alike(pipeline, problem):
        says.pop("shard_group", None)
    elif says.get("zero"):
        says.setdefault("shard_group", None)
    differences = {
        name: f"the files say {shown(value)}, the problem {shown(own)}"
        for name, value in says.items()
        for own in [_stated(problem, name)]
        if not _agrees(own, value) and not (name == "activation" and own is None)
    }
    if differences:
        first, *others = differences
        told = [f"{name}: {differences[name]}" for name in others]
        msg = "; ".join([differences[first], *told]) + ": correct the one that is wrong"
        raise InputError(msg, field=first)
    _check_zero(pipeline)
    if pipeline.layout is None and pipeline.cuts is None:
        check_layers(pipeline, problem)
    batch = problem.training.global_batch
    if batch % pipeline.microbatches:
        msg = (
            f"is {pipeline.microbatches}, expected a divisor of global_batch ({batch})"
        )
        raise InputError(msg, field="microbatches")


def _shard_alike(pipeline: PipelineReadBack, problem: Problem) -> bool:
    """Whether shards have as many copies by the files as by the problem."""
    said, own = pipeline.says.get("shard_group"), problem.training.shard_group
    experts = problem.model.experts is not None
    return all(
        each.strategy.shard_copies(said, experts=experts)
        == each.strategy.shard_copies(own, experts=experts)
        for each in pipeline.stages
    )


def _check_zero(pipeline: PipelineReadBack) -> None:
    """Raise InputError if stages shard their states differently."""
    zeros = [stage.strategy.zero for stage in pipeline.stages]
    found = [zero for zero in zeros if zero is not None]
    if found:
        msg = (
            f"is {by_stage(found)}, which hetopt cannot price: give all stages the "
            "same ZeRO stage"
        )
        raise InputError(msg, field="zero")


def _agrees(own: object, said: object) -> bool:
    """Whether a problem's value is the files', or one of several possible ones."""
    return own in said if isinstance(said, frozenset) else own == said


def _stated(problem: Problem, name: str) -> Any:
    """Return a problem's value of a field that files may state."""
    if name in ARCHITECTURE_FIELDS:
        return stated(problem.model, name)
    if name in _DISPATCH:
        return getattr(problem.training.moe, name)
    if name == "overlap_tensor":
        return bool(problem.training.overlap_tensor)
    of = problem.training if hasattr(problem.training, name) else problem.model
    return getattr(of, name)


def _check_meshes(
    pipeline: PipelineReadBack, problem: Problem, clusters: Sequence[str]
) -> None:
    """Raise InputError for a mesh that no plan can have, even without pins."""
    free = replace(
        problem, pins=Pins(), training=replace(problem.training, recompute={})
    )
    for number, (name, stage) in enumerate(zip(clusters, pipeline.stages, strict=True)):
        cluster = free.clusters[free.cluster_index(name)]
        for finding in mesh_findings(
            free, cluster, stage.strategy, pipeline.microbatches
        ):
            raise InputError(
                f"no plan can express this: {finding}", field=f"stage {number}"
            )
        if stage.strategy.devices > cluster.devices:
            msg = (
                f"needs {counted(stage.strategy.devices, 'device')}, cluster {name!r} "
                f"has {cluster.devices}"
            )
            raise InputError(msg, field=f"stage {number}")


def _check_offload(
    pipeline: PipelineReadBack, problem: Problem, clusters: Sequence[str]
) -> None:
    """Raise InputError if a stage's optimizer is elsewhere in files and problem."""
    for number, name in enumerate(clusters):
        own = problem.clusters[problem.cluster_index(name)].offload
        if own != pipeline.offload:
            msg = (
                f"the files of stage {number} say {pipeline.offload or 'none'}, the "
                f"problem {own or 'none'}: correct the one that is wrong"
            )
            raise InputError(msg, field=f"clusters.{name}.offload")


def decision_of(
    table: CostTable,
    microbatches: int,
    rows: Iterable[tuple[str, Strategy]],
    units: Sequence[int],
    warmups: tuple[int, ...] | None,
) -> Decision:
    """Return a decision from the cluster and the strategy of each stage.

    Parameters
    ----------
    units
        Units of each stage without embedding and head; pairs if it is folded.
    """
    runs = [(*key, len(list(run))) for key, run in groupby(rows)]
    ends = (0,) if table.pairs is not None else (0, len(units) - 1)
    return Decision(
        microbatches=microbatches,
        order=tuple(table.cluster_names.index(name) for name, _, _ in runs),
        strategies=tuple(strategy for _, strategy, _ in runs),
        hosted=tuple(count for _, _, count in runs),
        units=tuple(count + ends.count(number) for number, count in enumerate(units)),
        warmups=warmups,
    )


def _missing(
    table: CostTable, microbatches: int, wanted: Iterable[tuple[str, Strategy]]
) -> list[tuple[str, Strategy]]:
    """Return clusters and strategies that a table has no costs for."""
    parts = [part for part in table.slices if part.microbatches == microbatches]
    return [
        (name, strategy)
        for name, strategy in wanted
        if not parts
        or strategy not in parts[0].clusters[table.cluster_names.index(name)].strategies
    ]
