"""Profiles that other planners measured, as profiles of ours.

Metis    a directory of ``DeviceType.X_tpN_bsM.json``: ``execution_time`` has
         ``layer_compute_total_ms``, forward and backward together, one number per
         layer of which the first is the embedding and the last the head;
         ``forward_backward_time_ms``, all of one pass; and ``optimizer_time_ms``, of
         the whole model. What a pass takes beyond its layers is the time between the
         last forward and the first backward, that is logits and loss: Metis charges
         it to the last stage for every micro-batch, and so it goes to the head here
Sailor   nested JSON ``[model][gpu][micro-batch][tp][layer] = [forward, backward,
         update]`` in seconds, layers counted as in Metis; a file may also begin at
         the GPU or at the micro-batch

Metis hooks the layers of Megatron as they run on ``tp`` devices, and adds no
tensor-parallel communication of its own, so its times are taken to include it; of
Sailor's that is not known, and the user has to say it where tp is above 1.

Neither says what was measured beyond that, so the model, sequence length and precision
come from the problem a profile is converted for. What had to be assumed is written
into the header's notes.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.cost.operations import unit_parameters
from hetopt.cost.profile_table import (
    INCLUDED,
    OPTIMIZER,
    PROFILE_SCHEMA,
    Profile,
    ProfileRow,
)
from hetopt.errors import InputError
from hetopt.problem.model import EMBEDDING, HEAD, LAYER
from hetopt.reading import read_json
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.problem.model import Model
    from hetopt.problem.training import Training

#: Backward over forward where only their sum is known: the middle of 2.2 to 2.7, what
#: Sailor's measured layers have.
BACKWARD_SHARE = 2.45

_METIS_FILE = re.compile(
    r"DeviceType\.(?P<device>.+)_tp(?P<tp>[0-9]{1,9})_bs(?P<bs>[0-9]{1,9})\.json"
)

#: An embedding, at least one layer, a head.
_FEWEST_LAYERS = 3

_COMMON_NOTES = (
    "the first layer is taken to be the embedding, the last the head; memory is not "
    "used: hetopt derives it from the model"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a foreign profile is taken to have measured.

    Attributes
    ----------
    model, training
        Architecture, sequence length and precision.
    accelerator
        Name in the catalogue, or free text.
    communication
        Whether times at tp > 1 include tensor-parallel communication: "included" or
        "excluded"; None for what the planner is known to measure.
    """

    model: Model
    training: Training
    accelerator: str
    communication: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Times:
    """Forward and backward seconds of every layer at one micro-batch and tp.

    Attributes
    ----------
    update_s
        What the optimizer takes for all layers; None where the file does not say.
    """

    microbatch: int
    tp: int
    layers: Sequence[tuple[float, float]]
    update_s: float | None


def read_metis(folder: str, target: Target, device: str | None = None) -> Profile:
    """Read a directory of Metis.

    Parameters
    ----------
    device
        The X of ``DeviceType.X``; needed where the folder has several.

    Raises
    ------
    InputError
        Nothing fits, or a file is malformed.
    """
    if not Path(folder).is_dir():
        raise InputError("is not a directory, expected Metis's profiles", file=folder)
    files = [
        (match, path)
        for path in sorted(Path(folder).iterdir())
        if (match := _METIS_FILE.fullmatch(path.name))
    ]
    if not files:
        msg = "has no file named like DeviceType.A100_tp1_bs1.json"
        raise InputError(msg, file=folder)
    devices = list(dict.fromkeys(match["device"] for match, _ in files))
    chosen = _chosen(device, devices, "DeviceType", folder)
    found = sorted(
        (
            _metis_times(path, int(match["tp"]), int(match["bs"]), target)
            for match, path in files
            if match["device"] == chosen
        ),
        key=lambda times: (times.tp, times.microbatch),
    )
    notes = (
        f"from Metis, DeviceType.{chosen}; only the sum of forward and backward is "
        f"given, backward is taken to be {BACKWARD_SHARE:g} times forward; what a "
        "pass takes beyond its layers is charged to the head"
    )
    return _profile(found, target, target.communication or INCLUDED, notes, folder)


def read_sailor(
    path: str, target: Target, model: str | None = None, device: str | None = None
) -> Profile:
    """Read a JSON file of Sailor.

    Parameters
    ----------
    model, device
        Keys of the file; needed where it has several.

    Raises
    ------
    InputError
        Nothing fits, or the file is malformed.
    """
    data = read_json(path, "a profile of Sailor")
    fields: list[str] = []
    # A file of one model, or of one model and GPU, leaves the outer levels away.
    for key, what in _levels(data, model, device):
        chosen = _chosen(key, list(_mapping(data, fields, path)), what, path)
        data = data[chosen]
        fields.append(chosen)
    found = []
    for microbatch, by_tp in _numbered(data, fields, path):
        for tp, by_layer in _numbered(by_tp, [*fields, str(microbatch)], path):
            inside = [*fields, str(microbatch), str(tp)]
            layers = [
                _sailor_layer(times, [*inside, str(layer)], path)
                for layer, times in _numbered(by_layer, inside, path)
            ]
            _check_count(layers, target, path, ".".join(inside))
            found.append(
                _Times(
                    microbatch=microbatch,
                    tp=tp,
                    layers=[times[:2] for times in layers],
                    update_s=sum(times[2] for times in layers) or None,
                )
            )
    communication = target.communication
    if communication is None and any(times.tp > 1 for times in found):
        msg = (
            "is needed: has times at tp > 1; say whether they include tensor-parallel "
            "communication (included) or are computation alone (excluded)"
        )
        raise InputError(msg, file=path, field="--communication")
    notes = f"from Sailor, {'/'.join(fields) or 'one model and GPU'}"
    return _profile(found, target, communication or INCLUDED, notes, path)


def _profile(
    found: Sequence[_Times],
    target: Target,
    communication: str,
    notes: str,
    file: str,
) -> Profile:
    model = target.model
    rows = []
    for times in found:
        body = times.layers[1:-1]
        for unit, group in (
            (EMBEDDING, times.layers[:1]),
            (LAYER, body),
            (HEAD, times.layers[-1:]),
        ):
            forward = [pair[0] for pair in group]
            backward = [pair[1] for pair in group]
            try:
                row = ProfileRow(
                    unit=unit,
                    gated=model.gated,
                    dtype=target.training.precision,
                    hidden=model.hidden,
                    heads=model.heads,
                    kv_heads=model.kv_heads,
                    head_dim=model.head_dim,
                    ffn=model.ffn,
                    vocab=model.vocab,
                    cp=1,
                    tp=times.tp,
                    microbatch=times.microbatch,
                    seq_len=target.training.seq_len,
                    forward_s=median(forward),
                    backward_s=median(backward),
                    forward_spread_s=_spread(forward),
                    backward_spread_s=_spread(backward),
                    repetitions=len(group),
                    status="ok",
                )
            except ValueError as error:
                msg = (
                    f"micro-batch {times.microbatch} at tp {times.tp} does not fit "
                    f"the problem's model: {error}"
                )
                raise InputError(msg, file=file) from error
            rows.append(row)
    training = target.training
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
        notes += "; the optimizer takes what it took per parameter of a device"
    words = f"times at tp > 1 {_COMMUNICATES[communication]}"
    header["notes"] = f"{notes}; {words}; {shape}; {_COMMON_NOTES}"
    return Profile(header=header, rows=tuple(rows))


_COMMUNICATES = {
    "included": "include tensor-parallel communication, so that hetopt adds none",
    "excluded": "are computation alone: hetopt adds tensor-parallel communication",
}


def _parameters(model: Model, tp: int) -> float:
    """Return the parameters that one of ``tp`` devices holds of the whole model."""
    each = np.array([tp])
    return sum(float(unit_parameters(model, kind, each)[0]) for kind in model.units)


def _spread(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def _metis_times(path: Path, tp: int, microbatch: int, target: Target) -> _Times:
    field = "execution_time.layer_compute_total_ms"
    data = read_json(path, "a profile of Metis")
    execution = data.get("execution_time") if isinstance(data, dict) else None
    given = (
        execution.get("layer_compute_total_ms") if isinstance(execution, dict) else None
    )
    if not isinstance(given, list):
        msg = "is missing, expected a list of milliseconds"
        raise InputError(msg, file=str(path), field=field)
    assert isinstance(execution, dict)
    totals = [
        _seconds(item, str(path), f"{field}.{number}") * 1e-3
        for number, item in enumerate(given)
    ]
    _check_count(totals, target, str(path), field)
    whole_pass = _optional(execution, "forward_backward_time_ms", path)
    if whole_pass is not None:
        beyond = whole_pass - sum(totals)
        if beyond < 0:
            msg = (
                f"is {whole_pass * 1e3:g}, less than its layers take together "
                f"({sum(totals) * 1e3:g})"
            )
            where = "execution_time.forward_backward_time_ms"
            raise InputError(msg, file=str(path), field=where)
        totals[-1] += beyond
    layers = []
    for total in totals:
        forward = total / (1 + BACKWARD_SHARE)
        layers.append((forward, total - forward))
    update = _optional(execution, "optimizer_time_ms", path)
    return _Times(microbatch=microbatch, tp=tp, layers=layers, update_s=update)


def _optional(execution: Mapping[str, Any], key: str, path: Path) -> float | None:
    """Return a time of Metis in seconds; None where the file does not have it."""
    if key not in execution:
        return None
    return _seconds(execution[key], str(path), f"execution_time.{key}") * 1e-3


def _sailor_layer(
    times: Any, fields: Sequence[str], path: str
) -> tuple[float, float, float]:
    field = ".".join(fields)
    if not isinstance(times, list) or len(times) != 3:
        msg = "is not a list of forward, backward and update seconds"
        raise InputError(msg, file=path, field=field)
    return (
        _seconds(times[0], path, f"{field}.0"),
        _seconds(times[1], path, f"{field}.1"),
        _seconds(times[2], path, f"{field}.2", may_be_0=True),
    )


def _levels(
    data: Any, model: str | None, device: str | None
) -> Iterator[tuple[str | None, str]]:
    depth = 0
    while isinstance(data, dict) and data:
        data = next(iter(data.values()))
        depth += 1
    if depth >= 5:
        yield model, "model"
    if depth >= 4:
        yield device, "GPU"


def _numbered(data: Any, fields: Sequence[str], path: str) -> list[tuple[int, Any]]:
    """Return a mapping with counts as keys, ascending."""
    found = []
    for key, value in _mapping(data, fields, path).items():
        if not (key.isascii() and key.isdecimal() and len(key) < 10):
            msg = f"{key!r} is not a whole number"
            raise InputError(msg, file=path, field=".".join(fields) or None)
        found.append((int(key), value))
    return sorted(found, key=lambda item: item[0])


def _mapping(data: Any, fields: Sequence[str], path: str) -> Mapping[str, Any]:
    if not isinstance(data, dict) or not data:
        msg = "is not a mapping [model][gpu][micro-batch][tp][layer]"
        raise InputError(msg, file=path, field=".".join(fields) or None)
    return data


def _chosen(wanted: str | None, known: Sequence[str], what: str, file: str) -> str:
    listed = ", ".join(known)
    if wanted is not None:
        if wanted not in known:
            raise InputError(f"has no {what} {wanted!r}, but {listed}", file=file)
        return wanted
    if len(known) != 1:
        raise InputError(f"has {listed}; name the {what} to convert", file=file)
    return known[0]


def _check_count(layers: Sequence[Any], target: Target, path: str, field: str) -> None:
    """Raise InputError unless there are an embedding, the model's layers and a head."""
    if len(layers) < _FEWEST_LAYERS:
        msg = f"has {len(layers)} layers, expected an embedding, layers and a head"
        raise InputError(msg, file=path, field=field)
    if not target.model.is_decoder_only:
        msg = "is not decoder-only, but the layers of these profiles are"
        raise InputError(msg, field="model")
    own = target.model.layers
    if len(layers) - 2 != own:
        msg = (
            f"has {len(layers) - 2} layers between embedding and head, but the "
            f"problem's model {target.model.name} has {own}: it is another model's"
        )
        raise InputError(msg, file=path, field=field)


def _seconds(value: Any, path: str, field: str, *, may_be_0: bool = False) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if (
        not number
        or not math.isfinite(value)
        or value < 0
        or (value == 0 and not may_be_0)
    ):
        msg = f"is {describe(value)}, expected a time above 0"
        raise InputError(msg, file=path, field=field)
    return float(value)
