"""Price a plan by a latency table: memory, and both iteration times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.words import counted
from hetopt.cost.chunks import held_by_kind, with_waiting
from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import InputError
from hetopt.pricing.stages import (
    Place,
    chunks_of,
    fold_of,
    held_bytes,
    one_pass_bytes,
    stage_memory_bytes,
    stage_recompute_ns,
    stage_sync_ns,
    stage_weight_ns,
)
from hetopt.pricing.uneven import uneven_bytes, uneven_times
from hetopt.pricing.units import UnitPrice
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.period import check_warmups_fall
from hetopt.schedule.run import simulate
from hetopt.schedule.shares import sharing_of
from hetopt.schedule.times import PipelineTimes

if TYPE_CHECKING:
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Pipeline, Plan, Stage


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """Times and memory of a plan of p stages.

    Attributes
    ----------
    times
        Times of the pipeline, with the plan's warm-up counts.
    closed_form_s, iteration_time_s
        Iteration time by formula and by simulation, in seconds.
    idle_share
        Idle share of each stage in the simulation; length p.
    memory_bytes, usable_bytes
        Needed and available per device of each stage; length p. A plan that does
        not fit has a price, too.
    activation_bytes
        Part of ``memory_bytes`` for one micro-batch in flight, or for one pass without
        the units at the ends of the model (of folded stages, on average); length p.
    recompute_ns
        Part of each stage's backward time that recomputes activations: the difference
        to the time without recomputation. None if the table has no such time, or a
        longer one. Length p.
    uniap_s
        UniAP's objective in seconds; None if each stage has one strategy.
    end_bytes
        Part of ``memory_bytes`` for activations that ``activation_bytes`` leaves out,
        or that wait for gradients of weights; length p, or 0 if units have their own
        strategies.
    """

    times: PipelineTimes
    closed_form_s: float
    iteration_time_s: float
    idle_share: tuple[float, ...]
    memory_bytes: tuple[int, ...]
    usable_bytes: tuple[int, ...]
    activation_bytes: tuple[int, ...]
    recompute_ns: tuple[int | None, ...]
    uniap_s: float | None = None
    end_bytes: tuple[int, ...] = ()


def price(plan: Plan, table: CostTable) -> Price:
    """Return memory and both iteration times of a plan.

    Warm-up counts are taken from the plan, not from its schedule.

    Raises
    ------
    InputError
        The plan has several pipelines, names something that the table lacks, does not
        cover every unit once, or deadlocks.

    Examples
    --------
    >>> import hetopt
    >>> problem = hetopt.read_problem("problem.yaml")
    >>> table = hetopt.build_table(problem)
    >>> best = hetopt.plan(problem, table=table).best
    >>> price = hetopt.price(best.plan, table)
    >>> abs(price.closed_form_s - best.closed_form_s) < 1e-9
    True
    >>> all(m <= u for m, u in zip(price.memory_bytes, price.usable_bytes))
    True
    """
    if plan.per_unit:
        units = _unit_price(plan, table)
        return Price(
            **run_of(units.times),
            memory_bytes=units.memory_bytes,
            usable_bytes=table.usable_bytes * len(units.memory_bytes),
            activation_bytes=units.activation_bytes,
            recompute_ns=units.recompute_ns,
            uniap_s=units.uniap_ns * TICK_S,
        )
    part, places = _locate(plan, table)
    times, body = _times(plan, table, part, places), np.array(table.body)
    if table.layout is not None:
        return _uneven_price(times, table, places)
    passing = one_pass_bytes(times, table, places)
    every = [*zip(places, held_by_kind(times, body), strict=True)]
    resting = with_waiting(part, ~body, len(places)).clusters
    at_rest = [place._replace(table=resting[place.cluster]) for place in places]
    return Price(
        **run_of(times),
        memory_bytes=tuple(
            stage_memory_bytes(place, held)
            for place, (_, held) in zip(at_rest, every, strict=True)
        ),
        end_bytes=tuple(
            held_bytes(there, held)
            - held_bytes(own, np.zeros_like(held))
            - passes * one_pass
            for there, (own, held), passes, one_pass in zip(
                at_rest, every, times.passes_held, passing, strict=True
            )
        ),
        usable_bytes=tuple(table.usable_bytes[place.cluster] for place in places),
        activation_bytes=passing,
        recompute_ns=tuple(map(stage_recompute_ns, places)),
    )


def _uneven_price(
    times: PipelineTimes, table: CostTable, places: tuple[Place, ...]
) -> Price:
    """Price stages whose chunks differ."""
    found = [
        uneven_bytes(table, times.microbatches, i, place[:3])
        for i, place in enumerate(places)
    ]
    both = zip(found, times.passes_held, strict=True)
    passing = [divmod(active, held) for (_, active), held in both]
    return Price(
        **run_of(times),
        memory_bytes=tuple(whole for whole, _ in found),
        usable_bytes=tuple(table.usable_bytes[place.cluster] for place in places),
        # Of a pass in the mean; chunks hold several at the same time.
        activation_bytes=tuple(each for each, _ in passing),
        end_bytes=tuple(rest for _, rest in passing),
        recompute_ns=tuple(map(stage_recompute_ns, places)),
    )


def run_of(times: PipelineTimes) -> dict[str, Any]:
    """Return the fields of a ``Price`` that follow from its times alone."""
    simulation = simulate(times)
    return {
        "times": times,
        "closed_form_s": float(closed_form_ns(times)) * TICK_S,
        "iteration_time_s": simulation.makespan_ns * TICK_S,
        "idle_share": simulation.idle_share,
    }


def pipeline_times(plan: Plan, table: CostTable) -> PipelineTimes:
    """Return the times of a plan's pipeline (MODEL.md section 3).

    Raises
    ------
    InputError
        As ``price``.
    """
    if plan.per_unit:
        return _unit_price(plan, table).times
    return _times(plan, table, *_locate(plan, table))


def _unit_price(plan: Plan, table: CostTable) -> UnitPrice:
    """Price a plan whose units have their own strategies."""
    pipeline = _only_pipeline(plan)
    expected = 0
    for number, stage in enumerate(pipeline.stages):
        field = f"pipelines.0.stages.{number}"
        _check_units(stage, expected, len(table.units), field)
        _check_warmup(stage, field)
        expected = stage.end_unit
    _check_end(expected, table)
    return UnitPrice(plan, table)


def _only_pipeline(plan: Plan) -> Pipeline:
    if len(plan.pipelines) != 1:
        msg = (
            f"the plan has {counted(len(plan.pipelines), 'pipeline')}; "
            "hetopt.pricing.several.price_several prices those"
        )
        raise InputError(msg, field="pipelines")
    pipeline = plan.pipelines[0]
    if not pipeline.stages:
        msg = "the pipeline has no stages, expected at least one"
        raise InputError(msg, field="pipelines.0.stages")
    return pipeline


def _locate(plan: Plan, table: CostTable) -> tuple[TableSlice, tuple[Place, ...]]:
    """Find every stage of the plan in the table."""
    pipeline = _only_pipeline(plan)
    if plan.cuts != table.layout:
        said = "none" if table.layout is None else ", ".join(map(str, table.layout))
        raise InputError(f"differ from the latency table's: {said}", field="cuts")
    try:
        part = table.at(pipeline.microbatches)
    except KeyError:
        known = ", ".join(str(entry.microbatches) for entry in table.slices)
        msg = (
            f"is {pipeline.microbatches}, expected one of the latency table's, which "
            f"are {known or 'none'}"
        )
        raise InputError(msg, field="pipelines.0.microbatches") from None
    places = []
    expected = 0
    for number, stage in enumerate(pipeline.stages):
        field = f"pipelines.0.stages.{number}"
        _check_units(stage, expected, len(table.units), field)
        expected = stage.end_unit
        units = [*range(stage.first_unit, stage.end_unit)]
        if plan.cuts is not None:
            units = [unit for ends in plan.chunk_units(stage) for unit in range(*ends)]
        if len(units) != stage.units:
            msg = f"has {counted(stage.units, 'unit')}, the cuts give it {len(units)}"
            raise InputError(msg, field=field)
        places.append(_place(stage, table, part, field, units))
    _check_end(expected, table)
    return part, tuple(places)


def _check_end(end: int, table: CostTable) -> None:
    if end != len(table.units):
        msg = f"the stages end at unit {end}, expected {len(table.units)}"
        raise InputError(msg, field="pipelines.0.stages")


def _check_warmup(stage: Stage, field: str) -> None:
    if stage.warmup < 1:
        msg = f"warmup is {stage.warmup}, expected at least 1"
        raise InputError(msg, field=f"{field}.warmup")


def _check_units(stage: Stage, expected: int, units: int, field: str) -> None:
    if stage.first_unit != expected or not expected < stage.end_unit <= units:
        msg = (
            f"holds units {stage.first_unit} <= u < {stage.end_unit}, expected a "
            f"first unit of {expected} and an end after it, at most {units}"
        )
        raise InputError(msg, field=field)


def _place(
    stage: Stage,
    table: CostTable,
    part: TableSlice,
    field: str,
    units: list[int],
) -> Place:
    _check_warmup(stage, field)
    if stage.cluster not in table.cluster_names:
        msg = (
            f"cluster {stage.cluster!r} is not in the latency table, "
            f"which has {', '.join(table.cluster_names)}"
        )
        raise InputError(msg, field=f"{field}.cluster")
    cluster = table.cluster_names.index(stage.cluster)
    costs = part.clusters[cluster]
    try:
        strategy = costs.row(stage.strategy)
    except KeyError:
        msg = (
            f"strategy (dp,cp,tp) {stage.strategy} of cluster {stage.cluster!r} at "
            f"{counted(part.microbatches, 'micro-batch', 'es')} is not in the latency "
            "table: it is not feasible, or not permitted by the problem"
        )
        raise InputError(msg, field=field) from None
    return Place(
        cluster=cluster,
        table=costs,
        strategy=strategy,
        counts=np.bincount(
            [table.units[unit] for unit in units], minlength=len(table.kinds)
        ),
    )


def _times(
    plan: Plan, table: CostTable, part: TableSlice, places: tuple[Place, ...]
) -> PipelineTimes:
    pipeline = plan.pipeline
    warmups = tuple(stage.warmup for stage in pipeline.stages)
    # Errors here are the user's: warm-ups of a plan file, or negative times of a table.
    try:
        check_warmups_fall(warmups)
        if table.layout is not None:
            rows = [place[:3] for place in places]
            return uneven_times(table, part, rows, warmups)
        return _even_times(plan, table, part, places, warmups)
    except ValueError as error:
        raise InputError(str(error), field="pipelines.0.stages") from error


def _even_times(
    plan: Plan,
    table: CostTable,
    part: TableSlice,
    places: tuple[Place, ...],
    warmups: tuple[int, ...],
) -> PipelineTimes:
    pipeline = plan.pipeline
    layouts = [int(place.table.layout[place.strategy]) for place in places]
    boundaries = [
        (table.cuts[stage.end_unit - 1], here, after)
        for stage, here, after in zip(
            pipeline.stages, layouts, layouts[1:], strict=False
        )
    ]
    sync = [stage_sync_ns(place) for place in places]
    if part.tied_ns is not None and len(places) > 1:
        tied = int(part.tied_ns[layouts[0], layouts[-1]])
        sync[0] += tied
        sync[-1] += tied
    transfer = tuple(int(part.transfer_ns[key]) for key in boundaries)
    alone = tuple(int(part.occupancy_ns[key]) for key in boundaries)
    clusters = [place.cluster for place in places]
    chunks = chunks_of(part, layouts, places, np.array(table.body))
    if chunks is None:
        sharing = sharing_of(part.shared, plan.schedule, clusters, alone)
        occupancy = alone if sharing is None else sharing.contended()
    else:
        every = (*alone, int(part.occupancy_ns[part.way_back, layouts[-1], layouts[0]]))
        sharing = sharing_of(part.shared, plan.schedule, clusters, every)
        occupancy = alone
    return PipelineTimes(
        schedule=plan.schedule,
        microbatches=pipeline.microbatches,
        forward_ns=tuple(
            int(place.counts @ place.table.forward_ns[place.strategy])
            for place in places
        ),
        backward_ns=tuple(
            int(place.counts @ place.table.backward_ns[place.strategy])
            for place in places
        ),
        weight_ns=stage_weight_ns(places),
        transfer_ns=transfer,
        occupancy_ns=occupancy,
        sync_ns=tuple(sync),
        warmups=warmups,
        sharing=sharing,
        chunks=chunks,
        fold=fold_of(part, places),
    )
