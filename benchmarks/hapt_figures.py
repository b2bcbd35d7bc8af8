"""HAPT's Table 1 and Figures 7 to 10 on its 32 A100 and 32 V100 (HAPT, section 6).

Run with ``python -m benchmarks.hapt_figures``; prints Markdown. Every plan is proven
optimal by ``dp`` within its space, or comes with its gap; times of training are
modelled. The paper's text gives only configuration (h) of Fig. 7 (in Table 2), and few
values; values that are only in pictures are left blank.

*Table 1*: 4 A100 in two nodes and 2 V100 in one, three stages of two devices each, 128
micro-batches, 128 equal layers, cut between groups of 16 or between all. *Fig. 7h*:
compared with a planner that cuts between layers, under 1F1B with blocking transfers, as
HexiScale hardly overlaps. *Fig. 8*: how the devices of the two stages at the boundary
between the clusters spend a simulated iteration, HAPT's balance (Eq. 25), and for each
of the two the share of the inter-cluster transfer time during which it computes.
*Fig. 9*: A100 alone with about the same peak FLOP/s. *Fig. 10*: 3 to 10 Gbps between
the clusters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.hapt import Case, coarsened
from benchmarks.variants import variant
from hetopt.cost.build import build_table
from hetopt.planning.plan import plan as plan_of
from hetopt.pricing.balance import balance
from hetopt.pricing.price import price
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.schedule.run import simulate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.training.choices import ScheduleName
    from hetopt.schedule.run import Simulation

PROBLEM = "hapt-gpt39b"
#: The schedules of HAPT, Alpa (Eager-1F1B) and Megatron or HexiScale, all else equal.
SCHEDULES: tuple[ScheduleName, ...] = ("h-1f1b", "eager-1f1b", "1f1b")
GBPS = (10, 9, 8, 7, 6, 5, 4, 3)
#: A proof of H-1F1B may take long if transfers are as long as stages.
LIMIT_S = 120.0
#: The vocabulary is tiny, so that only layers matter.
CASE_STUDY = """
model:
  {name: case-study, layers: 128, hidden: 2048, heads: 16, ffn: 8192, vocab: 128,
   gated: false, norm: layer}
clusters:
  - {name: v100, accelerator: V100-32GB, nodes: 1, devices_per_node: 2,
     intra_node: {bandwidth: 150 GB/s}, nics_per_node: 1,
     inter_node: {bandwidth: 200 Gbps, latency: 5 us}}
  - {name: a100, accelerator: A100-40GB, nodes: 2, devices_per_node: 2,
     intra_node: {bandwidth: 300 GB/s}, nics_per_node: 1,
     inter_node: {bandwidth: 200 Gbps, latency: 5 us}}
links:
  default: {bandwidth: unlimited, per_connection: 5 Gbps, latency: 0, per_message: 1 ms}
training:
  {global_batch: 128, seq_len: 1024, precision: fp16, zero: 1, recompute: auto,
   schedule: h-1f1b}
pin: {stages: 3, microbatches: 128}
"""
#: Table 1: granularity -> layers of the three stages, and greatest cost in t.
TABLE_1 = {8: ("2, 3, 3", 1.65), 128: ("22, 53, 53", 1.13)}


def best(problem: Problem, table: CostTable) -> Plan:
    """Return the proven optimum."""
    plan, gap = found(problem, table, None)
    assert not gap
    return plan


def found(
    problem: Problem, table: CostTable, limit_s: float | None
) -> tuple[Plan, float]:
    """Return the best plan within the time limit, and its gap; 0 if it is proven."""
    result = plan_of(problem, table=table, solver="dp", time_limit_s=limit_s)
    assert result.best is not None
    assert result.gap is not None
    return result.best.plan, 0.0 if result.status == "optimal" else result.gap


def table_1() -> None:
    """Print Table 1: coarse and fine layers of one model."""
    print(
        "## Table 1\n\n| layers | published | greatest cost, t | ours | cost of the "
        "stages, share of the mean | simulated s |\n|---|---|---|---|---|---|"
    )
    problem = read_problem_text(CASE_STUDY)
    fine = Case(name="128 layers", problem=problem, table=build_table(problem))
    took = {}
    for case in (coarsened(problem, fine.table, 16), fine):
        plan = best(case.problem, case.table)
        priced = price(plan, case.table)
        times = priced.times.round_trip_ns
        mean = sum(times) / len(times)
        layers = case.problem.model.layers
        took[layers] = priced.iteration_time_s
        ends = len(plan.pipeline.stages) - 1
        units = (
            stage.units - (index == 0) - (index == ends)
            for index, stage in enumerate(plan.pipeline.stages)
        )
        of = ", ".join(
            f"{stage.cluster} {count}"
            for stage, count in zip(plan.pipeline.stages, units, strict=True)
        )
        shares = ", ".join(f"{each / mean:.2f}" for each in times)
        published, cost = TABLE_1[layers]
        print(
            f"| {layers} | {published} | {cost} | {of} | {shares} "
            f"| {priced.iteration_time_s:.4f} |",
            flush=True,
        )
    print(
        f"\nThe fine plan has {took[8] / took[128] - 1:.1%} more throughput (HAPT: "
        "40.1%, with its transfers overlapped in full)."
    )


def spans(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return spans of time, overlapping ones joined: (n, 2), ascending, disjoint."""
    order = np.argsort(starts)
    joined: list[list[int]] = []
    for begin, end in zip(starts[order].tolist(), ends[order].tolist(), strict=True):
        if joined and begin <= joined[-1][1]:
            joined[-1][1] = max(joined[-1][1], end)
        else:
            joined.append([begin, end])
    return np.array(joined, dtype=np.int64).reshape(-1, 2)


def length(of: NDArray[np.int64]) -> int:
    """Return the total length of spans."""
    return int((of[:, 1] - of[:, 0]).sum())


def shared(first: NDArray[np.int64], second: NDArray[np.int64]) -> int:
    """Return the total time that two sets of spans have in common."""
    both = np.vstack((first, second))
    return length(first) + length(second) - length(spans(both[:, 0], both[:, 1]))


def computing(simulation: Simulation, stage: int) -> NDArray[np.int64]:
    """Return when a stage computes."""
    return spans(
        np.hstack((simulation.starts_ns["F"][stage], simulation.starts_ns["B"][stage])),
        np.hstack((simulation.ends_ns["F"][stage], simulation.ends_ns["B"][stage])),
    )


def transferring(simulation: Simulation, boundary: int) -> NDArray[np.int64]:
    """Return when a boundary transfers, in either direction."""
    starts = np.hstack(
        (
            simulation.sent_ns["F"][boundary],
            simulation.sent_ns["B"][boundary + 1],
        )
    )
    return spans(starts, starts + simulation.times.transfer_ns[boundary])


def figure_8(problem: Problem, table: CostTable) -> None:
    """Print Fig. 8: computation, exposed transfers, idle time and overlap."""
    print(
        "\n## Figure 8\n\nShares of the simulated iteration; in HAPT's text: balance "
        "of Hapt 94.8%, HexiScale 88.4%; overlap of Megatron 74.7%, Alpa 66.7%, "
        "HexiScale 4.9%, Hapt almost all.\n\n"
        "| schedule | simulated s | balance | overlap "
        "| stage | cluster | computing | transfers alone | idle |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    for schedule in SCHEDULES:
        training = replace(problem.training, schedule=schedule)
        asked = replace(problem, training=training)
        rows = stage_shares(best(asked, build_table(asked)), asked)
        print("\n".join(f"| {schedule} | {row} |" for row in rows), flush=True)


def stage_shares(plan: Plan, problem: Problem) -> Iterable[str]:
    """Yield a row for every stage next to the boundary between clusters."""
    priced = price(plan, build_table(problem))
    simulation = simulate(priced.times)
    stages = plan.pipeline.stages
    eta = balance(problem, plan, priced)
    for index, stage in enumerate(stages):
        after = index + 1 < len(stages) and stages[index + 1].cluster
        before = index > 0 and stages[index - 1].cluster
        if {after, before} <= {stage.cluster, False}:
            continue
        own = computing(simulation, index)
        sides = [
            transferring(simulation, boundary)
            for boundary in (index - 1, index)
            if 0 <= boundary < len(stages) - 1
        ]
        both = np.vstack(sides)
        moving = spans(both[:, 0], both[:, 1])
        crossing = transferring(
            simulation, index if after != stage.cluster else index - 1
        )
        hidden = shared(own, moving)
        whole = simulation.makespan_ns
        alone = length(moving) - hidden
        idle = whole - length(own) - alone
        yield (
            f"{priced.iteration_time_s:.3f} | {eta:.1%} "
            f"| {shared(own, crossing) / length(crossing):.1%} | {index + 1} "
            f"| {stage.cluster} | {length(own) / whole:.1%} | {alone / whole:.1%} "
            f"| {idle / whole:.1%}"
        )


def figure_7(problem: Problem, table: CostTable) -> None:
    """Print Fig. 7h's ratio to a planner that cuts between layers without overlap."""
    own = price(best(problem, table), table).iteration_time_s
    other = variant(
        PROBLEM,
        {"model.granularity": "layer", "training.schedule": "1f1b-blocking"},
    )
    other_table = build_table(other)
    coarse = price(best(other, other_table), other_table).iteration_time_s
    print(
        f"\n## Figure 7 (h)\n\nH-1F1B cut within layers {own:.3f} s; 1F1B cut between "
        f"layers, each transfer blocks, {coarse:.3f} s: {coarse / own:.2f} times "
        "(HAPT: 1.3 to 1.6 times over HexiScale in all eight configurations; its text "
        "gives neither their devices nor their times)."
    )


def figure_9(problem: Problem, table: CostTable) -> None:
    """Print Fig. 9's comparison for (h): both kinds, or as many A100."""
    alone = variant(PROBLEM, {"clusters.a100.nodes": 6, "pin.clusters.v100.stages": 0})
    mixed = price(best(problem, table), table).iteration_time_s
    pure_table = build_table(alone)
    pure = price(best(alone, pure_table), pure_table).iteration_time_s
    peaks = [
        sum(
            each.nodes * each.devices_per_node * (each.accelerator.peak_flops.fp16 or 0)
            for each in of.clusters
            if each.name in names
        )
        for of, names in ((problem, ("a100", "v100")), (alone, ("a100",)))
    ]
    share = peaks[0] / peaks[1]
    print(
        f"\n## Figure 9\n\n32 A100 and 32 V100 have {share:.0%} of the peak of 48 A100 "
        f"and {pure / mixed:.1%} of their throughput ({mixed:.3f} s, {pure:.3f} s), "
        f"{pure / mixed / share:.1%} for the same peak. HAPT, Fig. 9c, at 93% of the "
        "peak: 82.7% of Megatron's throughput; which devices that was is not in its "
        "text."
    )


def figure_10() -> None:
    """Print Fig. 10: iteration time over the bandwidth between the clusters."""
    print(
        "\n## Figure 10\n\nSimulated s, each planned for its bandwidth and schedule. "
        "HAPT: stable down to about 3 Gbps, where a transfer takes longer than a stage."
        "\n\n| Gbps | "
        + " | ".join(SCHEDULES)
        + " | largest transfer over slowest stage, h-1f1b |\n|---|---|---|---|---|"
    )
    for rate in GBPS:
        cells = []
        ratio = 0.0
        for schedule in SCHEDULES:
            problem = variant(
                PROBLEM,
                {
                    "links.default.per_connection": f"{rate} Gbps",
                    "training.schedule": schedule,
                },
            )
            table = build_table(problem)
            plan, gap = found(problem, table, LIMIT_S)
            priced = price(plan, table)
            told = f" (gap {gap:.1%})" if gap else ""
            cells.append(f"{priced.iteration_time_s:.3f}{told}")
            if schedule == "h-1f1b":
                slowest = max(priced.times.round_trip_ns)
                ratio = max(priced.times.transfer_ns, default=0) / slowest
        print(f"| {rate} | {' | '.join(cells)} | {ratio:.2f} |", flush=True)


def main() -> int:
    """Print all tables."""
    print("# HAPT's case study and figures\n")
    table_1()
    problem = variant(PROBLEM, {})
    table = build_table(problem)
    figure_7(problem, table)
    figure_8(problem, table)
    figure_9(problem, table)
    figure_10()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
