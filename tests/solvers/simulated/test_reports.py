"""What searches of the simulated time report: the best plans so far, and few others."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hetopt.cost.table.table import CostTable
from hetopt.formulations.decision import Decision
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.race.messages import NO_CUTOFF, Found
from hetopt.solvers.simulated.ledger import SimulatedLedger
from hetopt.solvers.simulated.worker import SearchTask, SimulatedSpec, SimulatedWorker
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_instance

TOP = 3


def _reported(instance: Instance) -> list[Found]:
    """Return all that one worker reports, whose parent hears nothing meanwhile."""
    found: list[Found] = []
    best = brute_force.solve(instance.problem, instance.table).best
    if best is None:
        return found
    stages, microbatches = best.shape[:2]
    longest = 100 * int(best.closed_form_ns) * PERIOD_SCALE
    worker = SimulatedWorker(
        SimulatedSpec(problem=instance.problem, table=instance.table, top=TOP),
        SimpleNamespace(value=longest),
        found.append,
    )
    worker.run(
        SearchTask(microbatches=microbatches, stages=stages, bound=0, time_limit_s=None)
    )
    return found


@pytest.mark.parametrize("seed", range(5))
def test_a_worker_reports_no_plan_beyond_its_best(seed: int) -> None:
    best: dict[tuple[object, ...], int] = {}
    for found in _reported(make_instance(seed, schedule="1f1b", pinned=False)):
        if len(best) >= TOP:
            assert found.value <= sorted(best.values())[TOP - 1]
        known = best.get(found.decision.shape, found.value)
        best[found.decision.shape] = min(known, found.value)


def test_a_ledger_ranks_each_plan_once(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = make_instance(0, schedule="1f1b", pinned=False)
    answer = brute_force.solve(instance.problem, instance.table)
    ledger = SimulatedLedger(instance.problem, instance.table, top=TOP, limit=NO_CUTOFF)
    ranked, tie_key = [], Decision.tie_key

    def counted(decision: Decision, table: CostTable) -> tuple[object, ...]:
        ranked.append(decision)
        return tie_key(decision, table)

    monkeypatch.setattr(Decision, "tie_key", counted)
    for found in answer.shapes[:20]:
        plan = brute_force.to_plan(instance.problem, instance.table, found)
        ledger.find(ledger.start(plan))
        ledger.ranked()
    assert len(ledger.plans) == 20
    assert len(ranked) == 20
