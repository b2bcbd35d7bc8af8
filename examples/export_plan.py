"""Export a plan to torchrun, and a plan within Megatron-LM's limits to Megatron-LM."""

from pathlib import Path

import hetopt
from hetopt import Result
from hetopt.problem.example import EXAMPLE
from hetopt.problem.reading import read_problem_text


def main() -> None:
    """Write the folders bundle-torchrun and bundle-megatron."""
    problem = read_problem_text(EXAMPLE)
    export(hetopt.plan(problem), "torchrun")
    within = hetopt.plan(problem, launcher="megatron", time_limit_s=60)
    export(within, "megatron")


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
