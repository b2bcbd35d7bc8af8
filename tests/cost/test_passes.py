"""Experts' all-to-alls that another micro-batch's computation hides."""

from __future__ import annotations

import numpy as np
import pytest

from hetopt.cost.build import build_table
from hetopt.cost.communication.within_stage import OVERLAP_COST, exposed_dispatch_s
from hetopt.cost.sources.source import ShardQuery, ShardTimes
from hetopt.cost.table.table import CostTable, SourceKind
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.model.kinds import LAYER, LAYER_EXPERTS
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import ScheduleName

FORWARD_NS = 80_000

PROBLEM = """\
model:
  layers: 6
  hidden: 1024
  heads: 16
  ffn: 2048
  vocab: 4096
  experts: {number: 8, per_token: 2, ffn: 512, dense_layers: [0, 3]}
clusters:
  - name: a
    accelerator: H100
    nodes: 2
    devices_per_node: 4
    inter_node: {bandwidth: 100 Gbps}
training: {global_batch: 16, seq_len: 2048, moe: {overlap: OVERLAP}}
"""


def problem(
    overlap: float, schedule: ScheduleName = "1f1b", chunks: int = 1
) -> Problem:
    found = read_problem_text(PROBLEM.replace("OVERLAP", str(overlap)))
    return found.under(schedule, chunks)


def tables(schedule: ScheduleName = "1f1b", chunks: int = 1) -> list[CostTable]:
    """Return the table where nothing is hidden, half of it and all of it."""
    return [build_table(problem(each, schedule, chunks)) for each in (0, 0.5, 1)]


@pytest.mark.parametrize(
    ("dispatch", "computation", "share", "exposed"),
    [
        # None, all and half of what fits, and what is more than there is to hide it.
        (2.0, 5.0, 0.0, 2.0),
        (2.0, 5.0, 1.0, OVERLAP_COST * 2.0),
        (2.0, 5.0, 0.5, 1.0 + OVERLAP_COST * 1.0),
        (7.0, 5.0, 1.0, 2.0 + OVERLAP_COST * 5.0),
        (20.0, 5.0, 0.5, 10.0 + 5.0 + OVERLAP_COST * 5.0),
    ],
)
def test_what_is_exposed(
    dispatch: float, computation: float, share: float, exposed: float
) -> None:
    found = exposed_dispatch_s(*(np.array([x]) for x in (dispatch, computation, share)))
    assert found == pytest.approx([exposed])
    assert computation + found[0] >= max(dispatch, computation)


def test_one_micro_batch_has_no_other_to_run_beside() -> None:
    nothing, _, everything = (table.at(1).clusters[0] for table in tables())
    assert np.array_equal(nothing.forward_ns, everything.forward_ns)
    assert np.array_equal(nothing.state_bytes, everything.state_bytes)


class _Constant:
    """Computes every unit forward in 80 us, backward in 160."""

    def source_kind(self, cluster: Cluster) -> SourceKind:
        return "measured"

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        forward = np.full((len(query.shape.tp), len(query.kinds)), FORWARD_NS * 1e-9)
        nothing = np.zeros_like(forward)
        return ShardTimes(
            forward_s=forward,
            backward_s=2 * forward,
            attention_core_s=nothing,
            attention_core_backward_s=nothing,
            weight_s=nothing,
        )


def test_no_more_is_hidden_than_is_computed() -> None:
    """Times by hand: what is sent is what the exposed pass has beside computation."""
    q, share = 4, 0.9 * 3 / 4
    before, after = (
        build_table(problem(overlap), _Constant()).at(q).clusters[0]
        for overlap in (0, 0.9)
    )
    kind = build_table(problem(0)).kinds.index(LAYER_EXPERTS)
    limited = set()
    for row, own in enumerate(before.strategies):
        others = own.tp > 1 or own.cp > 1 or own.recompute == "selective"
        if others or own.ep == 1:
            continue
        sent = before.forward_ns[row, kind] - FORWARD_NS
        saved = [
            (1 - OVERLAP_COST) * min(share * sent, computed)
            for computed in (FORWARD_NS, 2 * FORWARD_NS)
        ]
        limited.add(share * sent > FORWARD_NS)
        forward = before.forward_ns[row, kind] - saved[0]
        assert after.forward_ns[row, kind] == pytest.approx(forward, abs=2)
        # What full recomputation repeats is exposed.
        backward = before.backward_ns[row, kind] - saved[1]
        assert after.backward_ns[row, kind] == pytest.approx(backward, abs=2)
    assert limited == {True, False}


@pytest.mark.parametrize(
    ("schedule", "chunks"),
    [("1f1b", 1), ("interleaved-1f1b", 2), ("zb-h1", 1), ("zb-v", 1), ("gpipe", 1)],
)
def test_stages_hold_one_more_micro_batch(schedule: ScheduleName, chunks: int) -> None:
    """What is in flight forward and backward at once is of two micro-batches."""
    before, _, after = (table.at(4).clusters[0] for table in tables(schedule, chunks))
    more = before.activation_bytes * (schedule != "gpipe")
    # Where experts are not spread, nothing runs beside anything.
    more[[strategy.ep == 1 for strategy in before.strategies]] = 0
    assert more.any() == (schedule != "gpipe")
    assert np.array_equal(after.state_bytes, before.state_bytes + more)
    assert np.array_equal(after.activation_bytes, before.activation_bytes)


def test_what_ranks_gather_that_share_experts_is_not_hidden() -> None:
    before, _, after = (table.at(4).clusters[0] for table in tables())
    alone = [strategy.ep == 1 for strategy in before.strategies]
    shared = [strategy.etp > 1 for strategy in before.strategies]
    assert np.any(np.array(alone) & shared)
    assert np.array_equal(before.forward_ns[alone], after.forward_ns[alone])
    assert np.array_equal(before.backward_ns[alone], after.backward_ns[alone])


def test_layers_without_experts_send_nothing() -> None:
    before, _, after = tables()
    dense = before.kinds.index(LAYER)
    for q in (1, 4):
        one, other = before.at(q).clusters[0], after.at(q).clusters[0]
        assert np.array_equal(one.forward_ns[:, dense], other.forward_ns[:, dense])
        assert np.array_equal(one.backward_ns[:, dense], other.backward_ns[:, dense])
