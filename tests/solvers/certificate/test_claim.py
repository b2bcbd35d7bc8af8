"""Certificates of races over generated instances hold; open ones claim less."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check.verify.certificate import CertificateCheck
from hetopt.check.verify.findings import Doubt
from hetopt.check.verify.said import Said
from hetopt.cost.table.ticks import LONGEST_S
from hetopt.planning.solving import solve_for
from hetopt.problem.training.principles import Principles
from hetopt.solvers.certificate.claim import certify
from hetopt.solvers.certificate.search_again import (
    refuted_at_once,
    resolve,
    resolve_simulated,
    second_engine,
)
from hetopt.solvers.cp_sat import solve
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.simulated.solver import solve_simulated
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_chunked, make_instance

if TYPE_CHECKING:
    from collections.abc import Iterable


@pytest.mark.parametrize("seed", range(950, 965))
def test_certificates_hold(seed: int) -> None:
    _ensure_certified(make_instance(seed))


@pytest.mark.parametrize("seed", range(950, 956))
def test_certificates_of_several_chunks_hold(seed: int) -> None:
    _ensure_certified(make_chunked(seed, 2 + seed % 3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(956, 996))
def test_more_certificates_of_several_chunks_hold(seed: int) -> None:
    _ensure_certified(make_chunked(seed, 2 + seed % 3))


def _ensure_certified(instance: Instance) -> None:
    """Have the certificate of an instance's optimum hold."""
    problem, table = instance.problem, instance.table
    request = Request(problem=problem, table=table, params=RaceParams(jobs=0))
    result = solve_for("cp-sat", "closed")(request)
    data = json.loads(certify(problem, table, result).to_text())
    plan = None if result.best is None else result.best.plan
    check = CertificateCheck(problem, table, data, Said(plan=plan))
    assert list(check.findings()) == []
    again: Iterable[tuple[Doubt, str | None]]
    if check.of_paths:
        again = resolve_simulated(
            problem,
            check.searched,
            check.doubts,
            deadline=Deadline(),
            objective="closed",
        )
    else:
        _, engine = second_engine("cp-sat", 0)
        again = resolve(
            problem, check.searched, check.doubts, engine, deadline=Deadline()
        )
    for doubt, wrong in again:
        assert wrong is None, doubt


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("seed", range(820, 828))
@pytest.mark.parametrize("solver", ["dp", "miqp-highs"])
def test_certificates_of_wider_spaces_hold(solver: str, seed: int) -> None:
    names = (["p4"], ["p4-falling-tp"], ["p3"], ["p3", "p4"])[seed % 4]
    principles = Principles.relaxing(names)
    instance = make_instance(seed, widest=True)
    problem, table = instance.problem, instance.table
    params = RaceParams(jobs=0, principles=principles)
    result = load(solver)(Request(problem=problem, table=table, params=params))
    data = json.loads(certify(problem, table, result).to_text())
    assert data["relaxed"] == names
    plan = None if result.best is None else result.best.plan
    check = CertificateCheck(
        problem, table, data, Said(plan=plan, relaxed=tuple(names))
    )
    assert list(check.findings()) == []
    _, engine = second_engine(solver, 0, principles)
    for doubt, wrong in resolve(
        problem,
        table,
        check.doubts,
        engine,
        deadline=Deadline(),
        principles=principles,
    ):
        assert wrong is None, doubt


@pytest.mark.parametrize("seed", range(630, 638))
def test_certificates_of_simulated_times_hold(seed: int) -> None:
    instance = make_instance(seed, schedule="free-1f1b" if seed % 4 == 3 else None)
    problem, table = instance.problem, instance.table
    result = solve_simulated(
        Request(problem=problem, table=table, params=RaceParams(jobs=0)), solver="dp"
    )
    data = json.loads(certify(problem, table, result).to_text())
    assert data["objective"] == "simulated"
    plan = None if result.best is None else result.best.plan
    check = CertificateCheck(problem, table, data, Said(plan=plan, relaxed=()))
    assert list(check.findings()) == []
    for doubt, wrong in resolve_simulated(
        problem, table, check.doubts, deadline=Deadline()
    ):
        assert wrong is None, doubt


def test_what_was_not_settled_is_claimed_as_such() -> None:
    instance = make_instance(4, pinned=False)
    problem, table = instance.problem, instance.table
    result = solve(Request(problem=problem, table=table, params=RaceParams(jobs=0)))
    assert result.best is not None
    half = result.best.closed_form_s / 2
    stopped = replace(
        result,
        status="feasible",
        lower_bound_s=half,
        gap=0.5,
        settlements=tuple(
            replace(settlement, how="unsettled", bound_s=half)
            if settlement.how == "refuted-by-search" or settlement.how == "solved"
            else settlement
            for settlement in result.settlements
        ),
    )
    data = json.loads(certify(problem, table, stopped).to_text())
    assert data["status"] == "feasible"
    assert data["lower_bound_ps"] < data["value_ps"]
    check = CertificateCheck(problem, table, data, Said(plan=result.best.plan))
    assert list(check.findings()) == []


def test_no_bound_is_above_what_an_iteration_may_take() -> None:
    """A search that is cut short may know that a program has no plan short enough."""
    instance = make_instance(4, pinned=False)
    problem, table = instance.problem, instance.table
    result = solve(Request(problem=problem, table=table, params=RaceParams(jobs=0)))
    first, *others = result.settlements
    beyond = replace(first, how="unsettled", bound_s=2.0 * LONGEST_S)
    rest = [replace(other, how="unsettled", bound_s=0.0) for other in others]
    stopped = replace(result, status="feasible", settlements=(beyond, *rest))
    data = json.loads(certify(problem, table, stopped).to_text())
    assert result.best is not None
    check = CertificateCheck(problem, table, data, Said(plan=result.best.plan))
    assert list(check.findings()) == []


def test_far_claims_are_refuted_at_once_and_true_ones_never() -> None:
    refuted, claims = 0, 0
    drawn = (make_chunked(seed, 2 + seed % 3) for seed in range(7706, 7712))
    for instance in (*map(make_instance, range(12)), *drawn):
        answer = brute_force.solve(instance.problem, instance.table)
        for (p, q), best in answer.programs.items():
            # Values are rounded up to a whole tick.
            least_ps = (best.value_ns - q * instance.table.chunks) * 1000
            for bound_ps in (None, 100 * least_ps):
                claims += 1
                doubt = _doubt(p, q, bound_ps)
                refuted += refuted_at_once(instance.problem, instance.table, doubt)
            truth = _doubt(p, q, least_ps)
            assert not refuted_at_once(instance.problem, instance.table, truth)
    # The instances have hardly room for any plan; others are refuted by a search.
    assert refuted > claims / 2


def test_what_has_no_plan_is_not_refuted_at_once() -> None:
    instance = make_instance(3)
    answer = brute_force.solve(instance.problem, instance.table)
    problem = instance.problem
    every = {(p, q) for p in problem.stage_counts for q in problem.microbatch_counts}
    for p, q in sorted(every - answer.programs.keys()):
        assert not refuted_at_once(problem, instance.table, _doubt(p, q, None))


def _doubt(p: int, q: int, bound_ps: int | None) -> Doubt:
    return Doubt(
        field="", stages=p, microbatches=q, bound_ps=bound_ps, always=True, ranges=None
    )
