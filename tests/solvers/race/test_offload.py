"""Clusters that offload the optimizer have plans that others have not."""

from __future__ import annotations

from functools import cache

import pytest

from hetopt.cost.build import build_table
from hetopt.problem.reading import read_problem_text
from tests.oracle import brute_force
from tests.oracle.instances import Instance

#: The whole optimizer does not fit; on one of the clusters, or both, it need not.
TEXT = """\
model: {layers: 6, hidden: 1024, heads: 8, vocab: 8000}
clusters:
  - name: fast
    accelerator: A40
    nodes: 1
    devices_per_node: 2
    memory: 420 MB
    overhead: 0 GB
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
    OF-FAST
  - name: slow
    accelerator: A40
    nodes: 1
    devices_per_node: 2
    memory: 380 MB
    overhead: 0 GB
    intra_node: {bandwidth: 4 GB/s}
    host_device: {bandwidth: 2 GB/s}
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
    OF-SLOW
links:
  default: {bandwidth: 10 Gbps, latency: 50 us}
training: {global_batch: 4, seq_len: 256, recompute: none, schedule: 1f1b}
"""

OFFLOADING = [("fast",), ("slow",), ("fast", "slow")]


@cache
def offloading(*names: str) -> Instance:
    text = TEXT
    for name in ("fast", "slow"):
        said = "offload: optimizer" if name in names else "max_tp: 2"
        text = text.replace(f"OF-{name.upper()}", said)
    problem = read_problem_text(text, "p.yaml")
    return Instance(seed=0, problem=problem, table=build_table(problem))


@pytest.mark.parametrize("names", OFFLOADING)
def test_plans_exist_because_of_it(names: tuple[str, ...]) -> None:
    def best(*offloads: str) -> brute_force.Found | None:
        instance = offloading(*offloads)
        return brute_force.solve(instance.problem, instance.table).best

    assert best() is None
    assert best(*names) is not None
