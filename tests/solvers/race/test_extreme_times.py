"""Solvers and verifier against brute force where times are as long as there may be."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from functools import cache
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.check.verify.certificate import CertificateCheck
from hetopt.check.verify.said import Said
from hetopt.cost.table.ticks import LONGEST_NS, TICK_S, TOO_LONG_NS
from hetopt.solvers.certificate.claim import certify
from hetopt.solvers.certificate.search_again import resolve, second_engine
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_instance

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.results.result import Result

    Ints = NDArray[np.int64]

SEEDS = range(30)
TIMES = ("forward_ns", "backward_ns", "sync_ns", "sync_unit_ns")


def dead_links(part: TableSlice, rng: Random) -> TableSlice:
    """Let no boundary between clusters be crossed within an iteration."""
    home = np.array([layout.cluster for layout in part.layouts])
    across = home[:, None] != home[None, :]
    return replace(
        part,
        transfer_ns=np.where(across, TOO_LONG_NS, part.transfer_ns),
        occupancy_ns=np.where(across, TOO_LONG_NS, part.occupancy_ns),
    )


def slow_all(part: TableSlice, rng: Random) -> TableSlice:
    """Multiply all times, so that some plans take too long and others do not."""
    slowest = int(part.transfer_ns.max(initial=1))
    for own in part.clusters:
        slowest = max(slowest, *(int(own.forward_ns.max(initial=1)),) * 2)
    factor = LONGEST_NS // (slowest * rng.choice((5, 50, 500)))

    def longer(times: Ints) -> Ints:
        return np.minimum(times, TOO_LONG_NS // factor) * factor

    return over(part, longer)


def some_endless(part: TableSlice, rng: Random) -> TableSlice:
    """Let a third of all times be longer than any iteration."""
    draws = np.random.default_rng(rng.randrange(2**32))

    def longer(times: Ints) -> Ints:
        return np.where(draws.random(times.shape) < 1 / 3, TOO_LONG_NS, times)

    part = over(part, longer)
    least = np.minimum(part.occupancy_ns, part.transfer_ns)
    return replace(part, occupancy_ns=least)


def over(part: TableSlice, change: object) -> TableSlice:
    assert callable(change)
    return replace(
        part,
        clusters=tuple(
            replace(own, **{name: change(getattr(own, name)) for name in TIMES})
            for own in part.clusters
        ),
        transfer_ns=change(part.transfer_ns),
        occupancy_ns=change(part.occupancy_ns),
        tied_ns=None if part.tied_ns is None else change(part.tied_ns),
    )


CHANGES = (dead_links, slow_all, some_endless)


@cache
def extreme(seed: int) -> tuple[Instance, Fraction | None]:
    """Return an instance, and its best closed form in ns by brute force."""
    instance = make_instance(seed)
    rng = Random(seed)
    change = CHANGES[seed % len(CHANGES)]
    old = instance.table
    table: CostTable = replace(
        old, slices=tuple(change(part, rng) for part in old.slices)
    )
    answer = brute_force.solve(instance.problem, table)
    best = min((found.closed_form_ns for found in answer.shapes), default=None)
    if best is not None and best > LONGEST_NS:
        best = None
    return replace(instance, table=table), best


def solved(instance: Instance, solver: str) -> Result:
    solve = load(solver)
    result: Result = solve(
        Request(
            problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
        )
    )
    return result


def same(result: Result, best: Fraction | None, instance: Instance) -> None:
    if best is None:
        assert result.status == "infeasible"
        assert result.reason is not None
        return
    assert result.status == "optimal"
    assert result.best is not None
    exact = float(best) * TICK_S
    assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12)
    data = json.loads(json.dumps(result.to_json()))
    assert check_result(instance.problem, instance.table, data) == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("solver", ["dp", "cp-sat"])
def test_extreme_times_change_no_optimum(seed: int, solver: str) -> None:
    instance, best = extreme(seed)
    same(solved(instance, solver), best, instance)


@pytest.mark.parametrize("seed", SEEDS)
def test_certificates_of_extreme_times_are_verified(seed: int) -> None:
    instance, _ = extreme(seed)
    problem, table = instance.problem, instance.table
    result = solved(instance, "dp")
    data = json.loads(certify(problem, table, result).to_text())
    plan = result.best.plan if result.best else None
    check = CertificateCheck(problem, table, data, Said(plan=plan))
    assert list(check.findings()) == []
    _, engine = second_engine("dp", 0)
    again = resolve(problem, table, check.doubts, engine, deadline=Deadline.after(60))
    assert [finding for _, finding in again if finding is not None] == []


@pytest.mark.slow
def test_all_sorts_of_answers_occur() -> None:
    answers = [extreme(seed)[1] for seed in SEEDS]
    assert 5 <= sum(best is None for best in answers) <= len(answers) - 5
