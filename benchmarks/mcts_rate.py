"""Iterations of ``mcts`` per second on one core: rollout, closed form, tree.

    python -m benchmarks.mcts_rate [PROBLEM] [--seconds 10] [--seed 0]

Code is compiled and the table is built before the clock starts. Seconds are this
process's CPU time, so that other processes do not count; the trees of all p take turns,
as in the solver. The exit code is 1 below 20,000 iterations a second.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import deque

from hetopt.cli.inputs import load_problem, load_table
from hetopt.solvers.mcts.best_plans import BestPlans
from hetopt.solvers.mcts.data import SearchData
from hetopt.solvers.mcts.solver import EXPLORATION
from hetopt.solvers.mcts.subtree import Subtree
from hetopt.solvers.mcts.worker import MOST_NODES, SLICE

#: Least iterations per second and core.
BAR = 20_000


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", nargs="?", metavar="PROBLEM", default="hetauto-exp3")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    options = parser.parse_args(arguments)
    problem = load_problem(options.problem)
    search_data = SearchData.of(problem, load_table(problem, None))
    trees = deque(_trees(search_data, options.seed))
    best = BestPlans(1, lambda found: None)
    trees[0].iterate(1, best.take, best.cutoff)
    iterations = 0
    wall_s, began_s = time.monotonic(), time.process_time()
    while time.process_time() - began_s < options.seconds:
        trees[0].iterate(SLICE, best.take, best.cutoff)
        trees.rotate(-1)
        iterations += SLICE
    spent_s = time.process_time() - began_s
    wall_s = time.monotonic() - wall_s
    rate = iterations / spent_s
    print(
        f"{options.problem}: {iterations:,} iterations of {len(trees)} trees in "
        f"{spent_s:.1f} s of CPU ({wall_s:.1f} s, load {os.getloadavg()[0]:.1f}): "
        f"{rate:,.0f} per second and core (bar: {BAR:,})"
    )
    return 0 if rate >= BAR else 1


def _trees(search_data: SearchData, seed: int) -> list[Subtree]:
    return [
        Subtree(
            search_data,
            stages,
            seed=[seed],
            exploration=EXPLORATION,
            most_nodes=MOST_NODES // len(search_data.stages),
        )
        for stages in search_data.stages
    ]


if __name__ == "__main__":
    raise SystemExit(main())
