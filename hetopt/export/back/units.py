"""The units that stages and chunks hold, by what a runtime's files say."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hetopt.cost.chunks import divides
from hetopt.errors import InputError
from hetopt.export.back.warm_ups import is_folded
from hetopt.problem.layout import cuts_of
from hetopt.schedule.orders import FOLDED_CHUNKS

if TYPE_CHECKING:
    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.problem.problem import Problem


def check_layers(pipeline: PipelineReadBack, problem: Problem) -> None:
    """Raise InputError unless stages hold the model's layers, and at least one each."""
    each, further = _units_per_layer(problem), bool(problem.model.predictions)
    chunks = FOLDED_CHUNKS if is_folded(pipeline) else pipeline.chunks
    layers = chunks * sum(stage.layers for stage in pipeline.stages)
    expected = (len(problem.model.units) - 2 - further) // each
    if layers != expected:
        msg = f"the files have {layers} in all, the model has {expected}"
        raise InputError(msg, field="layers")
    for number, stage in enumerate(pipeline.stages):
        if stage.layers <= 0:
            msg = f"stage {number} has {stage.layers}, expected at least 1"
            raise InputError(msg, field="layers")
        if (stage.layers * each).denominator > 1:
            msg = (
                f"stage {number} has {stage.layers}, the problem has whole ones: set "
                "granularity: block"
            )
            raise InputError(msg, field="layers")


def chunk_ends(pipeline: PipelineReadBack, problem: Problem) -> tuple[int, ...] | None:
    """Return where chunks end in units of the model; None if all are alike.

    Chunks of as many layers each differ where the layers do, or if the problem pins
    cuts, which are compared with theirs.

    Raises
    ------
    InputError
        The layout of the files is of another model.
    """
    model, chunks = problem.model, pipeline.chunks
    if (cuts := pipeline.cuts) is not None:
        if cuts[-1] != (held := len(model.units)):
            msg = f"the files have {cuts[-1]} units in all, the model has {held}"
            raise InputError(msg, field="layers")
        return cuts
    if pipeline.layout is not None:
        try:
            return cuts_of(pipeline.layout, model)
        except ValueError as error:
            raise InputError(f"the files' layout {error}", field="layers") from None
    if chunks == 1 or (problem.pins.cuts is None and divides(model, chunks)):
        return None
    units = _layer_units(pipeline, problem) * chunks
    units[0] += 1
    units[-1] += 1 + bool(model.predictions)
    return tuple(accumulate(units))


def stage_units(
    pipeline: PipelineReadBack, problem: Problem, ends: tuple[int, ...] | None
) -> list[int]:
    """Return the units of each stage without embedding and head, in all its chunks.

    Parameters
    ----------
    ends
        Of the chunks; None: those of one chunk are returned.
    """
    if ends is None:
        units = _layer_units(pipeline, problem)
        units[-1] += bool(problem.model.predictions)
        return units
    held = [end - first for first, end in pairwise((0, *ends))]
    stages = len(pipeline.stages)
    units = [sum(held[number::stages]) for number in range(stages)]
    units[0] -= 1
    units[-1] -= 1
    return units


def _layer_units(pipeline: PipelineReadBack, problem: Problem) -> list[int]:
    each = _units_per_layer(problem)
    return [int(stage.layers * each) for stage in pipeline.stages]


def _units_per_layer(problem: Problem) -> int:
    return 3 if problem.model.granularity == "block" else 1
