"""A test that leaves a process running fails, and the tests after it do not."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import processes

LEAKING = """
import subprocess, sys
from pathlib import Path
from tests import processes

processes.PATIENCE_S = 0.2

def test_waits() -> None:
    subprocess.run(("sleep", "0"), check=True)

def test_leaves_a_child() -> None:
    child = subprocess.Popen(("sleep", "300"))
    Path("pids").write_text(str(child.pid))

def test_leaves_an_orphan() -> None:
    said = subprocess.run(
        ("sh", "-c", "sleep 300 >&2 & echo $!"), check=True, stdout=subprocess.PIPE
    ).stdout
    with Path("pids").open("ab") as file:
        file.write(b" " + said)

def test_is_not_disturbed() -> None:
    pass
"""


@pytest.mark.skipif(not processes.children(os.getppid()), reason="no /proc")
def test_a_leaked_process_fails_the_test_that_leaked_it(tmp_path: Path) -> None:
    (tmp_path / "test_leaking.py").write_text(LEAKING)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    root = str(Path(__file__).parents[1])
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.conftest",
            "-p",
            "no:cacheprovider",
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join((root, *sys.path))},
        capture_output=True,
        check=False,
        text=True,
    )
    assert "4 passed, 2 errors" in done.stdout
    for name in ("test_leaves_a_child", "test_leaves_an_orphan"):
        assert f"ERROR test_leaking.py::{name} - Failed: still running: sleep 300" in (
            done.stdout
        )
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        processes.ended(pid)


def test_a_look_takes_no_time() -> None:
    """There is one before and one after each of thousands of tests."""
    began = time.process_time()
    for _ in range(100):
        processes.left(processes.children())
    assert time.process_time() - began < 1
