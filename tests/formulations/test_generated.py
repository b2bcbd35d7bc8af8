"""Programs of generated instances against brute force and the exact closed form."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from hetopt.formulations.chain import Chain
from hetopt.formulations.cp_sat import cuts as cp_sat_cuts
from hetopt.formulations.cp_sat.program import PipelineProgram
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.formulations.space import undominated
from hetopt.pricing.price import pipeline_times
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.solvers.decisions.assembly import plan_of, value_of
from tests.formulations.programs import data_of, optimum
from tests.oracle import brute_force
from tests.oracle.brute_force import Answer, Found
from tests.oracle.instances import Instance, make_instance

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable

#: More ticks than any plan of a generated table takes.
ENOUGH = 10**12
PROGRAMS = range(303, 313)
SPACES = range(285, 350)


@cache
def answered(seed: int) -> tuple[Instance, Answer]:
    instance = make_instance(seed)
    return instance, brute_force.solve(instance.problem, instance.table)


def program_of(instance: Instance, p: int, q: int) -> PipelineProgram:
    return PipelineProgram(
        data_of(
            instance.table, p, q, instance.problem.pins, cutoff=ENOUGH * PERIOD_SCALE
        )
    )


def stage_counts(instance: Instance) -> list[int]:
    most = Chain.of(instance.table).length
    return [p for p in instance.problem.stage_counts if p <= most]


@pytest.mark.parametrize("seed", PROGRAMS)
def test_optimum_is_the_best_closed_form_up_to_the_scaling(seed: int) -> None:
    instance, answer = answered(seed)
    table = instance.table
    for part in table.slices:
        q = part.microbatches
        for p in stage_counts(instance):
            found = optimum(program_of(instance, p, q))
            expected = answer.programs.get((p, q))
            assert (found is None) == (expected is None), (p, q)
            if found is None or expected is None:
                continue
            times = pipeline_times(plan_of(found.decision, table, ""), table)
            error = found.value - PERIOD_SCALE * closed_form_ns(times)
            assert 0 <= error < max(1, q - 1), (p, q)
            assert found.value == value_of(times)
            # not worse than what brute force found, before any rounding
            limit = PERIOD_SCALE * expected.closed_form_ns + max(0, q - 1)
            assert found.value <= limit, (p, q)


@pytest.mark.parametrize("seed", PROGRAMS[::3])
def test_cuts_remove_no_optimum(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance, answer = answered(seed)
    with_cuts = {
        (p, q): optimum(program_of(instance, p, q)) for p, q in answer.programs
    }
    for cut in ("device_time", "cluster_window"):
        monkeypatch.setattr(cp_sat_cuts, cut, lambda v: None)
    for (p, q), found in with_cuts.items():
        without = optimum(program_of(instance, p, q))
        assert found is not None
        assert without is not None
        assert found.value == without.value


@pytest.mark.parametrize("seed", SPACES)
def test_every_plan_satisfies_the_cuts(seed: int) -> None:
    instance, answer = answered(seed)
    table = instance.table
    for found in answer.shapes:
        p, q, order, strategies, stages = found.shape
        if q == 1:
            continue
        period, tau, kappa = _steady(table, found)
        first = 0
        for j, k, count in zip(order, strategies, stages, strict=True):
            own = table.at(q).clusters[j]
            work = sum(tau[first : first + count])
            assert own.devices[k] * work <= table.cluster_devices[j] * period
            if table.schedule != "gpipe":
                inner = 2 * sum(kappa[first : first + count - 1])
                shift = found.warmups[first] - found.warmups[first + count - 1]
                assert work + inner <= (shift + 1) * period
            first += count
        assert first == p


def _steady(table: CostTable, found: Found) -> tuple[Fraction, list[int], list[int]]:
    """Lambda from brute force's closed form, and tau and kappa of the plan."""
    _, q, order, strategies, stages = found.shape
    part = table.at(q)
    hosts = [
        (part.clusters[j], k)
        for j, k, count in zip(order, strategies, stages, strict=True)
        for _ in range(count)
    ]
    tau, sync, cuts = [], [], []
    end = 0
    for (own, k), units in zip(hosts, found.units, strict=True):
        kinds = table.units[end : end + units]
        end += units
        cuts.append(end)
        tau.append(
            sum(int(own.forward_ns[k, f] + own.backward_ns[k, f]) for f in kinds)
        )
        sync.append(
            int(own.sync_ns[k]) + sum(int(own.sync_unit_ns[k, f]) for f in kinds)
        )
    layouts = [int(own.layout[k]) for own, k in hosts]
    kappa = [
        int(part.transfer_ns[table.cuts[cut - 1], a, b])
        for cut, a, b in zip(cuts, layouts, layouts[1:], strict=False)
    ]
    if part.tied_ns is not None and len(hosts) > 1:
        extra = int(part.tied_ns[layouts[0], layouts[-1]])
        sync[0] += extra
        sync[-1] += extra
    fill = sum(tau) + 2 * sum(kappa) + max(sync)
    return (found.closed_form_ns - fill) / (q - 1), tau, kappa


@pytest.mark.parametrize("seed", SPACES)
def test_undominated_strategies_keep_the_plan(seed: int) -> None:
    instance, answer = answered(seed)
    table = instance.table
    chain = Chain.of(table)
    fewer = replace(
        table,
        slices=tuple(undominated(table, part, chain) for part in table.slices),
    )
    best = brute_force.solve(instance.problem, fewer).best
    assert (best is None) == (answer.best is None)
    if best is None or answer.best is None:
        return
    assert best.value_ns == answer.best.value_ns
    assert (
        brute_force.to_plan(instance.problem, fewer, best).pipelines
        == brute_force.to_plan(instance.problem, table, answer.best).pipelines
    )


@pytest.mark.slow
def test_some_strategies_are_dominated() -> None:
    removed = 0
    for seed in SPACES:
        table = answered(seed)[0].table
        chain = Chain.of(table)
        for part in table.slices:
            fewer = undominated(table, part, chain)
            removed += sum(len(own.strategies) for own in part.clusters)
            removed -= sum(len(own.strategies) for own in fewer.clusters)
    assert removed > 0
