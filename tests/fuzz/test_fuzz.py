"""Fixed seeds of the fuzz; ``python -m tests.fuzz.run`` runs as many as you like."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.generator import make_case

#: Fifty seeds in all, these and the nine that follow each.
FIRST = range(0, 50, 10)
#: Seconds beyond a limit: a loaded machine takes its time, and hangs take more.
SLACK_S = os.environ.get("HETOPT_FUZZ_SLACK_S", "25")


@pytest.mark.slow
@pytest.mark.parametrize("first", FIRST)
def test_nothing_goes_wrong(first: int) -> None:
    # In a process of its own: it forks, which one with threads had better not.
    arguments = ["--seed", str(first), "--count", "10", "--slack", SLACK_S]
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.run", *arguments],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_seed_makes_the_same_case_again() -> None:
    assert make_case(3) == make_case(3)
    assert make_case(3) != make_case(4)
