"""Checks of pipelines that take sequences of several lengths.

Each length has a table of its own. A stage needs the memory of the longest sequences
that its pipeline takes, for as many micro-batches as it has warm-ups. g is that of the
shortest length of the problem for which the tables have all strategies of the pipeline.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from hetopt.base.words import counted
from hetopt.check.plan.pricing import rows_of
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.plan.several import ensure_own_table, several_findings
from hetopt.cost.divided import by_length, sources_by_length
from hetopt.problem.division import everything, pins_fault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.mix import Mix
    from hetopt.plans.plan import Pipeline, Plan
    from hetopt.problem.problem import Problem


class OneLength(NamedTuple):
    """One pipeline as if all its sequences had one length.

    It has the micro-batches of all lengths, or as many as the most warm-ups if that is
    more, so that every stage holds as many micro-batches as it has warm-ups.
    """

    problem: Problem
    table: CostTable
    pipeline: Pipeline


def length_findings(problem: Problem, plan: Plan) -> Iterator[str]:
    """Yield findings on how sequences are divided and form micro-batches."""
    if not STEPS[plan.schedule].mixes:
        yield f"schedule: {plan.schedule} does not run sequences of several lengths"
    if plan.per_unit:
        yield "pipelines: lengths differ, but units have strategies"
    if len(plan.pipelines) > 1:
        yield from several_findings(problem, plan)
    elif plan.pipelines[0].share is not None:
        yield "pipelines: expected one without a share, or several"
    elif (pin := pins_fault(problem.pins)) is not None:
        yield f"pin {pin}: only possible if all sequences have one length"
    for cluster in problem.clusters:
        if cluster.uplink_bytes_per_s is not None:
            yield (
                f"cluster {cluster.name!r}: has an uplink, which sequences of several "
                "lengths do not support"
            )
    left = dict(problem.training.sequences)
    for number, pipeline in enumerate(plan.pipelines):
        if pipeline.mix is None:
            yield f"pipeline {number}: has no mix"
            return
        for tokens, count in pipeline.mix.sequences.items():
            if tokens not in left:
                yield f"pipeline {number}: no sequence has {tokens} tokens"
            left[tokens] = left.get(tokens, 0) - count
        yield from _mix_findings(problem, number, pipeline, pipeline.mix)
    for tokens, count in left.items():
        if tokens in problem.training.sequences and count:
            what = f"{count} too few" if count > 0 else f"{-count} too many"
            yield f"sequences of {tokens} tokens: pipelines take {what}"


def _mix_findings(
    problem: Problem, number: int, pipeline: Pipeline, mix: Mix
) -> Iterator[str]:
    batch, each = problem.training.global_batch, mix.per_microbatch
    if batch % each:
        yield (
            f"pipeline {number}: {counted(each, 'sequence')} in a micro-batch do not "
            f"divide the global batch {batch}"
        )
    count = sum((n + each - 1) // each for n in mix.sequences.values())
    if pipeline.microbatches != count:
        yield (
            f"pipeline {number}: {pipeline.microbatches} microbatches, its sequences "
            f"make {count}"
        )
    taken = sum(mix.sequences.values())
    if pipeline.share is not None and pipeline.share.batch != taken:
        yield (
            f"pipeline {number}: has a share of "
            f"{counted(pipeline.share.batch, 'sequence')}, and takes {taken}"
        )


def one_length_each(
    problem: Problem, table: CostTable, plan: Plan
) -> list[dict[int, OneLength]]:
    """Return problem, table and pipeline of each length, by pipeline.

    The lengths are those that the pipeline takes, and the shortest for which the tables
    have all of its strategies. The mixes have to be valid.

    Raises
    ------
    CheckError
        The table is not the problem's.
    """
    ensure_own_table(problem, table)
    whole = everything(problem)
    division = [
        whole if each.share is None else each.share.nodes for each in plan.pipelines
    ]
    sources = sources_by_length(problem)
    found = []
    for number, pipeline in enumerate(plan.pipelines):
        assert pipeline.mix is not None
        known = by_length(problem, division, number, sources)
        own = {n: _alone(pipeline, pipeline.mix, *known[n]) for n in sorted(known)}
        shortest = next((n for n, each in own.items() if not rows_of(*each)[1]), None)
        wanted = {*pipeline.mix.sequences, shortest}
        found.append({n: each for n, each in own.items() if n in wanted})
    return found


def _alone(
    pipeline: Pipeline, mix: Mix, problem: Problem, table: CostTable
) -> OneLength:
    warmups = [stage.warmup for stage in pipeline.stages]
    held = max([pipeline.microbatches, *warmups])
    made_for = problem.training.global_batch // mix.per_microbatch
    slices = [
        replace(each, microbatches=held)
        for each in table.slices
        if each.microbatches == made_for
    ]
    training = replace(problem.training, global_batch=held * mix.per_microbatch)
    return OneLength(
        replace(problem, training=training),
        replace(table, slices=tuple(slices)),
        replace(pipeline, microbatches=held, share=None, mix=None),
    )
