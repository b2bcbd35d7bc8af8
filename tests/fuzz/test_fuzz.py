"""Fixed seeds of the fuzz; ``python -m tests.fuzz.run`` runs as many as you like."""

from __future__ import annotations

import os

import pytest

from tests.fuzz.generator import make_case
from tests.fuzz.run import Limits, run_case

SEEDS = range(50)
#: A loaded machine takes its time; hangs are found all the same.
LIMITS = Limits(slack_s=float(os.environ.get("HETOPT_FUZZ_SLACK_S", "25")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_goes_wrong(seed: int) -> None:
    assert run_case(seed, LIMITS).wrong == []


def test_a_seed_makes_the_same_case_again() -> None:
    assert make_case(3) == make_case(3)
    assert make_case(3) != make_case(4)
