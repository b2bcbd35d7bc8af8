"""Measured iterations of a model with experts."""

from __future__ import annotations

from statistics import mean

import pytest

from benchmarks.experts import MEAN_LIMIT, times
from benchmarks.iterations import FAR


@pytest.mark.slow
def test_times_measured_on_b200() -> None:
    errors = [abs(ours / measured - 1) for _, measured, ours in times()]
    assert len(errors) == 6
    assert mean(errors) <= MEAN_LIMIT
    assert max(errors) <= FAR
