"""H2's ablation (Table 9) on Exp-C-1, compared with the paper's measurements.

Run with ``python -m benchmarks.h2_ablation``; prints Markdown. The plan is the best of
HeteroAuto's space: no context parallelism, plain 1F1B, proven by ``dp``. Each row
removes one feature and simulates the rest:

*TCP*: links staged in the hosts' memory whose connections have a tenth of the rate of
device-direct RDMA (H2, section 3.2.1: 9.94 times the latency on average, 1.79 to
16.0 by size; only Fig. 7 has the points). *Uniform 1F1B*: the same number of layers on
every stage, with the plan's own degrees and with the best ones. *Without SR&AG*: the
other ways to reshard. *Without overlap*: sends and receives of one boundary block as
one exchange (``1f1b-batched``), or one after the other (``1f1b-blocking``). *NIC
affinity*: 5.51 instead of 9.56 GB/s from chip A to chip B (Table 3).

H2's own cost model (section 4.3.2) is printed for the same plan, with a bubble
coefficient alpha of 1 (1F1B) and 0 (ZB-V).

All latencies are modelled and nothing depends on the machine.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks.variants import variant
from hetopt.cost.build import build_table
from hetopt.planning.plan import plan as plan_of
from hetopt.pricing.price import pipeline_times
from hetopt.schedule.run import simulate

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.schedule.times import PipelineTimes

PROBLEM = "h2-exp-c-1"
#: HeteroAuto has no context parallelism on either chip.
SPACE: dict[str, object] = {
    "pin.clusters.chip-a.cp": 1,
    "pin.clusters.chip-b.cp": 1,
}
TCP: dict[str, object] = {
    "links.default.per_connection": "10 Gbps",
    "links.default.staged": "host",
    "links.default.per_message": "100 us",
}
#: Table 3, chip A to chip B: without and with NIC affinity.
NO_AFFINITY: dict[str, object] = {"links.default.per_connection": "44.08 Gbps"}
AFFINITY: dict[str, object] = {"links.default.per_connection": "76.48 Gbps"}
NO_SR_AG: dict[str, object] = {"pin.forbid.resharding": ["send-recv-all-gather"]}
#: Table 9: iteration time relative to the full system.
PUBLISHED = {
    "tcp": "110.1%",
    "uniform": "126.4%",
    "no-sr-ag": "104.8%",
    "no-overlap": "101.8%",
}
BLOCKING: tuple[tuple[ScheduleName, str], ...] = (
    ("1f1b-batched", "each exchange blocks"),
    ("1f1b-blocking", "each transfer blocks"),
)


def best(problem: Problem) -> Plan | None:
    """Return the proven optimum; None if no plan fits."""
    result = plan_of(problem, solver="dp")
    if result.best is None:
        return None
    assert result.status == "optimal"
    return result.best.plan


def seconds(
    problem: Problem, plan: Plan, schedule: ScheduleName | None = None
) -> float:
    """Simulate a plan with a problem's links and permitted ways to reshard."""
    times = pipeline_times(plan, build_table(problem))
    if schedule is not None:
        times = replace(times, schedule=schedule)
    return simulate(times).makespan_ns / 1e9


def even(plan: Plan) -> tuple[int, ...]:
    """Return units per stage, layers spread evenly; embedding and head are added."""
    stages = plan.pipeline.stages
    layers = stages[-1].end_unit - 2
    share, left = divmod(layers, len(stages))
    units = [share + (index < left) for index in range(len(stages))]
    units[0] += 1
    units[-1] += 1
    return tuple(units)


def recut(plan: Plan, units: tuple[int, ...]) -> Plan:
    """Return a plan with other numbers of units on its stages."""
    stages, first = [], 0
    for stage, count in zip(plan.pipeline.stages, units, strict=True):
        stages.append(replace(stage, first_unit=first, end_unit=first + count))
        first += count
    pipeline = replace(plan.pipeline, stages=tuple(stages))
    return replace(plan, pipelines=(pipeline,))


def told(plan: Plan) -> str:
    """Return a plan in a few words: cluster, stages, degrees, layers of each."""
    words: list[tuple[str, list[str]]] = []
    for stage in plan.pipeline.stages:
        s = stage.strategy
        word = f"{stage.cluster} dp {s.dp}, tp {s.tp}"
        if not words or words[-1][0] != word:
            words.append((word, []))
        words[-1][1].append(str(stage.units))
    text = "; ".join(f"{word}: {' '.join(units)}" for word, units in words)
    return f"{text}; q = {plan.pipeline.microbatches}"


def estimate_s(times: PipelineTimes, alpha: float) -> float:
    """Return H2's iteration time of section 4.3.2; transfers take no time in it."""
    comp, q = times.round_trip_ns, times.microbatches
    whole = max(
        q * own + sync + alpha * (sum(comp) - own)
        for own, sync in zip(comp, times.sync_ns, strict=True)
    )
    return whole / 1e9


def main() -> int:
    """Print the table."""
    problem = variant(PROBLEM, SPACE)
    full = best(problem)
    assert full is not None
    whole = seconds(problem, full)
    print("| without | published | ours | s | plan |\n|---|---|---|---|---|")

    def row(words: str, published: str, plan: Plan | None, took: float | None) -> None:
        share = "" if took is None else f"{took / whole:.1%}"
        shown = "no plan fits" if took is None else f"{took:.3f}"
        layout = "" if plan is None else told(plan)
        print(f"| {words} | {published} | {share} | {shown} | {layout} |", flush=True)

    def planned(words: str, published: str, other: Problem) -> None:
        found = best(other)
        row(words, published, found, None if found is None else seconds(other, found))

    row("nothing", "100%", full, whole)
    slow = variant(PROBLEM, SPACE | TCP)
    row("RDMA (TCP), same plan", PUBLISHED["tcp"], full, seconds(slow, full))
    planned("RDMA (TCP), planned for it", PUBLISHED["tcp"], slow)
    uniform = recut(full, even(full))
    row(
        "uneven layers, same degrees",
        PUBLISHED["uniform"],
        uniform,
        seconds(problem, uniform),
    )
    planned(
        "uneven layers, best degrees",
        PUBLISHED["uniform"],
        variant(
            PROBLEM,
            SPACE | {"pin.stages": len(even(full)), "pin.units": list(even(full))},
        ),
    )
    poor = variant(PROBLEM, SPACE | NO_SR_AG)
    row("SR&AG, same plan", PUBLISHED["no-sr-ag"], full, seconds(poor, full))
    planned("SR&AG, planned for it", PUBLISHED["no-sr-ag"], poor)
    for schedule, words in BLOCKING:
        row(
            f"overlap ({words}), same plan",
            PUBLISHED["no-overlap"],
            full,
            seconds(problem, full, schedule),
        )
    blocking = seconds(slow, full, "1f1b-blocking")
    row("RDMA and overlap (each transfer blocks), same plan", "", full, blocking)
    near, far = (variant(PROBLEM, SPACE | each) for each in (AFFINITY, NO_AFFINITY))
    row("nothing, 9.56 GB/s a connection", "", full, seconds(near, full))
    row("NIC affinity, 5.51 GB/s a connection", "", full, seconds(far, full))
    times = pipeline_times(full, build_table(problem))
    print(
        f"\nH2's cost model for the plan: {estimate_s(times, 1):.3f} s with alpha = 1, "
        f"{estimate_s(times, 0):.3f} s with alpha = 0; simulated {whole:.3f} s."
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
