"""Plan a problem that ships with hetopt, and print the plan."""

from hetopt import CpSatParams, Result, build_table, read_problem, solve
from hetopt.problem.catalogue import problem_files


def main() -> None:
    """Plan HetAuto's first experiment in this process."""
    problem = read_problem(str(problem_files()["hetauto-exp1"]))
    table = build_table(problem)
    result = solve(problem, table, CpSatParams(jobs=0), time_limit_s=60, seed=0)
    show(result)


def show(result: Result) -> None:
    """Print status, times and stages."""
    if result.best is None:
        print(result.status, result.reason)
        return
    plan = result.best.plan
    print(f"{result.status}, gap {result.gap:.1e}")
    print(f"{result.best.closed_form_s:.3f} s per iteration in closed form")
    print(f"{result.best.iteration_time_s:.3f} s simulated")
    print(f"{plan.pipeline.microbatches} micro-batches, {plan.schedule}")
    for number, stage in enumerate(plan.pipeline.stages):
        units = f"units {stage.first_unit} to {stage.end_unit - 1}"
        print(f"stage {number}: {stage.cluster}, {units}, {stage.strategy.label}")


if __name__ == "__main__":
    main()
