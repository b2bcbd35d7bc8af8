"""H2's Table 6, 256 chips of one kind, compared with hetopt's values.

Run with ``python -m benchmarks.h2_chips``; prints Markdown. Each row has the degrees,
the recomputation and the batch of the paper, with micro-batches of one sequence
("memory constraints often restrict the microbatch size to 1", H2, section 4.3) and
the same number of layers on every stage. It is compared with the best plan for the same
chips without context parallelism, which H2 does not have.

For chip D the paper says "CPU Offload" but not what is offloaded. Here it is the
optimizer, as in ZeRO-Offload: moments and fp32 weights are in the hosts' memory; once
an iteration gradients go there and weights come back. This is our assumption, and so
are chip D's links.

All latencies are modelled and nothing depends on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from benchmarks.variants import variant
from hetopt.cost.build import build_table
from hetopt.planning.plan import plan as plan_of
from hetopt.pricing.price import price
from hetopt.problem.training.pins import ClusterPins, Domain, Pins

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Recompute
    from hetopt.results.result import Result

#: The problem has 256 chips of each kind, at 2M tokens.
PROBLEM = "h2-exp-b-1"
#: Memory into which any plan fits, to report the need of one that does not fit.
ROOMY = 10**12
#: Rate of the links inside a node of chip D that would explain the published figure;
#: its catalogue file has 100 GB/s, our assumption.
SLOW: dict[str, object] = {"clusters.chip-d.intra_node.bandwidth": "22 GB/s"}
OFFLOAD: dict[str, object] = {"clusters.chip-d.offload": "optimizer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of Table 6, with the settings that differ in ours."""

    chip: str
    stages: int
    dp: int
    tp: int
    recompute: Recompute
    extra: str
    published: float | None
    settings: dict[str, object]
    even: bool = True


def rows() -> tuple[Row, ...]:
    """Return Table 6, and chip D with other settings."""
    published: tuple[tuple[str, int, int, Recompute, float], ...] = (
        ("chip-a", 16, 4, "none", 136.9),
        ("chip-b", 16, 4, "full", 143.7),
        ("chip-c", 32, 2, "full", 46.2),
    )
    chips = tuple(
        Row(
            chip=chip,
            stages=stages,
            dp=dp,
            tp=4,
            recompute=recompute,
            extra="" if recompute == "none" else "recomputation",
            published=rate,
            settings={},
        )
        for chip, stages, dp, recompute, rate in published
    )
    chip_d = Row(
        chip="chip-d",
        stages=8,
        dp=4,
        tp=8,
        recompute="none",
        extra="optimizer offloaded",
        published=99.5,
        settings=OFFLOAD,
    )
    return (
        *chips,
        chip_d,
        replace(chip_d, extra="nothing offloaded", published=None, settings={}),
        replace(
            chip_d,
            extra="nothing offloaded, uneven layers",
            published=None,
            settings={},
            even=False,
        ),
        replace(
            chip_d,
            extra="optimizer offloaded, 22 GB/s inside a node",
            settings=OFFLOAD | SLOW,
        ),
    )


def problem_of(row: Row, *, pinned: bool) -> Problem:
    """Return the problem of one kind of chip, with the paper's degrees or free ones."""
    problem = variant(PROBLEM, row.settings)
    cluster = problem.clusters[problem.cluster_index(row.chip)]
    own, pins = ClusterPins(cp=_only(1)), Pins()
    if pinned:
        own = ClusterPins(
            dp=_only(row.dp),
            cp=_only(1),
            tp=_only(row.tp),
            recompute=_only(row.recompute),
        )
        pins = Pins(
            stages=_only(row.stages),
            microbatches=_only(problem.training.global_batch // row.dp),
            units=_even(problem, row.stages) if row.even else None,
        )
    pins = replace(pins, clusters={row.chip: own})
    return replace(problem, clusters=(cluster,), pins=pins)


def _even(problem: Problem, stages: int) -> tuple[int, ...]:
    """Return units per stage with equally many layers; embedding and head are added."""
    units = [problem.model.layers // stages] * stages
    units[0] += 1
    units[-1] += 1
    return tuple(units)


def _only(value: int | str) -> Domain:
    return Domain(allowed=frozenset({value}))


def rate(result: Result, problem: Problem) -> float | None:
    """Return tokens per chip and second; None if no plan fits."""
    if result.best is None:
        return None
    assert result.tokens_per_s is not None
    return result.tokens_per_s / problem.clusters[0].devices


def need_gb(result: Result, problem: Problem) -> float:
    """Return the need of a pinned plan's fullest stage, even if it does not fit."""
    if result.best is None:
        cluster = replace(problem.clusters[0], memory_bytes=ROOMY)
        problem = replace(problem, clusters=(cluster,))
        result = plan_of(problem, solver="dp")
    assert result.best is not None
    return max(price(result.best.plan, build_table(problem)).memory_bytes) / 1e9


def main() -> int:
    """Print the table."""
    print(
        "| chip | PP, DP, TP | extra | H2 | ours | memory GB | of GB | our best, c = 1 "
        "| its plan |\n|---|---|---|---|---|---|---|---|---|"
    )
    for row in rows():
        own = problem_of(row, pinned=True)
        found = plan_of(own, solver="dp")
        free = problem_of(row, pinned=False)
        best = plan_of(free, solver="dp")
        assert best.status == "optimal"
        print(
            f"| {row.chip} | {row.stages}, {row.dp}, {row.tp} | {row.extra} | "
            f"{row.published or ''} | {_shown(rate(found, own))} | "
            f"{need_gb(found, own):.1f} | "
            f"{build_table(own).usable_bytes[0] / 1e9:.1f} | "
            f"{_shown(rate(best, free))} | {_plan(best)} |",
            flush=True,
        )
    return 0


def _shown(found: float | None) -> str:
    return "does not fit" if found is None else f"{found:.1f}"


def _plan(result: Result) -> str:
    if result.best is None:
        return "none"
    pipeline = result.best.plan.pipeline
    strategy = pipeline.stages[0].strategy
    return (
        f"{len(pipeline.stages)}, {strategy.dp}, {strategy.tp}, "
        f"{strategy.recompute}, q = {pipeline.microbatches}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
