"""Labels and bounds on boxes keep to a worker's share of the memory."""

from __future__ import annotations

import gc
from weakref import ref

import numpy as np
import pytest

from benchmarks.growing import Size, problem
from hetopt.cost.build import build_table
from hetopt.formulations.chain import Chain
from hetopt.formulations.permitted import Permitted
from hetopt.solvers.bounds.cluster_costs import ClusterCosts
from hetopt.solvers.dp import solver as dp
from hetopt.solvers.dp.buffers import Buffers
from hetopt.solvers.params import RaceParams
from hetopt.solvers.pools import memory
from hetopt.solvers.request import Request

SIZE = Size(4, 256, 24)


def test_workers_share_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_available_bytes", lambda: 4.0e9)
    assert memory.share_bytes(1) == memory.MOST_BYTES
    assert memory.share_bytes(4) == memory.MOST_BYTES // 4
    monkeypatch.setattr(memory, "_available_bytes", lambda: 1.0e9)
    assert memory.share_bytes(0) == 500_000_000
    assert memory.share_bytes(2) == 250_000_000


def test_files_in_memory_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "/proc/meminfo": "MemAvailable: 60000000 kB\n",
        "/sys/fs/cgroup/memory.max": "8000000000\n",
        "/sys/fs/cgroup/memory.current": "7000000000\n",
        "/sys/fs/cgroup/memory.stat": "anon 1\nactive_file 2000000000\n"
        "inactive_file 3000000000\n",
    }
    monkeypatch.setattr(memory, "_text", texts.__getitem__)
    assert memory._available_bytes() == 6e9
    texts["/sys/fs/cgroup/memory.stat"] = ""
    assert memory._available_bytes() == 1e9


def test_something_is_available() -> None:
    assert memory.share_bytes(1) > 1 << 20


def test_room_grows_to_its_bytes_and_no_further() -> None:
    room = Buffers(4 << 20)
    room.begin(3, 0)
    while room.widen(1_000):
        assert room.taken_bytes <= 4 << 20
        room.pool.size[0] += 1_000
        room.layers[1].size[0] = 0
    labels = np.asarray(room.pool.label)
    assert room.taken_bytes <= 4 << 20
    assert labels.nbytes > 1 << 20


def test_without_memory_a_gap_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    own = problem(SIZE, 0)
    table = build_table(own)
    params = RaceParams(jobs=0)
    best = dp.solve(Request(problem=own, table=table, params=params))
    assert best.status == "optimal"
    assert best.best is not None
    monkeypatch.setattr(Buffers, "widen", lambda self, more: False)
    found = dp.solve(Request(problem=own, table=table, params=params))
    assert found.status == "feasible"
    assert found.best is not None
    assert found.lower_bound_s is not None
    assert found.lower_bound_s < best.best.closed_form_s <= found.best.closed_form_s


def test_bounds_that_are_dropped_are_gone() -> None:
    own = problem(SIZE, 0)
    table = build_table(own)
    part = table.slices[-1]
    gc.collect()
    gc.disable()
    try:
        costs = ClusterCosts(
            table=table,
            part=part,
            chain=Chain.of(table),
            permitted=Permitted.of(own.pins, table.cluster_names),
            j=0,
            most_stages=4,
        )
        costs.costs(1e9)
        known = ref(costs)
        del costs
        assert known() is None
    finally:
        gc.enable()
