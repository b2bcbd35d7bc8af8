"""A problem written as data and read back is the same problem."""

import json
from dataclasses import replace

import pytest

from hetopt.problem.catalogue import problem_files
from hetopt.problem.digest import problem_digest
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem, read_problem_text
from tests.problem.writing import problem_to_data

FULL = """\
name: everything
model: {layers: 4, hidden: 96, heads: 3, gated: false, positions: 7, granularity: block}
clusters:
  - name: a
    accelerator: A40
    nodes: 3
    devices_per_node: 4
    group: {size: 2, bandwidth: 56.25 GB/s}
    nics_per_node: 1
    inter_node: {bandwidth: 1.1 Gbps, latency: 3.3 us}
    hosts: [gpu-1, gpu-2.example.org, 10.0.0.3]
  - name: b
    accelerator: V100-16GB
    nodes: 1
    devices_per_node: 8
    inter_node: {bandwidth: 100 Gbps}
  - name: c
    accelerator: V100-16GB
    nodes: 1
    devices_per_node: 8
    inter_node: {bandwidth: 100 Gbps}
links:
  default: {bandwidth: 10 Gbps, latency: 0.1 ms, per_node: 40 Gbps, per_message: 2 us}
  pairs:
    - {between: [c, a], bandwidth: unlimited, per_connection: 1 Gbps, staged: device}
    - {between: [b, c], bandwidth: none}
training:
  global_batch: 24
  seq_len: 128
  precision: fp16
  optimizer: sgd
  zero: 3
  overlap_gradients: false
  recompute: {a: [full, none]}
  schedule: gpipe
  reserve: 7.5%
pin:
  stages: [3, 2]
  microbatches: [4, 2]
  order: [c, a]
  units: [5, 9]
  resharding: [leader, p2p]
  clusters: {a: {stages: 1, dp: [4, 2], recompute: [full, none]}, c: {units: 5}}
  forbid:
    stages: 3
    microbatches: 1
    resharding: inner-dp
    next: [[c, b], [a, b]]
    clusters: {b: {stages: 0, tp: [2, 4]}, a: {recompute: full, cp: 2}}
latency: {b: roofline}
"""


def bare(problem: Problem) -> Problem:
    """Drop the sources, which are not part of a problem file."""
    clusters = tuple(
        replace(cluster, accelerator=replace(cluster.accelerator, sources={}))
        for cluster in problem.clusters
    )
    return replace(problem, clusters=clusters)


def check(problem: Problem) -> None:
    text = json.dumps(problem_to_data(problem))
    again = read_problem_text(text, "again.json")
    assert bare(again) == bare(problem)
    assert problem_digest(again) == problem_digest(problem)
    assert problem_to_data(again) == problem_to_data(problem)


def test_everything() -> None:
    text = FULL.replace("  order: [c, a]\n", "").replace("b: {stages: 0, ", "b: {")
    check(read_problem_text(text, "full.yaml"))


def test_an_order_that_leaves_a_cluster_out() -> None:
    check(read_problem_text(FULL.replace("b: {stages: 0, ", "b: {"), "full.yaml"))


@pytest.mark.parametrize("name", problem_files())
def test_shipped(name: str) -> None:
    check(read_problem(str(problem_files()[name])))
