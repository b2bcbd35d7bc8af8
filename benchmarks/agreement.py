"""Solvers against brute force on generated instances: the same plan, or none.

Run with ``python -m benchmarks.agreement milp`` (more names, more solvers;
``--instances 200`` is the default). Ends with 1 if a solver disagrees.
Every fifth instance has the same schedule; instances that a solver refuses are counted
separately. With ``--certificates`` every result's certificate is verified too, and all
programs that were refuted by search are searched again with another engine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from typing import TYPE_CHECKING

from hetopt.base.deadline import Deadline
from hetopt.check.verify.certificate import CertificateCheck
from hetopt.check.verify.said import Said
from hetopt.errors import InputError
from hetopt.solvers.certificate.claim import certify
from hetopt.solvers.certificate.search_again import resolve, second_engine
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.registry import SOLVERS
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from hetopt.results.result import Result
    from tests.oracle.brute_force import Answer
    from tests.oracle.instances import Instance


def solved(solver: str, instance: Instance) -> Result:
    """Return a solver's result on an instance."""
    return load(solver)(
        Request(
            problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
        )
    )


def is_verified(result: Result, instance: Instance) -> bool:
    """Whether every claim of the result's certificate can be confirmed."""
    problem, table = instance.problem, instance.table
    data = json.loads(certify(problem, table, result).to_text())
    plan = None if result.best is None else result.best.plan
    check = CertificateCheck(problem, table, data, Said(plan=plan))
    if list(check.findings()):
        return False
    _, engine = second_engine(result.solver, 0)
    searched = resolve(problem, table, check.doubts, engine, deadline=Deadline())
    return all(wrong is None for _, wrong in searched)


def agrees(result: Result, instance: Instance, answer: Answer) -> bool:
    """Whether a solver reports brute force's plan, or that there is none."""
    problem, table = instance.problem, instance.table
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
    parser.add_argument("--certificates", action="store_true")
    options = parser.parse_args()
    unverified = dict.fromkeys(options.solvers, 0)
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
                result = solved(solver, instance)
                if not agrees(result, instance, answer):
                    disagreed[solver] += 1
                    print(f"{solver} disagrees on instance {seed}")
                if options.certificates and not is_verified(result, instance):
                    unverified[solver] += 1
                    print(f"the certificate of {solver} fails on instance {seed}")
            except InputError:
                refused[solver] += 1
            spent_s[solver] += time.monotonic() - began
    drawn = ", ".join(f"{count} {name}" for name, count in schedules.items())
    print(f"{options.instances} instances ({drawn}), {infeasible} of them infeasible")
    for solver in options.solvers:
        agreed = options.instances - disagreed[solver] - refused[solver]
        certificates = ""
        if options.certificates:
            count = options.instances - refused[solver]
            certificates = f"; {unverified[solver]} of {count} certificates fail"
        print(
            f"{solver}: {agreed} agree, {disagreed[solver]} disagree, "
            f"{refused[solver]} refused; {spent_s[solver]:.0f} s" + certificates
        )
    return int(any(disagreed.values()) or any(unverified.values()))


if __name__ == "__main__":
    raise SystemExit(main())
