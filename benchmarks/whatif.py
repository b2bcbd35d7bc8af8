"""The time of eight variants of a problem relative to one plan of it.

    python -m benchmarks.whatif [--repeat 5] [--out FILE] [PROBLEM...]

Runs `hetopt plan PROBLEM` and `hetopt whatif PROBLEM` with the problem and eight
variants of it, in turn, each in a process of its own, after one run that is not
counted. Makes a table in Markdown: medians of wall-clock and CPU seconds, and of the
ratios within each pair, which other load of the machine affects least. The exit code is
1 if a ratio is above 3, some variant is not proven, or the problem's own plan is not
that of `hetopt plan`.
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.speed import CLOSED, load_average, timed
from hetopt.base.files import write_text
from hetopt.problem.reading import read_problem

if TYPE_CHECKING:
    from benchmarks.speed import Run

#: The problem of `docs/how-to/what-if.md`.
PROBLEM = "a100-h100-v100"
VARIANTS = 8
#: Largest permitted time of eight variants, relative to one plan.
BAR = 3.0
#: Limit in seconds for all variants of that problem.
LIMIT_S = 60.0


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", default=[PROBLEM])
    parser.add_argument("--repeat", type=int, default=5, metavar="N")
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args(arguments)
    lines = [
        "# Eight variants beside one solve (`python -m benchmarks.whatif`)",
        "",
        f"Load average {load_average()} when it began; medians of {options.repeat} "
        "pairs.",
        "",
        "| problem | plan wall (s) | CPU (s) | what-if wall (s) | CPU (s) | "
        "ratio of wall | of CPU | proven |",
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
    ]
    good = True
    for problem in options.problems:
        asked = changes(problem)
        pair(problem, asked)
        pairs = [pair(problem, asked) for _ in range(options.repeat)]
        line, held = row(problem, pairs)
        lines.append(line)
        good &= held
    lines += ["", f"Load average at the end {load_average()}.", ""]
    print("\n".join(lines))
    if options.out is not None:
        write_text(options.out, "\n".join(lines))
    return 0 if good else 1


def changes(problem: str) -> list[str]:
    """Return options for eight variants: first of clusters, then of links."""
    clusters = read_problem(problem).clusters
    asked = ["--drop-each"]
    # --drop-each drops each cluster if there are several, and a node if it has several.
    count = sum((len(clusters) > 1) + (each.nodes > 1) for each in clusters)
    for number in range(VARIANTS - count):
        if number % 2 == 0:
            asked += ["--add", f"{clusters[0].name}:{1 + number // 2}"]
        else:
            asked += ["--set", f"links.default.bandwidth={25 * number} Gbps"]
    return asked


def pair(problem: str, asked: list[str]) -> tuple[Run, Run]:
    """Run both commands, one after the other."""
    alone = timed("plan", "--json", *CLOSED, problem)
    return alone, timed("whatif", "--json", *asked, problem)


def row(problem: str, pairs: list[tuple[Run, Run]]) -> tuple[str, bool]:
    """Return a line of the table, and whether all checks pass."""
    wall = median(many.wall_s / one.wall_s for one, many in pairs)
    cpu = median(many.cpu_s / one.cpu_s for one, many in pairs)
    one, many = pairs[-1]
    rows = (many.result or {}).get("rows", [])
    proven = sum(each["status"] in ("optimal", "infeasible") for each in rows)
    same = bool(rows) and one.result is not None
    same = same and rows[0]["plan"] == (one.result or {})["plan"]
    cells = [
        problem,
        f"{median(one.wall_s for one, _ in pairs):.2f}",
        f"{median(one.cpu_s for one, _ in pairs):.2f}",
        f"{median(many.wall_s for _, many in pairs):.2f}",
        f"{median(many.cpu_s for _, many in pairs):.2f}",
        f"{wall:.2f}",
        f"{cpu:.2f}",
        f"{proven} of {len(rows)}",
    ]
    slow = problem == PROBLEM and median(many.wall_s for _, many in pairs) > LIMIT_S
    held = wall <= BAR and same and proven == len(rows) == VARIANTS + 1 and not slow
    return f"| {' | '.join(cells)} |", held


if __name__ == "__main__":
    sys.exit(main())
