"""What is remembered of latencies is what the source says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.build import build_table
from hetopt.cost.profiles.file import profile_text
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.forest_source import ForestSource
from hetopt.cost.sources.remembered import RememberedSource
from hetopt.cost.table_file.file import table_digest
from hetopt.problem.reading import read_problem_text
from tests.cost.making import query, shape
from tests.cost.profiling import make_profile

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.cost.sources.source import LatencySource, ShardQuery, ShardTimes
    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.cluster.cluster import Cluster

PROBLEM = read_problem_text("""\
model: {layers: 4, hidden: 512, heads: 4, ffn: 2048, vocab: 1000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 2, devices_per_node: 4,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A40, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 8, seq_len: 1024}
""")


class Counting:
    """Counts the shards that a source is asked for."""

    def __init__(self, source: LatencySource) -> None:
        self.source, self.asked = source, 0

    def source_kind(self, cluster: Cluster) -> SourceKind:
        return self.source.source_kind(cluster)

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        self.asked += len(query.shape.tp)
        return self.source.shard_times(query)


def test_tables_are_the_same_and_nothing_is_asked_twice() -> None:
    counting = Counting(latency_sources(PROBLEM))
    source = RememberedSource(counting)
    asked = []
    for batch in (8, 6, 8, 6):
        training = replace(PROBLEM.training, global_batch=batch)
        problem = replace(PROBLEM, training=training)
        table = build_table(problem, source)
        assert table_digest(table) == table_digest(build_table(problem))
        asked.append(counting.asked)
    assert 0 < asked[0] < asked[1]
    assert asked[1:] == [asked[1]] * 3


def test_equal_shards_of_a_query_are_asked_once() -> None:
    counting = Counting(latency_sources(PROBLEM))
    source = RememberedSource(counting)
    shards = shape((1, 1, 1), (1, 1, 1), (1, 1, 2))
    wanted = query(
        PROBLEM.model, PROBLEM.training, PROBLEM.clusters[0], ("layer",), shards
    )
    expected = latency_sources(PROBLEM).shard_times(wanted).forward_s
    assert expected[0] > expected[2]
    for _ in range(2):
        assert np.array_equal(source.shard_times(wanted).forward_s, expected)
        assert counting.asked == 2


def test_what_times_hold_is_remembered_for_each_shard(tmp_path: Path) -> None:
    """Communication is in those of profiled degrees alone."""
    profile = make_profile(("layer",))
    header = {**profile.header, "communication": "included"}
    text = profile_text(header, profile.rows)
    source = ForestSource(text, "made-up", cache=tmp_path)
    remembered = RememberedSource(source)
    for shards in (shape((1, 1, 2)), shape((1, 1, 8), (1, 1, 2), (1, 1, 1))):
        wanted = query(
            PROBLEM.model, PROBLEM.training, PROBLEM.clusters[0], ("layer",), shards
        )
        found = remembered.shard_times(wanted).communicates
        assert np.array_equal(found, source.shard_times(wanted).communicates)
    assert found[:, 0].tolist() == [False, True, True]
