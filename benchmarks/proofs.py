"""Proofs beside the usual one: of the least simulated time, and of wider spaces.

    python -m benchmarks.proofs [--time-limit 100] [--out FILE]

Plans HetAuto's experiments, each in a new process from the command line: for the least
simulated time, with the default schedule and with free warm-ups, and without some of
HetAuto's principles, by two solvers where both do it. Makes two tables in Markdown.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.speed import run
from hetopt.files import write_text
from hetopt.machine import machine

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPERIMENTS = tuple(f"hetauto-exp{number}" for number in (1, 2, 3))
SCHEDULES = ("virtual-1f1b", "auto")
#: Problems that both solvers prove without these principles, and the spaces.
SMALL = EXPERIMENTS[:2]
SPACES = ("p4", "p4-falling-tp", "p3", "p4,p3")
#: The largest experiment takes minutes where clusters may be entered twice.
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
        "status | gap | search s |"
    )
    yield "|---|---|--:|--:|---|--:|--:|"
    for name in EXPERIMENTS:
        for schedule in SCHEDULES:
            flags = ("--schedule", schedule, "--time-limit", limit)
            usual = _planned(name, *flags)
            least = _planned(name, *flags, "--objective", "simulated")
            cells = (
                name,
                schedule,
                _seconds(usual, "iteration_time_s"),
                _seconds(least, "iteration_time_s"),
                *_proof(least),
            )
            yield f"| {' | '.join(cells)} |"
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
