"""Conversion of other planners' profiles to ours.

Their files state only times, so the model, sequence length and precision come from the
problem that a profile is converted for. Assumptions are written into the header's
notes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.words import counted, describe
from hetopt.cost.profiles.file import (
    OPTIMIZER,
    PROFILE_SCHEMA,
    Profile,
    ProfileRow,
    interquartile_range,
)
from hetopt.cost.shard_shape import MODEL_SIZES
from hetopt.cost.units import unit_parameters
from hetopt.errors import InputError
from hetopt.problem.model.kinds import EMBEDDING, HEAD, LAYER
from hetopt.problem.model.model import Model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.problem.training.training import Training

#: Least number of layers in a file: an embedding, a layer and a head.
_FEWEST_LAYERS = 3

_COMMON_NOTES = (
    "the first layer is assumed to be the embedding, the last the head; memory is "
    "not used: hetopt derives it from the model"
)

_COMMUNICATES = {
    "included": "include tensor-parallel communication, and hetopt adds it at "
    "degrees that were not timed",
    "excluded": "are computation only: hetopt adds tensor-parallel communication",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What is assumed that another planner's profile has measured.

    Attributes
    ----------
    model, training
        Architecture, sequence length and precision.
    accelerator
        Name in the catalogue, or free text.
    communication
        Whether times at tp > 1 include tensor-parallel communication: "included" or
        "excluded"; None for the planner's default.
    """

    model: Model
    training: Training
    accelerator: str
    communication: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTimes:
    """Forward and backward seconds of every layer at one micro-batch and tp.

    Attributes
    ----------
    update_s
        Seconds of the optimizer's step for all layers; None if unknown.
    """

    microbatch: int
    tp: int
    layers: Sequence[tuple[float, float]]
    update_s: float | None


def converted(
    found: Sequence[LayerTimes],
    target: Target,
    communication: str,
    notes: str,
    file: str,
) -> Profile:
    """Return our profile with the times of another planner's.

    Parameters
    ----------
    communication
        Whether times at tp > 1 include it: "included" or "excluded".
    notes
        Assumptions, besides those of all conversions.

    Raises
    ------
    InputError
        A degree does not divide the model.
    """
    model, training = target.model, target.training
    if all(times.tp == 1 for times in found):
        # tp 1 has no communication, so hetopt adds that of other degrees.
        communication = "excluded"
    rows = [row for times in found for row in _rows(target, times, file)]
    shape = (
        f"model, sequence length and precision are those of the problem it was "
        f"converted for ({model.name}, {training.seq_len}, {training.precision}); a "
        "layer's time is the median over the layers between the ends, its spread over "
        "the same, and repetitions their number"
    )
    header = {
        "schema": PROFILE_SCHEMA,
        "kind": "measured",
        "accelerator": target.accelerator,
        "source": f"converted from {Path(file).name}",
        "communication": communication,
    }
    updates = [
        times.update_s / _parameters(model, times.tp)
        for times in found
        if times.update_s is not None
    ]
    if updates:
        header[OPTIMIZER] = repr(median(updates))
        notes += (
            "; the optimizer's time is the median measured per parameter of a device"
        )
    words = f"times at tp > 1 {_COMMUNICATES[communication]}"
    header["notes"] = f"{notes}; {words}; {shape}; {_COMMON_NOTES}"
    return Profile(header=header, rows=tuple(rows))


def _rows(target: Target, times: LayerTimes, file: str) -> Iterator[ProfileRow]:
    """Yield the rows of one micro-batch and tp; raises InputError as ``converted``."""
    for unit, layers in (
        (EMBEDDING, times.layers[:1]),
        (LAYER, times.layers[1:-1]),
        (HEAD, times.layers[-1:]),
    ):
        try:
            yield _row(target, times, unit, layers)
        except ValueError as error:
            msg = (
                f"micro-batch {times.microbatch} at tp {times.tp} does not fit "
                f"the problem's model: {error}"
            )
            raise InputError(msg, file=file) from error


def _row(
    target: Target, times: LayerTimes, unit: str, layers: Sequence[tuple[float, float]]
) -> ProfileRow:
    """Return the row of a unit; raises ValueError if a degree does not divide it.

    Its times are medians over ``layers``.
    """
    forward, backward = (list(column) for column in zip(*layers, strict=True))
    several = len(layers) > 1
    return ProfileRow(
        unit=unit,
        gated=target.model.gated,
        dtype=target.training.precision,
        **{field: getattr(target.model, field) for field in MODEL_SIZES},
        cp=1,
        tp=times.tp,
        microbatch=times.microbatch,
        seq_len=target.training.seq_len,
        forward_s=median(forward),
        backward_s=median(backward),
        forward_spread_s=interquartile_range(forward) if several else None,
        backward_spread_s=interquartile_range(backward) if several else None,
        repetitions=len(layers),
        status="ok",
    )


def _parameters(model: Model, tp: int) -> float:
    """Return the parameters of the whole model on one of ``tp`` devices."""
    each = np.array([tp])
    return sum(float(unit_parameters(model, kind, each)[0]) for kind in model.units)


def chosen(wanted: str | None, known: Sequence[str], what: str, file: str) -> str:
    """Return the wanted key, or the only one; InputError if that is not possible."""
    listed = ", ".join(known)
    if wanted is not None:
        if wanted not in known:
            msg = f"has no {what} {wanted!r}; it has {listed}"
            raise InputError(msg, file=file)
        return wanted
    if len(known) != 1:
        raise InputError(f"has {listed}; name the {what} to convert", file=file)
    return known[0]


def check_count(layers: Sequence[Any], target: Target, path: str, field: str) -> None:
    """Raise InputError unless the layers are embedding, the model's layers and head."""
    if len(layers) < _FEWEST_LAYERS:
        msg = (
            f"has {counted(len(layers), 'layer')}, expected an embedding, layers and a "
            "head"
        )
        raise InputError(msg, file=path, field=field)
    if not target.model.is_decoder_only:
        msg = "is not decoder-only, but the layers of these profiles are"
        raise InputError(msg, field="model")
    if target.model.experts is not None or target.model.latent is not None:
        msg = "has experts or latent attention, which these profiles do not support"
        raise InputError(msg, field="model")
    own = target.model.layers
    if len(layers) - 2 != own:
        msg = (
            f"has {counted(len(layers) - 2, 'layer')} between embedding and head, but "
            f"the problem's model {target.model.name} has {own}: it is another model's"
        )
        raise InputError(msg, file=path, field=field)


def seconds(value: Any, path: str, field: str, *, may_be_0: bool = False) -> float:
    """Return a time in JSON data; raises InputError unless it is one."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (
        not number
        or not math.isfinite(value)
        or value < 0
        or (value == 0 and not may_be_0)
    ):
        least = "of at least 0" if may_be_0 else "above 0"
        msg = f"is {describe(value)}, expected a time {least}"
        raise InputError(msg, file=path, field=field)
    return float(value)
