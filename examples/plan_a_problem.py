"""Plan a problem that ships with hetopt, and print the plan."""

import hetopt


def main() -> None:
    """Plan HetAuto's first experiment; print the whole report, then parts of it."""
    result = hetopt.plan("hetauto-exp1")
    print(result)
    if result.best is None:
        return
    plan = result.best.plan
    print(f"{result.status}, gap {result.gap:.1e}")
    print(f"{result.best.iteration_time_s:.3f} s per iteration, simulated")
    print(f"{result.best.closed_form_s:.3f} s in closed form")
    print(f"{plan.pipeline.microbatches} micro-batches, {plan.schedule}")
    for number, stage in enumerate(plan.pipeline.stages):
        units = f"units {stage.first_unit} to {stage.end_unit - 1}"
        print(f"stage {number}: {stage.cluster}, {units}, {stage.strategy.label}")


if __name__ == "__main__":
    main()
