"""HetAuto's Fig. 16: three ways to reshard over its twenty pairs of layouts.

    python -m benchmarks.resharding

Two clusters of 2 nodes of 8 A100, one stage each; 10 Gbps per node between them, 16
sequences of 8192 tokens and width 4096 in bf16 (HetAuto, appendix E). The text states
one latency, of strategy 1 from (16, 1) to (1, 16): ``per_message`` is fitted to it, so
that column is *fitted*; everything else is modelled. Values that only the picture has
stay blank. One value cannot separate the cost of messages from congestion.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from statistics import mean, pstdev
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.boundaries.resharding import Side, plan_transfer, steps_s
from hetopt.problem.catalogue import problem_files
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.reading import read_problem

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Resharding

PROBLEM = "hetauto-fig16"
#: The strategies in HetAuto's order.
STRATEGIES: tuple[Resharding, ...] = ("p2p", "leader", "inner-dp")
#: (d, c t) of a stage of 16 devices.
LAYOUTS = tuple((dp, 16 // dp) for dp in (1, 2, 4, 8, 16))
PAIRS = tuple(pair for pair in product(LAYOUTS, LAYOUTS) if pair[0] != pair[1])
#: Milliseconds from (16, 1) to (1, 16) with strategy 1, in the paper's text.
STATED_MS = 2107.84
STATED = ((16, 1), (1, 16))


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Milliseconds over the twenty pairs."""

    mean: float
    deviation: float
    least: float
    most: float


def latencies_ms(problem: Problem, name: Resharding) -> list[float]:
    """Return the latency of every pair of ``PAIRS`` under one strategy."""
    first, second = problem.clusters
    training, model = problem.training, problem.model
    size = training.global_batch * training.seq_len * model.hidden * 2.0
    one = np.array([1])
    found = []
    for (dp, shards), (dp_2, shards_2) in PAIRS:
        sender = Side(cluster=first, dp=one * dp, shards=one * shards)
        receiver = Side(cluster=second, dp=one * dp_2, shards=one * shards_2)
        transfer = plan_transfer(name, sender, receiver, size, one)
        steps = steps_s(sender, receiver, problem.links, transfer, size)
        found.append(1e3 * float(sum(step[0] for step in steps)))
    return found


def spread(problem: Problem, name: Resharding) -> Spread:
    """Return the values that Fig. 16 shows for one strategy."""
    found = latencies_ms(problem, name)
    return Spread(
        mean=mean(found), deviation=pstdev(found), least=min(found), most=max(found)
    )


def fitted_message_s(problem: Problem) -> float:
    """Return the ``per_message`` that gives the stated latency."""
    stated = PAIRS.index(STATED)
    costs = [
        latencies_ms(with_message(problem, message_s), "p2p")[stated]
        for message_s in (0.0, 1e-3)
    ]
    return 1e-3 * (STATED_MS - costs[0]) / (costs[1] - costs[0])


def with_message(problem: Problem, message_s: float) -> Problem:
    """Return the problem with another cost per message."""
    link = problem.links.default
    assert link is not None
    return replace(
        problem, links=ClusterLinks(default=replace(link, message_s=message_s))
    )


def main() -> None:
    """Print the three strategies, without and with a cost per message."""
    problem = read_problem(str(problem_files()[PROBLEM]))
    message_s = fitted_message_s(problem)
    for said, cost_s in (("modelled", 0.0), ("fitted to one latency", message_s)):
        print(f"per_message {1e3 * cost_s:.2f} ms, {said}; ms over 20 pairs of layouts")
        print("strategy       mean  deviation     least      most  paper's most")
        for number, name in enumerate(STRATEGIES, start=1):
            row = spread(with_message(problem, cost_s), name)
            paper = f"{STATED_MS:.2f}" if number == 1 else ""
            print(
                f"{number} {name:9} {row.mean:7.1f} {row.deviation:10.1f} "
                f"{row.least:9.1f} {row.most:9.1f}  {paper}".rstrip()
            )


if __name__ == "__main__":
    main()
