"""Every solver against brute force, the checker and its own certificate.

A failing instance is compared again by ``python -m tests.agreement SEED``.
"""

from __future__ import annotations

import pytest

from hetopt.solvers.race import programs
from tests.agreement.answers import answer_to, answers
from tests.agreement.comparing import Comparison
from tests.agreement.generator import features_of, make

#: Instances of ``make test``, and of ``make test-slow``, in batches of so many.
QUICK, SLOW, BATCH = 100, 2000, 10
BATCHES = [
    pytest.param(range(first, first + BATCH), id=str(first), marks=marks)
    for first in range(0, QUICK + SLOW, BATCH)
    for marks in ([pytest.mark.slow] if first >= QUICK else [],)
]


@pytest.mark.parametrize("batch", BATCHES)
def test_all_that_solvers_say_is_so(batch: range) -> None:
    known = answers(batch)
    wrong = []
    for seed in batch:
        features = features_of(seed)
        comparison = Comparison(features, make(features), known[seed])
        wrong += [f"{features}: {each}" for each in comparison.findings()]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("seed", [7, 14, 18, 26, 55, 83])
def test_bounds_leave_out_what_others_replace(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where there are many strategies."""
    monkeypatch.setattr(programs, "_MANY", 0)
    features = features_of(seed)
    instance = make(features)
    comparison = Comparison(features, instance, answer_to(features, instance))
    assert comparison.of("dp") == []
