"""Chooses the schedule and the warm-ups of a plan that is read back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.errors import InputError
from hetopt.problem.training.choices import FREE
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.warmup import warmup_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName


def scheduled(
    pipeline: PipelineReadBack,
    problem: Problem,
    clusters: Sequence[str],
    ends: tuple[int, ...] | None = None,
) -> tuple[Problem, tuple[int, ...] | None]:
    """Return the problem under the plan's schedule, and warm-ups if those are free.

    The files' schedule is taken if it has chunks, splits backward passes, or its
    warm-ups depend on times. Otherwise the problem's is kept if its warm-ups are free,
    or those of the files; else the files' is taken, or ``free-1f1b`` if its warm-ups
    differ.

    Parameters
    ----------
    ends
        Of the chunks, if they differ; the problem pins them, in the files' words.
    """
    given = tuple(stage.warmup for stage in pipeline.stages)
    q = pipeline.microbatches
    _check_rounds(pipeline)
    found = _prescribed(pipeline.schedule, q, clusters, pipeline.chunks)
    own = tuple(w for w in given if w is not None)
    if own and len(own) < len(given):
        msg = "the files give warm-ups of some stages only, expected all or none"
        raise InputError(msg, field="warmup")
    if pipeline.chunks > 1 or rule_of(pipeline.schedule).splits:
        _check_prescribed(pipeline, own, found)
        cuts = ends if pipeline.chunks > 1 else None
        cut = problem.of_plan(pipeline.schedule, pipeline.chunks, cuts=cuts)
        if cuts is not None and cut.pins.layout is None:
            cut = replace(cut, pins=replace(cut.pins, layout=pipeline.layout))
        return cut, None
    found = own or found
    if found is None:
        # The warm-ups depend on times, which ``plan_of`` knows.
        return problem.of_plan(pipeline.schedule), None
    if rule_of(problem.training.schedule).free:
        return problem, found
    names = [problem.training.schedule, pipeline.schedule]
    for schedule in names:
        rule = rule_of(schedule)
        if rule.interleaved or rule.splits:
            # The files' stages hold one chunk and run whole backward passes.
            continue
        named = _prescribed(schedule, q, clusters)
        if named is not None and _clipped(named, q) == _clipped(found, q):
            return problem.of_plan(schedule), None
    return problem.of_plan(FREE), found


def _check_rounds(pipeline: PipelineReadBack) -> None:
    """Raise InputError for micro-batches or stages that the schedule cannot have."""
    q, stages = pipeline.microbatches, len(pipeline.stages)
    if is_folded(pipeline) and q <= stages:
        msg = (
            f"is {q}, expected more than the {counted(stages, 'stage')} of "
            f"{pipeline.schedule}"
        )
        raise InputError(msg, field="microbatches")
    if pipeline.chunks > 1 and stages == 1:
        msg = f"is {pipeline.chunks}, expected 1 where there is one stage"
        raise InputError(msg, field="chunks")
    if pipeline.chunks > 1 and q % stages:
        msg = (
            f"is {q}, expected a multiple of the {counted(stages, 'stage')}, each of "
            f"which holds {counted(pipeline.chunks, 'chunk')}"
        )
        raise InputError(msg, field="microbatches")


def is_folded(pipeline: PipelineReadBack) -> bool:
    """Whether micro-batches go down the pipeline and back to the first stage."""
    return rule_of(pipeline.schedule).folded


def _check_prescribed(
    pipeline: PipelineReadBack,
    own: tuple[int, ...],
    prescribed: tuple[int, ...] | None,
) -> None:
    """Raise InputError if stages do not warm up as their schedule prescribes.

    Parameters
    ----------
    own
        The warm-ups of the files; empty if they give none.
    """
    assert prescribed is not None
    passes = pipeline.microbatches * pipeline.chunks
    expected = _clipped(prescribed, passes)
    if own and _clipped(own, passes) != expected:
        msg = (
            f"is {', '.join(map(str, own))}, expected "
            f"{', '.join(map(str, expected))}: {pipeline.schedule} prescribes warm-ups"
        )
        raise InputError(msg, field="warmup")


def _prescribed(
    schedule: ScheduleName, microbatches: int, clusters: Sequence[str], chunks: int = 1
) -> tuple[int, ...] | None:
    """Return warm-ups of a schedule; None if they are free or depend on times."""
    rule = rule_of(schedule)
    if rule.free or rule.thresholds:
        return None
    return warmup_counts(
        schedule,
        microbatches=microbatches,
        crosses=[before != after for before, after in pairwise(clusters)],
        round_trip_ns=[1] * len(clusters),
        transfer_ns=[0] * (len(clusters) - 1),
        chunks=chunks,
    )


def _clipped(warmups: Iterable[int], microbatches: int) -> list[int]:
    """Return warm-ups, each at most the number of micro-batches."""
    return [min(count, microbatches) for count in warmups]
