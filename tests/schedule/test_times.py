from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from hetopt.schedule.times import PipelineTimes
from tests.schedule.pipelines import pipeline

TIMES = pipeline([1, 2], [3, 4], [5], microbatches=3, warmups=[5, 1])


def test_derived_values() -> None:
    assert TIMES.stages == 2
    assert TIMES.round_trip_ns == (4, 6)
    assert TIMES.inflight == (3, 1)


def test_numpy_integers_become_python_integers() -> None:
    times = replace(TIMES, forward_ns=tuple(np.array([1, 2], dtype=np.int64)))
    assert times == TIMES
    assert {type(value) for value in times.forward_ns} == {int}


def test_survives_json() -> None:
    data: dict[str, Any] = json.loads(json.dumps(asdict(TIMES)))
    values: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in data.items()
    }
    assert PipelineTimes(**values) == TIMES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"microbatches": 0}, "microbatches is 0, expected at least 1"),
        ({"forward_ns": ()}, "at least one stage"),
        ({"backward_ns": (1,)}, "backward_ns has 1 entries, expected 2 for 2 stages"),
        ({"transfer_ns": (1, 2)}, "transfer_ns has 2 entries, expected 1"),
        ({"sync_ns": (0, -1)}, "sync_ns holds -1, expected at least 0"),
        ({"warmups": (1, 0)}, "warmups holds 0, expected at least 1"),
    ],
)
def test_rejects(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TIMES, **change)  # type: ignore[arg-type]


def test_rejects_floats() -> None:
    with pytest.raises(TypeError):
        replace(TIMES, forward_ns=(1.0, 2.0))  # type: ignore[arg-type]
