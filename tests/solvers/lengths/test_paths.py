"""Bounds on the simulated time of pipelines with sequences of several lengths."""

from __future__ import annotations

from random import Random
from statistics import median
from typing import TYPE_CHECKING

import pytest

from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.lengths.option import SCALE, Option
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.lengths.cuts import all_cuts
from hetopt.solvers.lengths.options import choices
from hetopt.solvers.lengths.paths import PathPricing
from hetopt.solvers.lengths.search import LengthsSearch
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem

PROBLEM = """
model: {{layers: 7, hidden: 1024, heads: 8, ffn: 4096, vocab: {vocab}}}
clusters:
  - {{name: a, accelerator: {first}, memory: {memory} GB, nodes: 2, devices_per_node: 2,
     inter_node: {{bandwidth: {speed} Gbps}}}}
  - {{name: b, accelerator: {second}, nodes: 1, devices_per_node: 2,
     inter_node: {{bandwidth: {speed} Gbps}}}}
links: {{default: {{bandwidth: {speed} Gbps, latency: {latency} us}}}}
training:
  {{global_batch: {batch}, seq_len: 8192, schedule: {schedule},
   lengths: {{512: 0.5, 2048: 0.25, 8192: 0.25}}}}
"""


def problem_of(rng: Random) -> Problem:
    devices = ("A100-80GB", "A40", "H100")
    return read_problem_text(
        PROBLEM.format(
            vocab=rng.choice((500, 50_000)),
            first=rng.choice(devices),
            second=rng.choice(devices),
            memory=rng.choice((8, 80)),
            speed=rng.choice((1, 10, 100)),
            latency=rng.choice((1, 1000, 20_000)),
            batch=rng.choice((8, 16, 32)),
            schedule=rng.choice(("1f1b", "eager-1f1b", "virtual-1f1b")),
        )
    )


def ratios(seed: int, most: int) -> list[float]:
    """Return bound over simulated time of pipelines of a drawn problem."""
    rng = Random(f"lengths {seed}")
    problem = problem_of(rng)
    request = Request(
        problem=problem,
        table=build_table(problem),
        params=RaceParams(),
        deadline=Deadline(),
    )
    search = LengthsSearch(request, 1, simulated=True)
    (way,) = search.ways
    seat = search._seat(way, 0)
    tables, batch = [own.table for own in seat.parts], problem.training.global_batch
    body = [tables[-1].body[kind] for kind in tables[-1].units]
    found: list[float] = []
    while len(found) < most:
        microbatches = rng.choice(tables[-1].slices).microbatches
        each, longest = batch // microbatches, rng.randrange(len(tables))
        sequences = [rng.randint(0, 4 * each) for _ in range(longest)]
        sequences += [rng.randint(1, 4 * each), *(0,) * (len(tables) - longest - 1)]
        counts = tuple(-(-n // each) for n in sequences)
        pricing = PathPricing(tables, microbatches, counts)
        pricing.takes_all = True
        hosts = rng.choice(choices(problem, pricing, 5)[0])
        cuts = all_cuts(body, len(hosts))
        if cuts is None or not len(cuts) or longest not in pricing.of(hosts, cuts):
            continue
        prices, s = pricing.of(hosts, cuts)[longest], rng.randrange(len(cuts))
        rates = tuple(prices.rates[s].tolist())
        if min(rates) < 0:
            continue
        option = Option(
            per_microbatch=each,
            longest=longest,
            fixed=int(prices.fixed[s]),
            rates=rates,
            hosts=hosts,
            cut=tuple(cuts[s].tolist()),
        )
        search._sequences = sequences
        simulated, _ = search._plan(way, [seat], [(option, counts)])
        bounds = [option]
        if longest in (of_all := pricing.bounds(hosts)):
            fixed, least = of_all[longest]
            bounds.append(option._replace(fixed=fixed, rates=least))
        bound, *weaker = (each.takes(counts) * TICK_S / SCALE for each in bounds)
        assert max([bound, *weaker]) <= simulated * (1 + 1e-12), option
        found.append(bound / simulated)
    return found


@pytest.mark.parametrize("seed", range(6))
def test_no_bound_is_above_the_simulated_time(seed: int) -> None:
    ratios(seed, 20)


@pytest.mark.slow
def test_bounds_of_many_pipelines_are_near_the_simulated_time() -> None:
    found = sorted(ratio for seed in range(20) for ratio in ratios(seed, 50))
    print(f"\nleast {found[0]:.3f}, 5% below {found[len(found) // 20]:.3f}, ", end="")
    print(f"median {median(found):.3f} of {len(found)}")
    assert median(found) > 0.75
