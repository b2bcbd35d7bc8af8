"""Under which conditions a run was timed, and when its times are unreliable."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from hetopt.running.conditions import (
    Conditions,
    conditions_of,
    noise_of,
    running_threads,
)


def rank(*cpu_s: float, threads: int = 1) -> dict[str, Any]:
    """Return what a rank writes whose iterations take 2 s each, one after the other."""
    iterations = [
        {"start_s": 10.0 + 2 * n, "end_s": 12.0 + 2 * n, "cpu_s": each}
        for n, each in enumerate(cpu_s)
    ]
    return {"threads": threads, "iterations": iterations}


def test_the_load_is_that_of_the_timed_iterations() -> None:
    loads = [(9.9, 50), (10.0, 2), (12.5, 3), (14.0, 4), (14.1, 50)]
    found = conditions_of([rank(1.0, 2.0), rank(0.5, 0.5)], loads)
    assert found is not None
    assert found.load == 3
    assert found.threads == 1
    assert found.cpu_shares == (0.75, 0.25)
    assert found.cores >= 1


def test_a_run_too_short_for_a_sample_has_no_known_load() -> None:
    found = conditions_of([rank(1.0)], [(9.9, 50), (14.1, 50)])
    assert found is not None
    assert found.load is None


def test_an_older_program_does_not_say() -> None:
    assert conditions_of([{"iterations": [{"start_s": 1.0, "end_s": 2.0}]}], []) is None


@pytest.mark.skipif(running_threads() is None, reason="the system has no /proc")
def test_busy_processes_are_counted() -> None:
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)
    ]
    try:
        time.sleep(0.5)
        assert (running_threads() or 0) >= 3
    finally:
        for each in busy:
            each.kill()
            each.wait()


@pytest.mark.parametrize(
    ("iterations", "load", "cores", "noise"),
    [
        ([1.0], None, 2, []),
        ([1.0, 1.05, 1.1], 2.2, 2, []),
        ([1.0, 1.0, 1.2], None, 2, ["iterations that differ by 20% of their median"]),
        ([1.0, 1.0], 2.3, 2, ["a load of 2.3 on 2 cores"]),
        ([1.0, 1.0], 1.5, 1, ["a load of 1.5 on 1 core"]),
    ],
)
def test_what_makes_times_unreliable(
    iterations: list[float], load: float | None, cores: int, noise: list[str]
) -> None:
    conditions = Conditions(threads=1, cores=cores, load=load, cpu_shares=(1.0,))
    assert list(noise_of(iterations, conditions)) == noise


def test_iterations_alone_say_that_they_differ() -> None:
    assert not noise_of([1.0, 1.0], None)
    assert len(noise_of([1.0, 2.0], None)) == 1
