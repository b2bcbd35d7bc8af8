"""Proofs of the least simulated time, and of optima in wider spaces.

    python -m benchmarks.proofs [--time-limit 100] [--out FILE]

Plans HetAuto's, H2's and HAPT's problems, each in a new process from the command line:
for the least simulated time, under the problem's schedule (HetAuto's also with free
warm-ups); and HetAuto's with some principles relaxed, by two solvers if both support
it. Makes two tables in Markdown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.speed import run
from hetopt.base.files import write_text
from hetopt.base.machine import machine
from hetopt.problem.training.choices import FREE

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPERIMENTS = tuple(f"hetauto-exp{number}" for number in (1, 2, 3))
H2 = ("a-1", "a-2", "b-1", "b-2", "c-1", "c-2", "d")
#: Problems and schedules for which the least simulated time is searched.
SIMULATED = (
    *((name, each) for name in EXPERIMENTS for each in ("virtual-1f1b", FREE)),
    *((f"h2-exp-{name}", "1f1b") for name in H2),
    ("hapt-gpt39b", "h-1f1b"),
)
#: Gaps that remain are reported after this many seconds too.
EARLY_S = 10.0
#: Problems that both solvers prove in these wider spaces.
SMALL = EXPERIMENTS[:2]
SPACES = ("p4", "p4-falling-tp", "p3", "p4,p3")
#: Spaces for the largest experiment, which takes minutes if P3 is relaxed.
LARGE = ("p4", "p4-falling-tp")
OUT = Path(__file__).parent / "results" / "proofs.md"


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--time-limit", type=float, default=100.0, metavar="S")
    parser.add_argument("--out", default=str(OUT), metavar="FILE")
    options = parser.parse_args(arguments)
    lines: list[str] = []
    for line in tables(f"{options.time_limit:g}"):
        lines.append(line)
        print(line, flush=True)
    write_text(options.out, "\n".join([*lines, ""]))
    return 0


def tables(limit: str) -> Iterator[str]:
    """Yield the lines of both tables."""
    yield "# Proofs of other times and of other spaces"
    yield ""
    yield (
        f"Made by `python -m benchmarks.proofs --time-limit {limit}`. All latencies "
        "are modelled."
    )
    yield ""
    yield (
        "| problem | schedule | least closed form, simulated s | least simulated s | "
        f"status | gap | search s | whole process s | gap after {EARLY_S:g} s |"
    )
    yield "|---|---|--:|--:|---|--:|--:|--:|--:|"
    for name, schedule in SIMULATED:
        yield _simulated(name, schedule, limit)
    yield ""
    yield "| problem | without | solver | closed form s | status | gap | search s |"
    yield "|---|---|---|--:|---|--:|--:|"
    for name in EXPERIMENTS:
        yield _relaxed(name, None, "dp", limit)
        for space in SPACES if name in SMALL else LARGE:
            for solver in ("dp", "miqp-highs") if name in SMALL else ("dp",):
                yield _relaxed(name, space, solver, limit)
    yield ""
    yield f"On {machine()}; one run after the other."


def _simulated(name: str, schedule: str, limit: str) -> str:
    flags = ("--schedule", schedule, "--objective", "simulated")
    closed = ("--objective", "closed", "--time-limit", limit)
    # Free warm-up counts are searched by the simulated time alone.
    usual = {} if schedule == FREE else _planned(name, *flags[:2], *closed)
    least = run(name, *flags, "--time-limit", limit)
    found = least.result or {}
    early = found
    if found.get("search_time_s", 0.0) > EARLY_S:
        early = _planned(name, *flags, "--time-limit", f"{EARLY_S:g}")
    cells = (
        name,
        schedule,
        _seconds(usual, "iteration_time_s"),
        _seconds(found, "iteration_time_s"),
        *_proof(found),
        f"{least.wall_s:.1f}",
        _proof(early)[1],
    )
    return f"| {' | '.join(cells)} |"


def _relaxed(name: str, space: str | None, solver: str, limit: str) -> str:
    relax = () if space is None else ("--relax", space)
    result = _planned(name, "--solver", solver, "--time-limit", limit, *relax)
    cells = (
        name,
        space or "nothing",
        solver,
        _seconds(result, "closed_form_s"),
        *_proof(result),
    )
    return f"| {' | '.join(cells)} |"


def _planned(name: str, *flags: str) -> dict[str, Any]:
    return run(name, *flags).result or {}


def _seconds(result: dict[str, Any], key: str) -> str:
    value = result.get(key)
    return "-" if value is None else f"{value:.4f}"


def _proof(result: dict[str, Any]) -> tuple[str, str, str]:
    gap, search_s = result.get("gap"), result.get("search_time_s")
    return (
        result.get("status", "failed"),
        "-" if gap is None else f"{gap:.2%}",
        "-" if search_s is None else f"{search_s:.1f}",
    )


if __name__ == "__main__":
    sys.exit(main())
