"""A problem that is planned in a moment, and hetopt in a process of its own."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import hetopt
from hetopt.cli import main

SMALL = """\
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: fast, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: slow, accelerator: A40, nodes: 1, devices_per_node: 1,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms, staged: host}}
training: {global_batch: 4, seq_len: 1024}
"""

#: A solver that proves such a problem in this process.
DP = ("--solver", "dp", "--jobs", "1")

RunHetopt = Callable[..., subprocess.CompletedProcess[str]]


def answer(problem: str, out: Path, *options: str) -> dict[str, Any]:
    """Plan a problem, and return the answer that was written."""
    assert main(["plan", problem, *DP, "--out", str(out), *options]) == 0
    data: dict[str, Any] = json.loads(out.read_text())
    return data


@pytest.fixture(scope="session")
def environment() -> dict[str, str]:
    """Return variables with which other processes find the hetopt under test."""
    return {**os.environ, "PYTHONPATH": str(Path(hetopt.__file__).parent.parent)}


@pytest.fixture(scope="session")
def run_hetopt() -> RunHetopt:
    """Return a function that runs ``hetopt`` with these arguments in this process."""

    def run(
        *arguments: str, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        with (
            contextlib.chdir(cwd or "/"),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            try:
                code: Any = main(arguments)
            except SystemExit as error:
                code = error.code
        return subprocess.CompletedProcess(
            arguments, code, out.getvalue(), err.getvalue()
        )

    return run


@pytest.fixture(scope="session")
def run_process(environment: dict[str, str]) -> RunHetopt:
    """Return a function that runs ``hetopt`` with these in a process of its own."""

    def run(
        *arguments: str, cwd: Path | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "hetopt", *arguments],
            capture_output=True,
            check=False,
            cwd=cwd or Path("/"),
            env={**environment, **variables},
            text=True,
            timeout=300,
        )

    return run


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``problem.yaml``."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "problem.yaml").write_text(SMALL)
    return folder


@pytest.fixture(scope="session")
def planned(small: Path, run_hetopt: RunHetopt) -> Path:
    """Return a folder with ``problem.yaml``, ``plan.json`` and ``printed.txt``."""
    asked = ("--objective", "closed", "--top", "3", "--out", "plan.json")
    done = run_hetopt("plan", "problem.yaml", *asked, cwd=small)
    assert (done.returncode, done.stderr) == (0, "")
    (small / "printed.txt").write_text(done.stdout)
    return small
