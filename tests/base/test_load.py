"""What other programs take of the cores while something is timed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hetopt.base import load
from hetopt.base.deadline import Deadline

#: A program that keeps a core busy for so many seconds of processor time.
BUSY = "import time\nwhile time.process_time() < 0.3: pass"


@pytest.mark.parametrize(
    ("busy_s", "own_s", "jobs", "share"),
    [
        # Alone, with one worker on two cores, and with two.
        (10, 10, 1, 0),
        (20, 20, 2, 0),
        # Another program has the other core.
        (20, 10, 1, 0),
        # Two others share both cores with one worker: it may have had only the rest.
        (20, 5, 1, 0.5),
        # Another one takes a third of two cores from two workers.
        (20, 40 / 3, 2, 1 / 3),
        (20, 40 / 3, None, 1 / 3),
        # More workers than cores, and none but this process.
        (20, 15, 4, 0.25),
        (20, 5, 0, 0.5),
        # The two clocks differ by less than a tick.
        (9.99, 10, 1, 0),
    ],
)
def test_share_taken(
    busy_s: float,
    own_s: float,
    jobs: int | None,
    share: float,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = {"busy": 1000.0, "own": 3.0, "clock": 50.0}
    monkeypatch.setattr(load, "_busy_s", lambda: now["busy"])
    monkeypatch.setattr(load, "_own_s", lambda: now["own"])
    monkeypatch.setattr(load, "cores", lambda: 2)
    monkeypatch.setattr(Deadline, "elapsed_s", lambda clock: 10.0)
    measured = load.Load()
    now.update(busy=1000 + busy_s, own=3 + own_s)
    assert measured.taken_share(jobs) == pytest.approx(share)


def test_unknown_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "_busy_s", lambda: None)
    assert load.Load().taken_share(1) is None


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="no Linux")
def test_both_clocks_count_children(monkeypatch: pytest.MonkeyPatch) -> None:
    own_s, busy_s = load._own_s(), load._busy_s()
    subprocess.run([sys.executable, "-c", BUSY], check=True)
    until_s = load._busy_s()
    assert busy_s is not None
    assert until_s is not None
    assert load._own_s() - own_s >= 0.25
    # Other programs may have been busy, too.
    assert until_s - busy_s >= 0.2
    # Cores that this process may not use do not count.
    monkeypatch.setattr(os, "sched_getaffinity", lambda of: set())
    assert load._busy_s() == 0
