"""Sequences of several lengths, against every plan there is, priced by the checker."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations, product
from random import Random
from typing import TYPE_CHECKING

import jsonschema
import pytest
import yaml

import hetopt
from hetopt.base.deadline import Deadline
from hetopt.check import check_plan, check_result
from hetopt.check.plan.lengths import OneLength, _alone
from hetopt.check.plan.plan import _sound, stage_times
from hetopt.check.plan.pricing import rows_of
from hetopt.check.plan.schedule.times import closed_form
from hetopt.cost.build import build_table
from hetopt.cost.divided import by_length, sources_by_length
from hetopt.errors import CheckError
from hetopt.plans.mix import Mix
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.pricing.several import price_several
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import RESHARDING
from hetopt.problem.training.principles import PRUNED
from hetopt.report.schemas.result import RESULT
from hetopt.solvers.lengths.outcome import solve_lengths
from hetopt.solvers.lengths.search import LengthsSearch
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.several.divisions import divisions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.divided import Part
    from hetopt.problem.problem import Problem
    from hetopt.solvers.progress import Progress
    from hetopt.solvers.several.divisions import Division

    #: Sequences of each length, the shortest first.
    Counts = tuple[int, ...]

#: Nodes of one cluster, or of two.
NODES = ([[2, 2]], [[1, 1]], [[2, 1]], [[1], [1]], [[2]], [[1], [2]])
QUICK, ALL = 4, 50
#: Seeds of problems whose shorter sequences no context parallelism divides.
ODD = range(ALL, ALL + 10)


def drawn(seed: int) -> Problem:
    rng = Random(seed)
    share = rng.choice((0.5, 0.75))
    shares = {511 if seed in ODD else 512: share, 4096: 1 - share}
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
        "schedule": rng.choice(("1f1b", "eager-1f1b", "virtual-1f1b")),
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


def least(problem: Problem, parts: dict[int, Part]) -> dict[Counts, Fraction]:
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
                    value = (
                        fill[longest]
                        - pace[longest]
                        + sum(
                            -(-k // each) * pace.get(lengths[i], Fraction(0))
                            for i, k in enumerate(taken)
                        )
                    )
                    key = (*taken, *(0,) * (len(lengths) - 1 - top))
                    found[key] = min(value, found.get(key, value))
    return found


def best_of(problem: Problem, most: int) -> Fraction | None:
    """Return the least closed form of up to two pipelines, in nanoseconds."""
    sources = sources_by_length(problem)
    whole = tuple(problem.training.sequences[n] for n in sorted(sources))
    everything = {
        c.name: tuple(x for x, n in c.sizes for _ in range(n)) for c in problem.clusters
    }
    found = []
    one = least(problem, by_length(problem, [everything], 0, sources))
    if whole in one:
        found.append(one[whole])
    for way in divisions(problem, 2) if most > 1 else []:
        division = [dict(parts) for parts in way]
        first, second = (
            least(problem, by_length(problem, division, r, sources)) for r in (0, 1)
        )
        for taken, value in first.items():
            rest = tuple(n - k for n, k in zip(whole, taken, strict=True))
            if rest in second:
                found.append(max(value, second[rest]))
    return min(found, default=None)


@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(
            seed, marks=() if seed < QUICK or seed == ODD[0] else pytest.mark.slow
        )
        for seed in (*range(ALL), *ODD)
    ],
)
def test_nothing_is_better_than_what_is_found(seed: int) -> None:
    problem = drawn(seed)
    result = hetopt.plan(problem, pipelines=2, jobs=1)
    expected = best_of(problem, 2)
    jsonschema.validate(json.loads(json.dumps(result.to_json())), RESULT)
    if expected is None:
        assert result.status == "infeasible"
        return
    assert result.best is not None
    assert result.status == "optimal"
    assert result.best.closed_form_s == pytest.approx(float(expected) * 1e-9, rel=1e-6)
    table = hetopt.build_table(problem)
    checked = check_plan(problem, table, result.best.plan)
    priced = price_several(problem, result.best.plan)
    assert priced.closed_form_s == pytest.approx(checked.closed_form_s, rel=1e-12)
    assert priced.iteration_time_s == pytest.approx(checked.iteration_time_s, rel=1e-12)


def test_an_interruption_keeps_the_best_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = next(
        each for each in map(drawn, range(QUICK)) if len(divisions(each, 2)) > 1
    )
    whole = hetopt.plan(problem, pipelines=2)
    searched: list[object] = []
    search = LengthsSearch._search

    def interrupted(self: LengthsSearch, way: Division) -> float:
        if searched:
            raise KeyboardInterrupt
        searched.append(way)
        return search(self, way)

    monkeypatch.setattr(LengthsSearch, "_search", interrupted)
    told: list[Progress] = []
    request = Request(
        problem=problem,
        table=build_table(problem),
        params=RaceParams(on_progress=told.append),
    )
    result = solve_lengths(request, 2)
    assert result.interrupted
    assert not whole.interrupted
    assert (result.best is None) == (told[0].incumbent_s is None)
    assert [each.settled for each in told] == [1]
    if result.best is not None and whole.best is not None:
        assert result.best.closed_form_s >= whole.best.closed_form_s


@pytest.mark.parametrize("seed", [*range(24), *ODD])
def test_device_time_bounds_every_plan_from_the_first_moment(seed: int) -> None:
    problem = drawn(seed)
    table = build_table(problem)
    least = []
    for most in (1, 2):
        request = Request(problem=problem, table=table, params=RaceParams())
        least.append(LengthsSearch(request, most).lower_bound())
        assert least[-1] > 0
    found = hetopt.plan(problem, pipelines=2, jobs=1)
    if found.best is not None:
        assert max(least) <= found.best.closed_form_s
    # Nothing is searched after the deadline.
    late = replace(request, deadline=Deadline.after(1e-9))
    stopped = solve_lengths(late, 2)
    assert (stopped.status, stopped.lower_bound_s) == ("unknown", least[1])
    assert check_result(problem, table, json.loads(json.dumps(stopped.to_json()))) == []
