"""Export a plan to torchrun, and a plan within Megatron-LM's limits to Megatron-LM."""

from dataclasses import replace
from pathlib import Path

import hetopt
from hetopt import Result, build_table
from hetopt.base.deadline import Deadline
from hetopt.export.planning.limits import fitted
from hetopt.export.planning.search import solve_for
from hetopt.export.registry import limits_of
from hetopt.problem.example import EXAMPLE
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.loading import load
from hetopt.solvers.request import Request


def main() -> None:
    """Write the folders bundle-torchrun and bundle-megatron."""
    problem = read_problem_text(EXAMPLE)
    export(hetopt.plan(problem), "torchrun")
    limited = fitted(limits_of("megatron"), problem)
    within = solve_for(
        Request(
            problem=limited, table=build_table(limited), deadline=Deadline.after(60)
        ),
        launcher="megatron",
        asked=problem,
        solve=load("auto"),
    )
    export(replace(within, problem=limited), "megatron")


def export(result: Result, name: str) -> None:
    """Write the files of the result's plan for a launcher."""
    assert result.best is not None
    folder = f"bundle-{name}"
    files = hetopt.export_plan(result, to=name, out=folder)
    print(f"{folder}: {result.best.iteration_time_s:.3f} s per iteration, simulated")
    for path in files:
        print(f"  {Path(folder) / path}")


if __name__ == "__main__":
    main()
