"""Sequences of several lengths, against every plan there is, priced by the checker."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations, product
from random import Random
from typing import TYPE_CHECKING, Literal

import yaml

import hetopt
from hetopt.check import check_plan, check_result
from hetopt.check.plan.lengths import OneLength, _alone
from hetopt.check.plan.plan import _sound, stage_times
from hetopt.check.plan.pricing import rows_of
from hetopt.check.plan.schedule.closed_form import closed_form
from hetopt.check.plan.schedule.times import last_ends
from hetopt.cost.build import build_table
from hetopt.cost.divided import by_length, sources_by_length
from hetopt.errors import CheckError
from hetopt.plans.mix import Mix
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.pricing.several import price_several
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import RESHARDING, ScheduleName
from hetopt.problem.training.principles import PRUNED
from hetopt.solvers.dividing import divisions
from tests.schemas import ensure_fits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.check.plan.schedule.times import Times
    from hetopt.cost.divided import Part
    from hetopt.problem.problem import Problem

    #: Sequences of each length, the shortest first.
    Counts = tuple[int, ...]

#: Nodes of one cluster, or of two.
NODES = ([[2, 2]], [[1, 1]], [[2, 1]], [[1], [1]], [[2]], [[1], [2]])


def drawn(
    seed: int, schedule: ScheduleName | None = None, *, odd: bool = False
) -> Problem:
    """Draw a problem of two lengths; ``odd``: no context parallelism divides one."""
    rng = Random(seed)
    share = rng.choice((0.5, 0.75))
    shares = {511 if odd else 512: share, 4096: 1 - share}
    clusters = [
        {
            "name": name,
            "accelerator": rng.choice(("A100-80GB", "A40", "H100")),
            "memory": f"{rng.choice((0.5, 1, 40))} GB",
            "overhead": "0 GB",
            "nodes": sizes,
            "inter_node": {"bandwidth": f"{rng.choice((10, 100, 400))} Gbps"},
        }
        for name, sizes in zip("ab", rng.choice(NODES), strict=False)
    ]
    training = {
        "global_batch": 4,
        "seq_len": 4096,
        "lengths": shares,
        "schedule": schedule or rng.choice(("1f1b", "eager-1f1b", "virtual-1f1b")),
        "recompute": rng.choice(("none", "full")),
    }
    data = {
        "model": {"layers": 3, "hidden": 512, "heads": 4, "ffn": 2048, "vocab": 900},
        "clusters": clusters,
        "links": {"default": {"bandwidth": "10 Gbps", "latency": "10 us"}},
        "training": training,
    }
    return read_problem_text(yaml.safe_dump(data))


def pipelines(
    problem: Problem, parts: dict[int, Part], each: int
) -> Iterator[Pipeline]:
    """Yield pipelines of a seat, whether they fit or not; warm-ups by the schedule."""
    batch = problem.training.global_batch
    table = parts[max(parts)].table
    steps = {"1f1b": (1, 1), "eager-1f1b": (2, 2), "virtual-1f1b": (1, 2)}
    inside, across = steps[problem.training.schedule]
    part = next((s for s in table.slices if s.microbatches == batch // each), None)
    names, units = table.cluster_names, len(table.units)
    if part is None:
        return
    for number in range(1, len(names) + 1):
        for order in permutations(range(len(names)), number):
            for chosen in product(*(part.clusters[j].strategies for j in order)):
                for stages in product(range(1, 4), repeat=number):
                    hosts = [
                        (j, strategy)
                        for j, strategy, s in zip(order, chosen, stages, strict=True)
                        for _ in range(s)
                    ]
                    p = len(hosts)
                    for inner in combinations(range(1, units), p - 1):
                        cut = [0, *inner, units]
                        warm = [1]
                        for i in reversed(range(p - 1)):
                            same = hosts[i][0] == hosts[i + 1][0]
                            warm.insert(0, warm[0] + (inside if same else across))
                        lay = [
                            int(part.clusters[j].layout[part.clusters[j].row(s)])
                            for j, s in hosts
                        ]
                        yield Pipeline(
                            microbatches=1,
                            mix=Mix(per_microbatch=each, sequences={max(parts): 1}),
                            stages=tuple(
                                Stage(
                                    cluster=names[j],
                                    strategy=strategy,
                                    first_unit=cut[i],
                                    end_unit=cut[i + 1],
                                    warmup=warm[i],
                                    resharding=None
                                    if i == p - 1
                                    else RESHARDING[
                                        part.resharding[
                                            table.cuts[cut[i + 1] - 1],
                                            lay[i],
                                            lay[i + 1],
                                        ]
                                    ],
                                )
                                for i, (j, strategy) in enumerate(hosts)
                            ),
                        )


def simulated_ns(runs: list[Times], warmups: Sequence[int]) -> Fraction:
    """Return the simulated time of micro-batches of each length, shortest first."""
    ends = last_ends(runs[::-1], warmups)
    return Fraction(max(map(sum, zip(ends, runs[0].sync, strict=True))))


def least(
    problem: Problem, parts: dict[int, Part], *, simulated: bool = False
) -> dict[Counts, Fraction]:
    """Return the least time of one seat for whatever it takes, in nanoseconds."""
    lengths = sorted(parts)
    found: dict[Counts, Fraction] = {}
    counts = [problem.training.sequences[each] for each in lengths]
    blank = Plan(
        schedule=problem.training.schedule,
        pipelines=(),
        problem_digest="",
        table_digest="",
    )
    for each in (1, 2, 4):
        for top, longest in enumerate(lengths):
            known = {n: parts[n] for n in lengths[: top + 1]}
            for pipeline in pipelines(problem, known, each):
                assert pipeline.mix is not None
                each_alone = {
                    n: _alone(pipeline, pipeline.mix, *known[n]) for n in known
                }
                own = {n: one for n, one in each_alone.items() if not rows_of(*one)[1]}
                if longest not in own:
                    continue
                one: OneLength = own[longest]
                alone = replace(blank, pipelines=(one.pipeline,))
                try:
                    sound = _sound(one.problem, one.table, alone, PRUNED)
                except CheckError:
                    continue
                times = {n: stage_times(*own[n]) for n in own}
                sync = times[min(own)].sync
                fill, pace = {}, {}
                for n in own:
                    at = [
                        closed_form(
                            [replace(times[n], sync=sync, microbatches=q)],
                            sound.warmups,
                        )
                        for q in (1, 2)
                    ]
                    fill[n], pace[n] = at[0], at[1] - at[0]
                ranges = [
                    range(counts[i] + 1 if lengths[i] in own else 1) for i in range(top)
                ]
                for taken in product(*ranges, range(1, counts[top] + 1)):
                    made = [-(-k // each) for k in taken]
                    value = fill[longest] - pace[longest]
                    for n, count in zip(lengths, made, strict=False):
                        value += count * pace.get(n, Fraction(0))
                    if simulated:
                        runs = [
                            replace(times[n], sync=sync, microbatches=count)
                            for n, count in zip(lengths, made, strict=False)
                            if count
                        ]
                        value = simulated_ns(runs, sound.warmups)
                    key = (*taken, *(0,) * (len(lengths) - 1 - top))
                    found[key] = min(value, found.get(key, value))
    return found


def best_of(problem: Problem, most: int, *, simulated: bool = False) -> Fraction | None:
    """Return the least time of up to two pipelines, in nanoseconds.

    The simulated time leaves out what pipelines wait for each other.
    """
    sources = sources_by_length(problem)
    whole = tuple(problem.training.sequences[n] for n in sorted(sources))
    everything = {
        c.name: tuple(x for x, n in c.sizes for _ in range(n)) for c in problem.clusters
    }
    found = []
    alone = by_length(problem, [everything], 0, sources)
    one = least(problem, alone, simulated=simulated)
    if whole in one:
        found.append(one[whole])
    for way in divisions(problem, 2) if most > 1 else []:
        division = [dict(parts) for parts in way]
        first, second = (
            least(
                problem,
                by_length(problem, division, r, sources),
                simulated=simulated,
            )
            for r in (0, 1)
        )
        for taken, value in first.items():
            rest = tuple(n - k for n, k in zip(whole, taken, strict=True))
            if rest in second:
                found.append(max(value, second[rest]))
    return min(found, default=None)


def divided(problem: Problem, *, simulated: bool = False) -> Iterator[str]:
    """Yield what is wrong with the best plan of up to two pipelines."""
    time: Literal["closed", "simulated"] = "simulated" if simulated else "closed"
    result = hetopt.plan(problem, pipelines=2, jobs=1, objective=time)
    expected = best_of(problem, 2, simulated=simulated)
    data, table = json.loads(json.dumps(result.to_json())), build_table(problem)
    ensure_fits(data, "result")
    yield from check_result(problem, table, data)
    if result.best is None or expected is None:
        if result.status != "infeasible" or expected is not None:
            yield f"{result.status}, expected {expected} ns"
        return
    found, least = result.best.time_s(time), float(expected) * 1e-9
    bound = result.lower_bound_s or 0.0
    if simulated:
        if result.status != "feasible":
            yield f"{result.status}, but nobody confirms that"
        if not bound <= least * (1 + 1e-9) <= found * (1 + 2e-9):
            yield f"{found!r} bounded by {bound!r}, the least is {least!r}"
    elif result.status != "optimal" or abs(found - least) > 1e-6 * least:
        yield f"{result.status} plan takes {found!r}, expected {least!r}"
    checked = check_plan(problem, table, result.best.plan)
    priced = price_several(problem, result.best.plan)
    for name in ("closed_form_s", "iteration_time_s"):
        one, other = getattr(checked, name), getattr(priced, name)
        if abs(one - other) > 1e-12 * one:
            yield f"{name}: {one!r} for the checker, {other!r} for the product"
