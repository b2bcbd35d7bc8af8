"""Profiles that Metis measured: a directory of ``DeviceType.X_tpN_bsM.json``.

``execution_time`` has ``layer_compute_total_ms``, one time per layer for forward and
backward together, the embedding first and the head last;
``forward_backward_time_ms``, the time of a whole pass; and ``optimizer_time_ms``, for
the whole model. The excess of a pass over its layers is the time between the last
forward and the first backward, that is logits and loss: Metis adds it to the last stage
for every micro-batch, so it is added to the head here.

Metis times the layers of Megatron as they run on ``tp`` devices, and adds no
tensor-parallel communication, so its times are assumed to include it.
"""

from __future__ import annotations

import re
from pathlib import Path
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
    from collections.abc import Mapping

    from hetopt.cost.profiles.foreign import Target

#: Ratio of backward to forward if only their sum is known: the middle of 2.2 to 2.7,
#: the range of Sailor's measured layers.
BACKWARD_SHARE = 2.45

#: Relative rounding error by which the sum of layers may exceed the given total.
ROUNDING = 1e-9

_FILE = re.compile(
    r"DeviceType\.(?P<device>.+)_tp(?P<tp>[0-9]{1,9})_bs(?P<bs>[0-9]{1,9})\.json"
)


def read_metis(folder: str, target: Target, device: str | None = None) -> Profile:
    """Read a directory of Metis.

    Parameters
    ----------
    device
        The X of ``DeviceType.X``; needed if the folder has several.

    Raises
    ------
    InputError
        There is no such file, a file is malformed, or it does not fit the model.
    """
    if not Path(folder).is_dir():
        raise InputError("is not a directory, expected Metis's profiles", file=folder)
    files = [
        (match, path)
        for path in sorted(Path(folder).iterdir())
        if (match := _FILE.fullmatch(path.name))
    ]
    if not files:
        msg = "has no file named like DeviceType.A100_tp1_bs1.json"
        raise InputError(msg, file=folder)
    devices = list(dict.fromkeys(match["device"] for match, _ in files))
    wanted = chosen(device, devices, "DeviceType", folder)
    found = sorted(
        (
            _times(path, int(match["tp"]), int(match["bs"]), target)
            for match, path in files
            if match["device"] == wanted
        ),
        key=lambda times: (times.tp, times.microbatch),
    )
    notes = (
        f"from Metis, DeviceType.{wanted}; only the sum of forward and backward is "
        f"given, backward is assumed to be {BACKWARD_SHARE:g} times forward; what a "
        "pass takes beyond its layers is charged to the head"
    )
    return converted(found, target, target.communication or INCLUDED, notes, folder)


def _times(path: Path, tp: int, microbatch: int, target: Target) -> LayerTimes:
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
        seconds(item, str(path), f"{field}.{number}") * 1e-3
        for number, item in enumerate(given)
    ]
    check_count(totals, target, str(path), field)
    whole_pass = _optional(execution, "forward_backward_time_ms", path)
    if whole_pass is not None:
        beyond = whole_pass - sum(totals)
        if beyond < -ROUNDING * whole_pass:
            msg = (
                f"is {whole_pass * 1e3:g}, less than its layers take together "
                f"({sum(totals) * 1e3:g})"
            )
            where = "execution_time.forward_backward_time_ms"
            raise InputError(msg, file=str(path), field=where)
        totals[-1] += max(0.0, beyond)
    layers = []
    for total in totals:
        forward = total / (1 + BACKWARD_SHARE)
        layers.append((forward, total - forward))
    update = _optional(execution, "optimizer_time_ms", path)
    return LayerTimes(microbatch=microbatch, tp=tp, layers=layers, update_s=update)


def _optional(execution: Mapping[str, Any], key: str, path: Path) -> float | None:
    """Return a time of Metis in seconds; None if the file lacks it."""
    if key not in execution:
        return None
    return seconds(execution[key], str(path), f"execution_time.{key}") * 1e-3
