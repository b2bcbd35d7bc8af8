"""HAPT's tables use the balance that reports use."""

from __future__ import annotations

import hetopt
from benchmarks.hapt import Case, line
from hetopt.cost.build import build_table
from hetopt.pricing.balance import balance
from hetopt.problem.reading import read_problem


def test_balance_is_weighted_by_peak_flops() -> None:
    """The plain mean over stages, without HAPT's weights, is another number."""
    problem = read_problem("a100-h100-v100")
    case = Case(name="as it is", problem=problem, table=build_table(problem))
    best = hetopt.plan(problem, table=case.table, objective="closed", jobs=1).best
    assert best is not None
    priced = hetopt.price(best.plan, case.table)
    times = priced.times.round_trip_ns
    plain = sum(times) / len(times) / max(times)
    weighted = balance(problem, best.plan, priced)
    assert f"{weighted:.1%}" != f"{plain:.1%}"
    assert f"| {weighted:.1%} |" in line(case.name, best.plan, case)
