"""Hetu v2's strategies (its Tables 5, 7 and 8) compared with hetopt's plans.

Run with ``python -m benchmarks.hetu``; prints Markdown. ``--only C4`` prints one row.

Every strategy of Hetu is priced like any plan, and compared with the plan that hetopt
proves best for the same devices: for Table 5 with one pipeline and ZeRO-1, as Hetu's
equal pipelines are replicas inside a stage here; for C1 to C7 with up to two pipelines
and ZeRO-0, as Hetu runs them. Settings that the paper does not state are those of the
problem files of Table 4, and its strategies recompute as little as fits into memory.

Published step times are given if the paper's text has them: 6.05 s and 6.91 s. All
others are only points in its Figures 13 and 14.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import hetopt
from hetopt.cost.build import build_table
from hetopt.plans.plan import Pipeline, Plan, Share, Stage
from hetopt.plans.strategy import Strategy
from hetopt.pricing.price import price
from hetopt.pricing.several import price_several
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from hetopt.problem.training.choices import RECOMPUTE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Recompute

#: Published step times, by setting.
PUBLISHED_S = {"32b-16h800-32h20": 6.05, "C4": 6.91}
HEAD = (
    "setting | Hetu's strategy s | simulated s | stages recompute | published s "
    "| hetopt s | simulated s | Hetu's : hetopt's | its plan"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One pipeline of a strategy.

    Attributes
    ----------
    stages
        Cluster, tp and layers of each stage, in pipeline order.
    q
        Micro-batches.
    dp
        Number of equal pipelines, which are replicas inside the stages here.
    nodes
        The pipeline's nodes if there are several; see ``hetopt.plans.plan.Share``.
    """

    stages: Sequence[tuple[str, int, int]]
    q: int
    dp: int = 1
    nodes: Mapping[str, tuple[int, ...]] | None = None


def _stages(tp: int, **layers: Sequence[int]) -> list[tuple[str, int, int]]:
    """Return stages of one tp, cluster after cluster."""
    return [(name, tp, count) for name, own in layers.items() for count in own]


#: Table 5, by problem.
TABLE_5 = {
    "32b-16h800-16h20": Row(stages=_stages(4, h20=(7, 7), h800=(23, 23)), q=32, dp=2),
    "32b-16h800-24h20": Row(
        stages=_stages(4, h20=(6, 6, 6), h800=(21, 21)), q=32, dp=2
    ),
    "32b-16h800-32h20": Row(stages=_stages(4, h20=(11, 11), h800=(38,)), q=16, dp=4),
    "70b-16h800-16h20": Row(stages=_stages(8, h20=(11, 11), h800=(29, 29)), q=64),
    "70b-16h800-24h20": Row(stages=_stages(8, h20=(10, 10, 10), h800=(25, 25)), q=64),
    "70b-16h800-32h20": Row(stages=_stages(8, h20=(17, 17), h800=(46,)), q=32, dp=2),
}

_FIRST = {"h20": (8, 4), "h800": (8,)}
_SECOND = {"h20": (8, 4), "h800": (7,)}

#: Tables 7 and 8: devices of each node, and two pipelines.
ELASTIC: dict[str, tuple[Mapping[str, tuple[int, ...]], tuple[Row, Row]]] = {
    "C1": (
        {"h20": (8, 8, 8, 8)},
        (Row(stages=_stages(4, h20=(15,) * 4), q=16, nodes={"h20": (8, 8)}),) * 2,
    ),
    "C2": (
        {"h20": (8, 8, 8, 7)},
        (
            Row(stages=_stages(4, h20=(15,) * 4), q=33, nodes={"h20": (8, 8)}),
            Row(
                stages=[
                    *_stages(4, h20=(16, 16, 16)),
                    ("h20", 2, 8),
                    ("h20", 1, 4),
                ],
                q=31,
                nodes={"h20": (8, 7)},
            ),
        ),
    ),
    "C3": (
        {"h20": (8, 8, 8)},
        (Row(stages=_stages(4, h20=(20,) * 3), q=32, nodes={"h20": (8, 4)}),) * 2,
    ),
    "C4": (
        {"h800": (8, 8), "h20": (8, 8, 8, 8)},
        (
            Row(
                stages=_stages(4, h20=(5, 6, 6, 6), h800=(18, 19)),
                q=32,
                nodes={"h20": (8, 8), "h800": (8,)},
            ),
        )
        * 2,
    ),
    "C5": (
        {"h800": (8, 8), "h20": (8, 8, 8)},
        (Row(stages=_stages(4, h20=(6, 6, 6), h800=(21, 21)), q=32, nodes=_FIRST),) * 2,
    ),
    "C6": (
        {"h800": (8, 7), "h20": (8, 8, 8)},
        (
            Row(stages=_stages(4, h20=(6, 6, 6), h800=(21, 21)), q=33, nodes=_FIRST),
            Row(
                stages=[
                    *_stages(4, h20=(6, 6, 6), h800=(22,)),
                    ("h800", 2, 13),
                    ("h800", 1, 7),
                ],
                q=31,
                nodes=_SECOND,
            ),
        ),
    ),
    "C7": (
        {"h800": (8,), "h20": (8, 8, 8)},
        (
            Row(
                stages=_stages(4, h20=(9, 10, 10), h800=(31,)),
                q=32,
                nodes={"h20": (8, 4), "h800": (4,)},
            ),
        )
        * 2,
    ),
}


def problem_of(name: str) -> Problem:
    """Return a problem of Table 4, with Llama 32B's or 70B's layers."""
    return read_problem(str(problem_files()[f"hetu-{name}"]))


def elastic_problem(nodes: Mapping[str, tuple[int, ...]]) -> Problem:
    """Return the problem of one of C1 to C7: Table 4's largest, without sharding."""
    whole = problem_of("32b-16h800-32h20")
    clusters = tuple(
        replace(
            each,
            nodes=len(nodes[each.name]),
            unequal=nodes[each.name] if min(nodes[each.name]) < 8 else None,
        )
        for each in whole.clusters
        if each.name in nodes
    )
    training = replace(whole.training, zero=0)
    return replace(whole, clusters=clusters, training=training)


def plan_of(
    problem: Problem, rows: Sequence[Row], recompute: Sequence[Sequence[Recompute]]
) -> Plan:
    """Return a strategy as a plan; its digests are not used.

    Parameters
    ----------
    recompute
        Of each pipeline's stages.
    """
    batch = problem.training.global_batch
    pipelines = []
    taken = sum(row.q for row in rows)
    for row, policies in zip(rows, recompute, strict=True):
        ends = [0, *accumulate(count for _, _, count in row.stages)]
        # Unit 0 is the embedding; the head is on the last stage.
        units = [1 + end for end in ends]
        units[0], units[-1] = 0, units[-1] + 1
        p = len(row.stages)
        stages = tuple(
            Stage(
                cluster=cluster,
                first_unit=first,
                end_unit=end,
                strategy=Strategy(dp=row.dp, cp=1, tp=tp, recompute=policies[number]),
                warmup=min(p - number, row.q),
                resharding=None if number == p - 1 else "p2p",
            )
            for number, ((cluster, tp, _), (first, end)) in enumerate(
                zip(row.stages, pairwise(units), strict=True)
            )
        )
        share = (
            None
            if row.nodes is None
            else Share(batch=batch * row.q // taken, nodes=row.nodes)
        )
        pipelines.append(Pipeline(microbatches=row.q, stages=stages, share=share))
    digest = "0" * 64
    return Plan(
        schedule=problem.training.schedule,
        pipelines=tuple(pipelines),
        problem_digest=digest,
        table_digest=digest,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """Price of a strategy in hetopt's model, and the recomputation of each stage."""

    closed_form_s: float
    iteration_time_s: float
    recompute: tuple[Recompute, ...]


def priced(problem: Problem, rows: Sequence[Row]) -> Priced | None:
    """Return the price of a strategy whose stages recompute as little as fits.

    None if a stage does not fit even with full recomputation.
    """
    fits = [
        [
            [need <= there for need, there in zip(*each, strict=True)]
            for each in _priced(
                problem, rows, [[policy] * len(r.stages) for r in rows]
            ).memory
        ]
        for policy in RECOMPUTE
    ]
    chosen: list[list[Recompute]] = []
    for number, row in enumerate(rows):
        own: list[Recompute] = []
        for stage in range(len(row.stages)):
            known = zip(RECOMPUTE, fits, strict=True)
            least = next((x for x, each in known if each[number][stage]), None)
            if least is None:
                return None
            own.append(least)
        chosen.append(own)
    found = _priced(problem, rows, chosen)
    return Priced(
        closed_form_s=found.closed_form_s,
        iteration_time_s=found.iteration_time_s,
        recompute=tuple(policy for own in chosen for policy in own),
    )


class _Times(NamedTuple):
    """Closed form, simulated time, and needed and usable bytes of pipelines' stages."""

    closed_form_s: float
    iteration_time_s: float
    memory: list[tuple[tuple[int, ...], tuple[int, ...]]]


def _priced(
    problem: Problem, rows: Sequence[Row], recompute: Sequence[Sequence[Recompute]]
) -> _Times:
    plan = plan_of(problem, rows, recompute)
    if len(rows) == 1:
        one = price(plan, build_table(problem))
        memory = [(one.memory_bytes, one.usable_bytes)]
        return _Times(one.closed_form_s, one.iteration_time_s, memory)
    several = price_several(problem, plan)
    memory = [(each.memory_bytes, each.usable_bytes) for each in several.prices]
    return _Times(several.closed_form_s, several.iteration_time_s, memory)


def recomputes(policies: Sequence[Recompute]) -> str:
    """Return a text for the recomputation of stages."""
    counts = Counter(policies)
    return ", ".join(
        f"{policy} on {counts[policy]}" for policy in RECOMPUTE if counts[policy]
    )


def row_of(name: str, problem: Problem, rows: Sequence[Row], jobs: int | None) -> str:
    """Return a line of the table."""
    theirs = priced(problem, rows)
    found = hetopt.plan(problem, pipelines=len(rows), objective="closed", jobs=jobs)
    assert found.best is not None, name
    assert found.status == "optimal", name
    ours = found.best
    cells = [name]
    if theirs is None:
        cells += ["does not fit", "", ""]
    else:
        cells += [
            f"{theirs.closed_form_s:.2f}",
            f"{theirs.iteration_time_s:.2f}",
            recomputes(theirs.recompute),
        ]
    published = PUBLISHED_S.get(name)
    cells += [
        "" if published is None else f"{published:.2f}",
        f"{ours.closed_form_s:.2f}",
        f"{ours.iteration_time_s:.2f}",
        "" if theirs is None else f"{theirs.closed_form_s / ours.closed_form_s:.3f}",
        " and ".join(map(_short, ours.plan.pipelines)),
    ]
    return " | ".join(cells)


def _short(pipeline: Pipeline) -> str:
    """Return a short text for a pipeline: equal neighbours with (d, c, t) and units."""
    runs = groupby(pipeline.stages, key=lambda stage: (stage.cluster, stage.strategy))
    told = "; ".join(
        f"{cluster} ({own.dp},{own.cp},{own.tp}) {own.recompute}: "
        + ", ".join(str(stage.units) for stage in stages)
        for (cluster, own), stages in runs
    )
    taken = "" if pipeline.share is None else f"{pipeline.share.batch} sequences, "
    return f"{taken}q {pipeline.microbatches}, {told}"


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one setting, as 70b-16h800-16h20 or C4")
    parser.add_argument("--jobs", type=int, help="workers of a search")
    options = parser.parse_args()
    print(f"| {HEAD} |\n|{'---|' * (HEAD.count('|') + 1)}", flush=True)
    settings: dict[str, tuple[Problem, Sequence[Row]]] = {
        name: (problem_of(name), [row]) for name, row in TABLE_5.items()
    }
    settings |= {
        name: (elastic_problem(nodes), rows) for name, (nodes, rows) in ELASTIC.items()
    }
    for name, (problem, rows) in settings.items():
        if options.only in (None, name):
            print(f"| {row_of(name, problem, rows, options.jobs)} |", flush=True)


if __name__ == "__main__":
    main()
