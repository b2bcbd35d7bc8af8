"""Generated problems are what their sizes say, and bounds cope with many clusters."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from benchmarks.growing import Size, document, problem
from hetopt.cost.build import build_table
from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.scale import PERIOD_SCALE
from hetopt.solvers.race.ledger import Ledger
from hetopt.solvers.race.messages import NO_CUTOFF, Found, Payload
from hetopt.solvers.race.q_order import QOrder
from hetopt.solvers.race.worker import Worker

SIZES = (Size(2, 64, 24), Size(8, 4096, 96), Size(16, 16384, 126))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seed", range(3))
def test_problems_are_as_large_as_asked_for(size: Size, seed: int) -> None:
    made = problem(size, seed)
    assert len(made.clusters) == size.clusters
    assert made.model.layers == size.layers
    devices = sum(cluster.devices for cluster in made.clusters)
    assert devices == pytest.approx(size.devices, rel=0.25)
    assert document(size, seed) == document(size, seed)
    assert document(size, seed) != document(size, seed + 1)


def test_many_clusters_are_of_at_least_six_kinds_and_some_are_alike() -> None:
    twins = 0
    for seed in range(10):
        clusters = problem(Size(16, 16384, 126), seed).clusters
        assert len({cluster.accelerator.name for cluster in clusters}) >= 6
        sizes = [(cluster.accelerator.name, cluster.nodes) for cluster in clusters]
        twins += len(sizes) - len(set(sizes))
    assert twins


@pytest.mark.slow
def test_bounds_on_q_alone_get_close_where_clusters_are_many() -> None:
    made = problem(Size(16, 16384, 126), 2)
    table = build_table(made)
    ledger = Ledger(made, table, top=1, limit=NO_CUTOFF)
    shared = SimpleNamespace(value=NO_CUTOFF)

    def say(found: Found) -> None:
        ledger.find(found)
        shared.value = ledger.cutoff

    engine = "hetopt.solvers.dp.solver:DpEngine"
    worker = Worker(
        Payload(problem=made, table=table, engine=engine, seed=0, top=1), shared, say
    )
    order = QOrder(ledger)
    for task in order.tasks():
        if task is None:
            break
        order.take(task, worker.run(task))
    best = ledger.ranked()[0].value * TICK_S / PERIOD_SCALE
    bound = ledger.bound_s()
    assert bound is not None
    assert 0 <= best - bound <= 0.01 * best
