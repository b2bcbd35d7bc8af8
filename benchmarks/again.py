"""Whether a command gives the same answer every time, and leaves nothing running.

    python -m benchmarks.again [PROBLEM...]

Plans each problem twice with an empty cache and three times with a full one, with one
job and with two, and compares objective, status, lower bound and plan. A second after
each command it looks for processes that the command left. The exit code is 1 if answers
differ or a process is left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

#: Shipped problems, and the one that ``hetopt init`` writes.
INIT = "init"
PROBLEMS = ("hetauto-exp1", "hetauto-exp2", "hetauto-exp3", "h2-exp-a-1", INIT)
#: Variable by which a run's processes are told from others.
_MARK = "HETOPT_BENCHMARK_RUN"
_KEYS = ("objective", "status", "lower_bound_s", "plan")
_LATER_RUNS = 3


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", default=PROBLEMS)
    options = parser.parse_args(arguments)
    print("| problem | runs | answers | objective | bound (s) | left running |")
    print("| --- | --: | --: | --- | --: | --: |")
    same = True
    for problem in options.problems:
        runs = _runs(problem)
        answers = {json.dumps([found.get(key) for key in _KEYS]) for found, _ in runs}
        left = sum(count for _, count in runs)
        same &= len(answers) == 1 and left == 0
        found = runs[0][0]
        print(
            f"| {problem} | {len(runs)} | {len(answers)} | {found.get('objective')} | "
            f"{found.get('lower_bound_s')} | {left} |",
            flush=True,
        )
    return 0 if same else 1


def _runs(problem: str) -> list[tuple[dict[str, Any], int]]:
    """Return the answers of all runs of a problem, and the processes each left."""
    found = []
    for jobs in (1, 2):
        with TemporaryDirectory() as folder:
            for _ in range(1 + _LATER_RUNS):
                found.append(_run(problem, jobs, folder))
    return found


def _run(problem: str, jobs: int, cache: str) -> tuple[dict[str, Any], int]:
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = {**os.environ, "XDG_CACHE_HOME": cache, _MARK: mark}
    environment.pop("NUMBA_CACHE_DIR", None)
    hetopt = [sys.executable, "-m", "hetopt"]
    if problem == INIT:
        path = Path(cache) / "problem.yaml"
        path.unlink(missing_ok=True)
        subprocess.run([*hetopt, INIT, "--out", str(path)], check=True)
        problem = str(path)
    done = subprocess.run(
        [*hetopt, "plan", problem, "--json", "--jobs", str(jobs)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    time.sleep(1)
    try:
        result: dict[str, Any] = json.loads(done.stdout)
    except json.JSONDecodeError:
        result = {"objective": done.stderr}
    return result, len(_marked(mark))


def _marked(mark: str) -> list[int]:
    """Return the processes whose environment has the mark."""
    wanted, found = f"{_MARK}={mark}".encode(), []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                environment = (folder / "environ").read_bytes()
            except OSError:
                continue
            if wanted in environment:
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    sys.exit(main())
