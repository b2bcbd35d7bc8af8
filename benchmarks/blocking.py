"""Blocking transfers: HetAuto's Figure 13, and the error of the closed form.

Run with ``python -m benchmarks.blocking``. The plans that ``virtual-1f1b`` makes for
HetAuto's three experiments, with 40 and with 10 Gbps per node between clusters, are
simulated as they are, and as plain 1F1B whose transfers block (chi = 2), and compared
with the plans made for blocking transfers. The paper reports 1.68 to 1.84 times
(section 7.7, Figure 13). Then the closed form is compared with simulation on random
pipelines. All times are modelled and none depends on the machine.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hetopt.cost.build import build_table
from hetopt.planning.plan import plan
from hetopt.pricing.price import pipeline_times
from hetopt.problem.reading import read_problem
from hetopt.problem.training.choices import ScheduleName
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.run import simulate
from hetopt.schedule.times import PipelineTimes

#: HetAuto's experiments at both rates between clusters.
PROBLEMS = tuple(
    f"hetauto-exp{number}{rate}" for rate in ("", "-10gbps") for number in (1, 2, 3)
)
BLOCKING: tuple[ScheduleName, ...] = ("1f1b-batched", "1f1b-blocking")
CASES = 300


def blocked(times: PipelineTimes, schedule: ScheduleName) -> PipelineTimes:
    """Return a pipeline's times as plain 1F1B under a schedule that blocks."""
    warmups = tuple(range(times.stages, 0, -1))
    return replace(times, schedule=schedule, warmups=warmups)


def planned(name: str, schedule: ScheduleName) -> PipelineTimes:
    """Plan a problem under a schedule; return the times of the best plan."""
    problem = read_problem(name)
    training = replace(problem.training, schedule=schedule)
    problem = replace(problem, training=training)
    table = build_table(problem)
    found = plan(problem, table=table, solver="dp").best
    assert found is not None
    return pipeline_times(found.plan, table)


def compare(name: str) -> str:
    """Return one experiment as a row: seconds, and ratios to virtual-1f1b."""
    times = planned(name, "virtual-1f1b")
    virtual = simulate(times).makespan_ns
    same = simulate(blocked(times, "1f1b-blocking")).makespan_ns
    made = simulate(planned(name, "1f1b-blocking")).makespan_ns
    cells = (
        name,
        f"{virtual / 1e9:.3f}",
        f"{same / 1e9:.3f}",
        f"{same / virtual:.2f}",
        f"{made / 1e9:.3f}",
        f"{made / virtual:.2f}",
    )
    return f"| {' | '.join(cells)} |"


def draw(seed: int) -> PipelineTimes:
    """Draw stages within 8% of each other, kappa up to half a stage's time."""
    rng = Random(seed)
    p, q = rng.randint(2, 8), rng.choice((16, 32, 64))
    tau = [rng.randint(10_000, 10_800) for _ in range(p)]
    transfer = tuple(rng.randint(0, 5_000) for _ in range(p - 1))
    return PipelineTimes(
        schedule="1f1b",
        microbatches=q,
        forward_ns=tuple(each // 3 for each in tau),
        backward_ns=tuple(each - each // 3 for each in tau),
        transfer_ns=transfer,
        occupancy_ns=transfer,
        sync_ns=(0,) * p,
        warmups=tuple(range(p, 0, -1)),
    )


def main() -> None:
    """Print both tables."""
    print("The paper: 1.68 to 1.84.\n", flush=True)
    print(
        "| problem | virtual-1f1b s | its plan, blocking s | ratio "
        "| made for blocking s | ratio |\n|---|---|---|---|---|---|"
    )
    for name in PROBLEMS:
        print(compare(name), flush=True)
    print(f"\nClosed form over simulation, {CASES} pipelines:")
    for schedule in BLOCKING:
        errors = sorted(
            float(closed_form_ns(times) / simulate(times).makespan_ns - 1)
            for times in (blocked(draw(seed), schedule) for seed in range(CASES))
        )
        print(
            f"{schedule}: {errors[0]:+.1%} to {errors[-1]:+.1%}, "
            f"median {errors[CASES // 2]:+.1%}"
        )


if __name__ == "__main__":
    main()
