"""Tree search against proof: times until the optimum is found or proven.

    python -m benchmarks.rivals [--seeds 5] [--time-limit 60] [PROBLEM...]

For each problem: the time in which ``dp`` proves the optimum (median of a few runs
without a time limit), and the times in which ``mcts`` and ``mcts-guided`` come within
1% of it, over seeds; a search that is within 1% is stopped. All times count from the
start of the search, in a process of its own, after one run that compiles; nothing else
runs at the same time. Writes ``benchmarks/results/rivals.md`` and ``rivals.csv``.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from hetopt.base.files import make_folder, write_text
from hetopt.base.machine import machine
from hetopt.planning.side_by_side import Entry, Run, run_apart, warm_up
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from hetopt.report.comparison.comparison import first_within

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.problem import Problem

PROBLEMS = (
    *(f"hetauto-exp{number}" for number in (1, 2, 3)),
    *(f"h2-exp-{letter}-{number}" for letter in "abc" for number in (1, 2)),
    "h2-exp-d",
)
EXACT = "dp"
RIVALS = ("mcts", "mcts-guided")
SHARE = 0.01
OUT = Path(__file__).parent / "results"

HEADER = (
    "| problem | optimum s | proof s | solver | within 1% | median s | least | most "
    "| median : proof |\n"
    "|---|--:|--:|---|--:|--:|--:|--:|--:|"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chase:
    """Runs of a solver that search for a known optimum.

    Attributes
    ----------
    times_s
        By seed, when a plan within 1% was found; None if not within the limit.
    """

    problem: str
    optimum_s: float
    proof_s: float
    solver: str
    times_s: tuple[float | None, ...]
    limit_s: float

    @property
    def median_s(self) -> float | None:
        """Median over the seeds; None if it is above the time limit."""
        known = median(self.limit_s if t is None else t for t in self.times_s)
        return None if known >= self.limit_s else known

    def row(self) -> str:
        """Return the line of the table."""
        there = [t for t in self.times_s if t is not None]
        known = self.median_s
        above = "> " if known is None else ""
        shown = self.limit_s if known is None else known
        cells = (
            self.problem,
            f"{self.optimum_s:.4f}",
            f"{self.proof_s:.2f}",
            self.solver,
            f"{len(there)} of {len(self.times_s)}",
            f"{above}{shown:.2f}",
            f"{min(there):.2f}" if there else "-",
            f"{max(there):.2f}" if len(there) == len(self.times_s) else "-",
            f"{above}{shown / self.proof_s:.2f}",
        )
        return f"| {' | '.join(cells)} |"


@cache
def _warm(solver: str) -> None:
    warm_up(Entry(solver=solver, time_limit_s=None), "virtual-1f1b")
    warm_up(Entry(solver=solver, time_limit_s=None), "1f1b")


def prove(problem: Problem, repeat: int) -> tuple[float, float]:
    """Return the optimum, and the median time of its proof."""
    _warm(EXACT)
    runs = [
        run_apart(problem, Entry(solver=EXACT, time_limit_s=None))
        for _ in range(repeat)
    ]
    for run in runs:
        if run.status != "optimal" or run.closed_form_s is None:
            msg = f"{problem.name}: {EXACT} proves nothing: {run.failure or run.status}"
            raise SystemExit(msg)
    return runs[0].closed_form_s or 0.0, median(run.search_time_s or 0 for run in runs)


def chase(
    problem: Problem,
    solver: str,
    optimum_s: float,
    proof_s: float,
    *,
    seeds: int,
    limit_s: float,
) -> Chase:
    """Run a solver once per seed until it is within 1%."""
    _warm(solver)
    enough_s = optimum_s * (1 + SHARE)
    runs = [
        run_apart(
            problem,
            Entry(solver=solver, seed=seed, time_limit_s=limit_s, enough_s=enough_s),
        )
        for seed in range(seeds)
    ]
    for run in runs:
        _ensure_sane(problem, run, optimum_s)
    return Chase(
        problem=problem.name,
        optimum_s=optimum_s,
        proof_s=proof_s,
        solver=solver,
        times_s=tuple(first_within(run.trace, optimum_s, SHARE) for run in runs),
        limit_s=limit_s,
    )


def _ensure_sane(problem: Problem, run: Run, optimum_s: float) -> None:
    if run.status is None:
        raise SystemExit(f"{problem.name}: {run.entry.solver}: {run.failure}")
    if run.closed_form_s is not None and run.closed_form_s < optimum_s * (1 - 1e-6):
        msg = f"{problem.name}: {run.entry.solver} is better than the proven optimum"
        raise SystemExit(msg)


def _csv(found: Sequence[Chase]) -> str:
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(
        ("problem", "optimum_s", "proof_s", "solver", "seed", "within_1%_s", "limit_s")
    )
    for each in found:
        for seed, time_s in enumerate(each.times_s):
            writer.writerow(
                (
                    each.problem,
                    each.optimum_s,
                    each.proof_s,
                    each.solver,
                    seed,
                    time_s,
                    each.limit_s,
                )
            )
    return stream.getvalue()


def _markdown(found: Sequence[Chase], *, seeds: int, limit_s: float) -> str:
    lines = [
        "# Tree search against proof",
        "",
        f"`python -m benchmarks.rivals --seeds {seeds} --time-limit {limit_s:g}` on "
        f"{machine()}.",
        "",
        "Seconds of search, all cores, one search at a time. *Proof*: until `dp` has "
        "proven the optimum (median). *Median*: until tree search knew a plan within "
        "1% of it, over the seeds; a seed that did not get there counts as the limit. "
        "All latencies are modelled.",
        "",
        HEADER,
        *(each.row() for each in found),
        "",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and write both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", default=[*PROBLEMS])
    parser.add_argument("--seeds", type=int, default=5, metavar="N")
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="proofs")
    parser.add_argument("--out", default=str(OUT), metavar="DIR")
    options = parser.parse_args(arguments)
    folder = make_folder(options.out)
    found: list[Chase] = []
    print(HEADER, flush=True)
    for name in options.problems:
        problem = read_problem(str(problem_files()[name]))
        optimum_s, proof_s = prove(problem, options.repeat)
        for solver in RIVALS:
            found.append(
                chase(
                    problem,
                    solver,
                    optimum_s,
                    proof_s,
                    seeds=options.seeds,
                    limit_s=options.time_limit,
                )
            )
            print(found[-1].row(), flush=True)
    text = _markdown(found, seeds=options.seeds, limit_s=options.time_limit)
    write_text(str(folder / "rivals.md"), text)
    write_text(str(folder / "rivals.csv"), _csv(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
