"""Which plans each launcher can run as they are, and the cost of its limits.

    python -m benchmarks.exports [--generated N] [--out FILE] [PROBLEM...]

Every proven plan is exported to every launcher; if an export is not exact, its losses
are listed. For launchers with limits a plan is also made with `hetopt plan --for`: it
must be proven, and exported without loss. Exports that can be read back are read back
and compared; FlagScale's folders go through the tests' own checker. Writes a table in
Markdown; the exit code is 1 if any of these checks fails.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import hetopt
from benchmarks.growing import Size
from benchmarks.growing import problem as generate
from hetopt.base.files import write_text
from hetopt.base.machine import machine
from hetopt.cli.inputs import load_problem
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.registry import SHIPPED as LAUNCHERS
from hetopt.export.registry import launcher, readers
from hetopt.solvers.dp.solver import solve
from hetopt.solvers.request import Request
from tests.export.flagscale.checker import broken_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

SHIPPED = ("hetauto-exp1", "hetauto-exp2", "hetauto-exp3", "h2-exp-a-1")
SIZES = (Size(1, 64, 24), Size(2, 64, 24), Size(2, 256, 32), Size(3, 256, 40))


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", default=[*SHIPPED])
    parser.add_argument("--generated", type=int, default=10, metavar="N")
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args(arguments)
    problems = [load_problem(name) for name in options.problems]
    problems += [
        generate(SIZES[seed % len(SIZES)], seed) for seed in range(options.generated)
    ]
    lines = [
        "# What launchers make of proven plans (`python -m benchmarks.exports`)",
        "",
        "All latencies are modelled; nothing was launched.",
        "",
        "| problem | launcher | the proven plan | planned for it | price, closed form |"
        " price, simulated | read back |",
        "| --- | --- | --- | --- | --: | --: | --- |",
    ]
    wrong: list[str] = []
    print("\n".join(lines))
    for problem in problems:
        for row in _rows(problem, wrong):
            lines.append(row)
            print(row, flush=True)
    lines += ["", f"On {machine()}.", ""]
    if options.out is not None:
        write_text(options.out, "\n".join(lines))
    print(*wrong, sep="\n", file=sys.stderr)
    return bool(wrong)


def _rows(problem: Problem, wrong: list[str]) -> Iterator[str]:
    """Yield a row per launcher; add failed checks to ``wrong``."""
    result = solve(Request(problem=problem, table=build_table(problem)))
    assert result.best is not None
    for name in LAUNCHERS:
        lost = [
            loss.what
            for loss in launcher(name).losses(Job.of(problem, result.best.plan))
        ]
        cells = ["exact" if not lost else f"loses {len(lost)}: {'; '.join(lost)}"]
        back = "" if lost else _read_back(name, problem, result.best.plan, wrong)
        if LAUNCHERS[name]:
            cells += _planned_for(name, problem, wrong)
            back = cells.pop()
        else:
            cells += ["", "", ""]
        yield f"| {problem.name} | {name} | {' | '.join(cells)} | {back} |"


def _planned_for(name: str, problem: Problem, wrong: list[str]) -> list[str]:
    """Return cells about the plan of `hetopt plan --for` and its export."""
    try:
        result = hetopt.plan(problem, launcher=name, solver="dp")
    except InputError as error:
        return [f"refused: {error}", "", "", ""]
    best, launch, asked = result.best, result.launch, result.problem
    if best is None:
        return [f"{result.status}: {result.reason}", "", "", ""]
    assert launch is not None
    assert asked is not None
    assert launch.closed_form_s is not None
    assert launch.iteration_time_s is not None
    lost = [loss.what for loss in launcher(name).losses(Job.of(asked, best.plan))]
    if lost or result.status != "optimal":
        wrong.append(f"{problem.name}, {name}: {result.status}, loses {lost}")
    return [
        f"{best.closed_form_s:.4f} s, {result.status}",
        f"{best.closed_form_s / launch.closed_form_s - 1:+.2%}",
        f"{best.iteration_time_s / launch.iteration_time_s - 1:+.2%}",
        _read_back(name, asked, best.plan, wrong),
    ]


def _read_back(name: str, problem: Problem, plan: Plan, wrong: list[str]) -> str:
    """Write a plan's folder, check it, read it, and say whether it is the same."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "bundle"
        files = bundle(Job.of(problem, plan), launcher(name), allow_lossy=False)
        write_folder(str(folder), files)
        if name == "flagscale":
            wrong += [f"{problem.name}: {rule}" for rule in broken_rules(folder)]
        if name not in readers():
            return ""
        imported = import_plan(readers()[name].read(folder), problem)
    # Another schedule may prescribe the same warm-ups: compare the pipelines only.
    same = replace(imported.plan, schedule=plan.schedule).pipelines == plan.pipelines
    if not same:
        wrong.append(f"{problem.name}, {name}: another plan is read back")
    return "the same plan" if same else "another plan"


if __name__ == "__main__":
    sys.exit(main())
