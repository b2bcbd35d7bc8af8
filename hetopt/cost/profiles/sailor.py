"""Profiles that Sailor measured: nested JSON.

``[model][gpu][micro-batch][tp][layer] = [forward, backward, update]`` in seconds; the
first layer is the embedding, the last the head. A file may also begin at the GPU or at
the micro-batch. Files do not state whether times at tp above 1 include tensor-parallel
communication, so the user has to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.base.reading import read_json
from hetopt.cost.profiles.file import INCLUDED, Profile
from hetopt.cost.profiles.foreign import (
    LayerTimes,
    check_count,
    chosen,
    converted,
    seconds,
)
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from hetopt.cost.profiles.foreign import Target


def read_sailor(
    path: str, target: Target, model: str | None = None, device: str | None = None
) -> Profile:
    """Read a JSON file of Sailor.

    Parameters
    ----------
    model, device
        Keys of the file; needed if it has several.

    Raises
    ------
    InputError
        A key is missing, the file is malformed, or it does not fit the model.
    """
    data = read_json(path, "a profile of Sailor")
    fields: list[str] = []
    # A file of one model, or of one model and GPU, may lack the outer levels.
    for key, what in _levels(data, model, device):
        fields.append(chosen(key, list(_mapping(data, fields, path)), what, path))
        data = data[fields[-1]]
    found = []
    for microbatch, by_tp in _numbered(data, fields, path):
        for tp, by_layer in _numbered(by_tp, [*fields, str(microbatch)], path):
            inside = [*fields, str(microbatch), str(tp)]
            layers = [
                _sailor_layer(times, [*inside, str(layer)], path)
                for layer, times in _numbered(by_layer, inside, path)
            ]
            check_count(layers, target, path, ".".join(inside))
            found.append(
                LayerTimes(
                    microbatch=microbatch,
                    tp=tp,
                    layers=[times[:2] for times in layers],
                    update_s=sum(times[2] for times in layers) or None,
                )
            )
    communication = target.communication
    if communication is None and any(times.tp > 1 for times in found):
        msg = (
            "is required, because the file has times at tp > 1: state whether they "
            "include tensor-parallel communication (included) or are computation only "
            "(excluded)"
        )
        raise InputError(msg, file=path, field="--communication")
    notes = f"from Sailor, {'/'.join(fields) or 'one model and GPU'}"
    return converted(found, target, communication or INCLUDED, notes, path)


def _sailor_layer(
    times: Any, fields: Sequence[str], path: str
) -> tuple[float, float, float]:
    field = ".".join(fields)
    if not isinstance(times, list) or len(times) != 3:
        msg = "is not a list of forward, backward and update seconds"
        raise InputError(msg, file=path, field=field)
    return (
        seconds(times[0], path, f"{field}.0"),
        seconds(times[1], path, f"{field}.1"),
        seconds(times[2], path, f"{field}.2", may_be_0=True),
    )


def _levels(
    data: Any, model: str | None, device: str | None
) -> Iterator[tuple[str | None, str]]:
    depth = 0
    while isinstance(data, dict) and data:
        data = next(iter(data.values()))
        depth += 1
    for least, name, given, what in (
        (5, "model", model, "model"),
        (4, "device", device, "GPU"),
    ):
        if depth >= least:
            yield given, what
        elif given is not None:
            msg = f"is {given!r}, but the file is of one {what}, unnamed: leave it out"
            raise InputError(msg, field=f"--{name}")


def _numbered(data: Any, fields: Sequence[str], path: str) -> list[tuple[int, Any]]:
    """Return the items of a mapping whose keys are whole numbers, ascending."""
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
