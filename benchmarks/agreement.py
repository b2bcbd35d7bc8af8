"""Solvers against brute force on generated instances: the same plan, or none.

Run with ``python -m benchmarks.agreement milp`` (more names, more solvers;
``--instances 200`` is the default). Ends with 1 if a solver disagrees.
Every fifth instance has the same schedule; what a solver refuses counts apart.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.solvers.params import RaceParams
from hetopt.solvers.registry import SOLVERS, load
from tests.oracle import brute_force
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from tests.oracle.brute_force import Answer
    from tests.oracle.instances import Instance


def agrees(solver: str, instance: Instance, answer: Answer) -> bool:
    """Whether a solver reports brute force's plan, or that there is none."""
    problem, table = instance.problem, instance.table
    params = RaceParams(jobs=0)
    result = load(solver)(problem, table, params, time_limit_s=None, seed=0)
    if answer.best is None:
        return result.status == "infeasible" and result.best is None
    return (
        result.status == "optimal"
        and result.best is not None
        and result.best.plan == brute_force.to_plan(problem, table, answer.best)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("solvers", nargs="+", choices=tuple(SOLVERS), metavar="SOLVER")
    parser.add_argument("--instances", type=int, default=200, metavar="N")
    options = parser.parse_args()
    disagreed = dict.fromkeys(options.solvers, 0)
    refused = dict.fromkeys(options.solvers, 0)
    spent_s = dict.fromkeys(options.solvers, 0.0)
    schedules: Counter[str] = Counter()
    infeasible = 0
    for seed in range(options.instances):
        instance = make_instance(seed)
        answer = brute_force.solve(instance.problem, instance.table)
        schedules[instance.table.schedule] += 1
        infeasible += answer.best is None
        for solver in options.solvers:
            began = time.monotonic()
            try:
                if not agrees(solver, instance, answer):
                    disagreed[solver] += 1
                    print(f"{solver} disagrees on instance {seed}")
            except InputError:
                refused[solver] += 1
            spent_s[solver] += time.monotonic() - began
    drawn = ", ".join(f"{count} {name}" for name, count in schedules.items())
    print(f"{options.instances} instances ({drawn}), {infeasible} of them infeasible")
    for solver in options.solvers:
        agreed = options.instances - disagreed[solver] - refused[solver]
        print(
            f"{solver}: {agreed} agree, {disagreed[solver]} disagree, "
            f"{refused[solver]} refused; {spent_s[solver]:.0f} s"
        )
    return int(any(disagreed.values()))


if __name__ == "__main__":
    raise SystemExit(main())
