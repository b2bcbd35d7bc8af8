"""Price a pipeline that takes sequences of several lengths.

There is a latency table for each length (``hetopt.cost.divided.by_length``). Memory is
that of the longest sequences in the mix, with as many micro-batches in flight as there
are warm-ups. The part of the gradient reduction that backward passes do not hide is
that of the problem's shortest length with the plan's strategies, even if it is not in
the mix: longer sequences hide more.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.pricing.price import Price, pipeline_times, price, run_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.mix import Mix
    from hetopt.plans.plan import Plan
    from hetopt.schedule.times import PipelineTimes


def price_mixed(plan: Plan, tables: Mapping[int, CostTable], batch: int) -> Price:
    """Return the price of a plan of one pipeline with a mix.

    Parameters
    ----------
    tables
        Length -> table, of the lengths in the mix and of shorter ones of the problem.
    batch
        Sequences that the tables are made for: the global batch.

    Returns
    -------
    Its ``times`` are those of the longest sequences, with the others in ``mixed``.

    Raises
    ------
    InputError
        As ``price``; the mix does not fit the batch, or the plan's micro-batches.
    """
    mix = plan.pipeline.mix
    field = "pipelines.0.mix"
    if mix is None:
        raise InputError("is missing: sequences have several lengths", field=field)
    if batch % mix.per_microbatch:
        msg = f"is {mix.per_microbatch}, expected a divisor of the batch ({batch})"
        raise InputError(msg, field=f"{field}.per_microbatch")
    count = sum(mix.microbatches.values())
    if plan.pipeline.microbatches != count:
        msg = f"is {plan.pipeline.microbatches}, the mix makes {count}"
        raise InputError(msg, field="pipelines.0.microbatches")
    held = max(count, *(stage.warmup for stage in plan.pipeline.stages))
    longest = tables[mix.longest]
    whole = price(_taking(plan, held), _at(longest, batch // mix.per_microbatch, held))
    times = mixed_times(plan, tables, mix, batch // mix.per_microbatch)
    return replace(whole, **run_of(times))


def mixed_times(
    plan: Plan, tables: Mapping[int, CostTable], mix: Mix, microbatches: int
) -> PipelineTimes:
    """Return the times of a pipeline that takes a mix.

    Parameters
    ----------
    microbatches
        Micro-batches of a whole batch of one length: the slice of the tables with the
        costs of such a micro-batch.

    Raises
    ------
    InputError
        As ``price``.
    """
    own = _taking(plan, microbatches)
    shortest = next(
        n for n in sorted(tables) if _takes(own, tables[n]) or n in mix.sequences
    )
    sync_ns = pipeline_times(own, tables[shortest]).sync_ns
    each = []
    for tokens, count in mix.microbatches.items():
        times = pipeline_times(own, tables[tokens])
        if times.sharing is not None:
            msg = "share a link, which is not priced where lengths differ"
            raise InputError(msg, field="pipelines.0.stages")
        each.append(replace(times, microbatches=count, sync_ns=sync_ns))
    total = sum(mix.microbatches.values())
    try:
        return replace(each[0], microbatches=total, mixed=tuple(each))
    except ValueError as error:
        raise InputError(str(error), field="pipelines.0.stages") from error


def _takes(plan: Plan, table: CostTable) -> bool:
    """Whether a table has all strategies of a plan of one pipeline."""
    try:
        part = table.at(plan.pipeline.microbatches)
    except KeyError:
        return False
    own = dict(zip(table.cluster_names, part.clusters, strict=True))
    return all(
        stage.cluster in own and stage.strategy in own[stage.cluster].strategies
        for stage in plan.pipeline.stages
    )


def _taking(plan: Plan, microbatches: int) -> Plan:
    own = replace(plan.pipeline, microbatches=microbatches, mix=None)
    return replace(plan, pipelines=(own,))


def _at(table: CostTable, microbatches: int, held: int) -> CostTable:
    """Return a table of micro-batches of the same size, but ``held`` of them."""
    try:
        part = table.at(microbatches)
    except KeyError:
        msg = "has micro-batches that no strategy of the latency table has"
        raise InputError(msg, field="pipelines.0.mix") from None
    return replace(table, slices=(replace(part, microbatches=held),))
