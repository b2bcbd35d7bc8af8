"""How long `hetopt plan` takes, from the command line to the plan.

    python -m benchmarks.speed [--repeat 5] [--out FILE] [PROBLEM...]

Times whole processes, imports included, after one run that fills the cache of compiled
code: with default options, which proves the least simulated time, and with
``--objective closed``; and three times the very first run, with an empty cache, which
compiles the search before it begins. Makes a table in Markdown: medians of wall-clock
seconds and of processor seconds; the latter are more reliable on a busy machine. The
exit code is 1 if some plan is not proven optimal, or if a first run answers otherwise.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.resources import as_file, files
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from hetopt.base.files import write_text

#: Limits in seconds of the proof of the least simulated time on two cores.
USUAL_BARS_S = {
    "hetauto-exp1": 2.0,
    "hetauto-exp2": 3.0,
    "hetauto-exp3": 8.0,
    "h2-exp-a-1": 15.0,
    "h2-exp-a-2": 15.0,
    "h2-exp-b-1": 15.0,
    "h2-exp-b-2": 15.0,
    "h2-exp-c-1": 15.0,
    "h2-exp-c-2": 15.0,
    "h2-exp-d": 15.0,
    "hapt-gpt39b": 15.0,
}
#: Limits for the least closed form.
BARS_S = {
    "hetauto-exp1": 2.0,
    "hetauto-exp2": 3.0,
    "hetauto-exp3": 6.0,
    "h2-exp-a-1": 4.0,
    "h2-exp-a-2": 4.0,
    "h2-exp-b-1": 4.0,
    "h2-exp-b-2": 4.0,
    "h2-exp-c-1": 4.0,
    "h2-exp-c-2": 4.0,
    "h2-exp-d": 4.0,
    "hapt-gpt39b": 8.0,
    "hetauto-appendix-a": 15.0,
}
#: Problems that are planned with an empty cache: nothing is compiled, and no forest is
#: fitted yet.
FIRST = ("hetauto-exp1", "hetauto-exp2", "hetauto-exp3")
#: Limit of the processor seconds that a very first run takes more than later ones.
COMPILING_BAR_S = 70.0
#: Options that minimise the closed form.
CLOSED = ("--objective", "closed")
#: How often the very first run is repeated.
_FIRST_RUNS = 3
_HEAD = (
    "| problem | bar (s) | wall (s) | CPU (s) | status | simulated s | closed form s |",
    "| --- | --: | --: | --: | --- | --: | --: |",
)
_FIRST_HEAD = (
    "| problem | wall (s) | CPU (s) | CPU later (s) | bar (s) | CPU of compiling (s) "
    "| answers |",
    "| --- | --: | --: | --: | --: | --: | --- |",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of hetopt; ``result`` is its output, None if there was none."""

    wall_s: float
    cpu_s: float
    result: dict[str, Any] | None


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", default=[*BARS_S])
    parser.add_argument("--repeat", type=int, default=5, metavar="N")
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args(arguments)
    lines = [
        "# How long `hetopt plan` takes (`python -m benchmarks.speed`)",
        "",
        f"{len(os.sched_getaffinity(0))} cores, load average {load_average()} when it "
        f"began; medians of {options.repeat}.",
    ]
    print("\n".join(lines), flush=True)
    proven = True
    for head, bars_s, flags in (
        ("The least simulated time, as is usual:", USUAL_BARS_S, ()),
        ("The least closed form (`--objective closed`):", BARS_S, CLOSED),
    ):
        lines += ["", head, "", *_HEAD]
        print("\n".join(lines[-5:]), flush=True)
        for problem in options.problems:
            run(problem, *flags)
            runs = [run(problem, *flags) for _ in range(options.repeat)]
            proven &= _add_row(lines, problem, bars_s.get(problem), runs)
    first = [problem for problem in options.problems if problem in FIRST]
    if first:
        head = (
            "The very first run, with an empty cache, and the same run after it; "
            f"medians of {_FIRST_RUNS}."
        )
        lines += ["", head, "", *_FIRST_HEAD]
        print("\n".join(lines[-5:]), flush=True)
    for problem in first:
        proven &= _add_first_row(lines, problem)
    lines += ["", f"Load average at the end {load_average()}.", ""]
    print("\n".join(lines[-3:]))
    if options.out is not None:
        write_text(options.out, "\n".join(lines))
    return 0 if proven else 1


def _add_row(
    lines: list[str], problem: str, bar_s: float | None, runs: list[Run]
) -> bool:
    """Print and add the row of a problem; return whether its plan is proven."""
    result = runs[-1].result or {}
    status = result.get("status", "failed")
    values = [result.get(each) for each in ("iteration_time_s", "closed_form_s")]
    cells = [
        problem,
        "-" if bar_s is None else f"{bar_s:g}",
        f"{median(each.wall_s for each in runs):.2f}",
        f"{median(each.cpu_s for each in runs):.2f}",
        status,
        *("-" if value is None else f"{value:.6f}" for value in values),
    ]
    lines.append(f"| {' | '.join(cells)} |")
    print(lines[-1], flush=True)
    return bool(status == "optimal")


def _add_first_row(lines: list[str], problem: str) -> bool:
    """Print and add what a very first run takes; return whether all answers agree."""
    first, later = [], []
    for _ in range(_FIRST_RUNS):
        with TemporaryDirectory() as folder:
            first.append(run(problem, cache=folder))
            later.append(run(problem, cache=folder))
    compiling_s = median(a.cpu_s - b.cpu_s for a, b in zip(first, later, strict=True))
    answers = {_answer(each) for each in (*first, *later)}
    cells = [
        problem,
        f"{median(each.wall_s for each in first):.2f}",
        f"{median(each.cpu_s for each in first):.2f}",
        f"{median(each.cpu_s for each in later):.2f}",
        f"{COMPILING_BAR_S:g}",
        f"{compiling_s:.1f}",
        "the same" if len(answers) == 1 else "different",
    ]
    lines.append(f"| {' | '.join(cells)} |")
    print(lines[-1], flush=True)
    return len(answers) == 1


def _answer(found: Run) -> str:
    """Return objective, bound and plan of a run, to compare them."""
    result = found.result or {}
    keys = ("objective", "status", "lower_bound_s", "plan")
    return json.dumps([result.get(key) for key in keys])


def run(problem: str, *flags: str, cache: str | None = None) -> Run:
    """Plan a problem file, or one of the repository's by name, in a new process.

    Parameters
    ----------
    cache
        Folder to be used instead of the user's cache.
    """
    with as_file(files("hetopt.data") / "problems" / f"{problem}.yaml") as path:
        named = str(path) if path.exists() else problem
        return timed("plan", "--json", *flags, named, cache=cache)


def timed(*arguments: str, cache: str | None = None) -> Run:
    """Run ``hetopt`` in a new process, which prints JSON; see ``run``."""
    environment = dict(os.environ)
    if cache is not None:
        environment.pop("NUMBA_CACHE_DIR", None)
        environment["XDG_CACHE_HOME"] = cache
    command = [sys.executable, "-m", "hetopt", *arguments]
    before, began = _children_s(), time.perf_counter()
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    )
    wall_s = time.perf_counter() - began
    cpu_s = _children_s() - before
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        print(done.stderr, file=sys.stderr)
        result = None
    return Run(wall_s=wall_s, cpu_s=cpu_s, result=result)


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def load_average() -> str:
    """Return the load averages over 1, 5 and 15 minutes."""
    return " ".join(f"{load:.1f}" for load in os.getloadavg())


if __name__ == "__main__":
    sys.exit(main())
