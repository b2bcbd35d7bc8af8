"""Tables of one pipeline among several: the reduction over pipelines by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hetopt.cost.build import build_table
from hetopt.cost.device_work import least_device_seconds
from hetopt.cost.divided import depends_on, part
from hetopt.errors import InputError
from hetopt.pricing.several import price_several
from hetopt.problem.division import part_of
from hetopt.problem.reading import read_problem_text

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem

TEXT = """\
model: {layers: 4, hidden: 512, heads: 4, ffn: 2048, vocab: 1000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 4, devices_per_node: 2, nics_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}, uplink: 40 Gbps}
  - {name: b, accelerator: A40, nodes: 2, devices_per_node: 2, nics_per_node: 1,
     inter_node: {bandwidth: 50 Gbps, latency: 5 us}}
links: {default: {bandwidth: 20 Gbps, latency: 1 ms, per_message: 1 us, staged: device}}
training: {global_batch: 8, seq_len: 1024, overlap_gradients: false, zero: 1}
"""
ALIKE = ({"a": (2, 2)}, {"a": (2, 2)})
APART = ({"a": (2, 2, 2, 2)}, {"b": (2, 2)})
#: Seconds that a collective between nodes takes to start (vidur's profiles).
START_S = 50e-6


@pytest.fixture(scope="module")
def problem() -> Problem:
    return read_problem_text(TEXT)


def added_ns(with_: CostTable, without: CostTable) -> tuple[np.ndarray, np.ndarray]:
    """Return what the reduction adds to a stage and to each unit, in nanoseconds."""
    (one, *_), (other, *_) = with_.slices, without.slices
    mine, plain = one.clusters[0], other.clusters[0]
    assert mine.strategies == plain.strategies
    assert (mine.forward_ns == plain.forward_ns).all()
    return mine.sync_ns - plain.sync_ns, mine.sync_unit_ns - plain.sync_unit_ns


@pytest.mark.parametrize(
    ("division", "bytes_per_s", "latency_s"),
    [
        # Two interfaces of 100 Gbps for two devices, of which rings reach 90%.
        (ALIKE, 12.5e9 * 0.9, 5e-6),
        # Eight devices share 20 Gbps; a message costs its latency and 1 us.
        (APART, 20e9 / 8 / 8, 1.001e-3),
    ],
)
def test_a_shard_passes_once_between_two_pipelines(
    problem: Problem,
    division: tuple[dict[str, tuple[int, ...]], ...],
    bytes_per_s: float,
    latency_s: float,
) -> None:
    own = part(problem, division, 0, 4)
    stage, unit = added_ns(own.table, build_table(own.problem))
    assert stage == pytest.approx(np.full(len(stage), START_S + 2 * latency_s) * 1e9)
    layer = own.table.kinds.index("layer")
    strategies = own.table.slices[0].clusters[0].strategies
    for k, strategy in enumerate(strategies):
        # Matrices are split by tp, norms are not; fp32 gradients, scattered over d c.
        matrices = 4 * 512 * 512 + 3 * 512 * 2048
        if strategy.tp > 1:
            matrices //= strategy.tp
        held = (matrices + 2 * 512) / (strategy.dp * strategy.cp)
        assert unit[k, layer] == pytest.approx(held * 4 / bytes_per_s * 1e9, rel=1e-3)


def test_more_pipelines_move_more(problem: Problem) -> None:
    four = tuple({"a": (2,)} for _ in range(4))
    two = part(problem, ({"a": (2,)}, {"a": (2, 2, 2)}), 0, 2)
    more = part(problem, four, 0, 2)
    plain = build_table(two.problem)
    once, thrice = added_ns(two.table, plain)[1], added_ns(more.table, plain)[1]
    assert thrice == pytest.approx(1.5 * once, abs=2)


def test_gradients_hide_behind_the_last_backward_pass(problem: Problem) -> None:
    hides = replace(problem, training=replace(problem.training, overlap_gradients=True))
    shown, hidden = (
        added_ns(own.table, build_table(own.problem))
        for own in (part(each, ALIKE, 0, 4) for each in (problem, hides))
    )
    # No more than all of it, but for rounding; less in units that compute for a while.
    assert (hidden[1] <= shown[1] + 1).all()
    assert (hidden[1] < shown[1] - 1).any()


def test_what_pipelines_share_is_divided(problem: Problem) -> None:
    both = ({"a": (2, 2), "b": (2,)}, {"a": (2, 2), "b": (2,)})
    own = part_of(problem, both, 0, 3)
    assert own.training.global_batch == 3
    assert [cluster.nodes for cluster in own.clusters] == [2, 1]
    link = own.links.between("a", "b")
    whole = problem.links.between("a", "b")
    assert link is not None
    assert whole is not None
    assert whole.capacity_bytes_per_s is not None
    assert link.capacity_bytes_per_s == whole.capacity_bytes_per_s / 2
    assert own.clusters[0].uplink_bytes_per_s == 40e9 / 8 / 2


def test_half_a_node_has_half_of_its_interfaces(problem: Problem) -> None:
    halves = ({"a": (1,), "b": (1,)}, {"a": (2, 2, 2, 1), "b": (2, 1)})
    own = part_of(problem, halves, 0, 3)
    assert [cluster.devices for cluster in own.clusters] == [1, 1]
    a, b = own.clusters
    assert (a.nics_per_node, a.inter_node.bandwidth_bytes_per_s) == (1, 12.5e9)
    # Its one interface cannot be cut: it is half as fast.
    assert (b.nics_per_node, b.inter_node.bandwidth_bytes_per_s) == (1, 50e9 / 8 / 2)


def test_the_other_ends_uplink_counts_too() -> None:
    slow = read_problem_text(
        TEXT.replace(", uplink: 40 Gbps", "").replace(
            "{bandwidth: 50 Gbps, latency: 5 us}}",
            "{bandwidth: 50 Gbps, latency: 5 us}, uplink: 4 Gbps}",
        )
    )
    layer = slow.model.units.index("layer")
    for number in (0, 1):
        own = part(slow, APART, number, 4)
        _, unit = added_ns(own.table, build_table(own.problem))
        strategies = own.table.slices[0].clusters[0].strategies
        k = next(k for k, each in enumerate(strategies) if each.dp * each.cp == 1)
        # The four devices of b share its uplink.
        held = 4 * 512 * 512 + 3 * 512 * 2048 + 2 * 512
        assert strategies[k].tp == 1
        kind = own.table.kinds.index(slow.model.units[layer])
        expected = held * 4 / (4e9 / 8 / 4) * 1e9
        assert unit[k, kind] == pytest.approx(expected, rel=1e-3)


def test_a_node_may_be_as_large_as_half_of_another(problem: Problem) -> None:
    larger = replace(problem.clusters[0], unequal=(2, 2, 2, 1), uplink_bytes_per_s=None)
    problem = replace(problem, clusters=(larger, problem.clusters[1]))
    # The node of one and two halves; or that node and whole ones.
    with_halves = ({"a": (1,)}, {"a": (1,)}, {"a": (2, 2, 1)})
    assert part_of(problem, with_halves, 0, 1).clusters[0].nics_per_node == 1
    whole = ({"a": (1, 2)}, {"a": (2, 2)})
    assert part_of(problem, whole, 0, 1).clusters[0].nics_per_node == 2
    halves = ({"a": (2, 2, 1)}, {"a": (2,)})
    cut = ({"a": (2, 2, 1)}, {"a": (1, 1)})
    assert depends_on(problem, halves, 0) != depends_on(problem, cut, 0)


def test_parts_that_cost_the_same_are_known(problem: Problem) -> None:
    assert depends_on(problem, ALIKE, 0) == depends_on(problem, ALIKE, 1)
    assert depends_on(problem, ALIKE, 0) != depends_on(problem, APART, 0)
    # Gradients of the first also go to another cluster.
    other = ({"a": (2, 2)}, {"a": (2, 2), "b": (2, 2)})
    assert depends_on(problem, ALIKE, 0) != depends_on(problem, other, 0)


def test_no_pipeline_is_quicker_than_its_device_time(problem: Problem) -> None:
    seconds = least_device_seconds(problem)
    assert seconds.shape == (2, 8)
    for number, own in enumerate(({"a": (2, 2)}, {"b": (2, 2)})):
        for batch in (1, 3, 4, 8):
            table = part(problem, (own, APART[1 - number]), 0, batch).table
            layer = table.kinds.index("layer")
            for each in table.slices:
                mine = each.clusters[0]
                both = (mine.forward_ns + mine.backward_ns)[:, layer] * 1e-9
                least = both * mine.devices * each.microbatches / batch
                assert (least >= seconds[number, batch - 1] * (1 - 1e-9)).all()


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("pins", ["dp: 4, ep: 4", "cp: 4", "tp: 2"])
@pytest.mark.parametrize("nodes", [[2, 2, 1, 1, 1], [4, 2, 1]])
def test_no_part_of_unequal_nodes_is_quicker_than_the_device_time(
    nodes: list[int], pins: str
) -> None:
    """Stages there may have another number of devices in each node."""
    problem = read_problem_text(
        "model: {layers: 2, hidden: 512, heads: 8, ffn: 2048, vocab: 100,"
        " experts: {number: 4, per_token: 4, ffn: 64}}\n"
        f"clusters: [{{name: red, accelerator: A40, nodes: {nodes}, nics_per_node: 1,"
        " inter_node: {bandwidth: 1 Gbps}}]\n"
        "training: {global_batch: 4, seq_len: 4096, zero: 0, recompute: none,"
        " moe: {dispatcher: deepep, node_dedup: true}}\n"
        f"pin: {{clusters: {{red: {{{pins}}}}}}}\n"
    )
    least = least_device_seconds(problem)[0]
    parts = [part for size in nodes for part in {size, size // 2} if part]
    seen = 0
    for count in range(1, 4):
        for own in sorted(set(combinations(parts, count))):
            mine = {"red": tuple(own)}
            for others in ([], [{"red": (max(nodes),)}]):
                one = part_of(problem, [mine, *others], 0, 4)
                found = least_device_seconds(one)[0]
                assert (found >= least * (1 - 1e-9)).all()
                seen += bool(np.isfinite(found).any())
    assert seen > 5


def test_devices_that_are_not_there_are_refused(problem: Problem) -> None:
    from hetopt.plans.plan import Pipeline, Plan, Share

    for nodes, why in (
        ({"c": (1,)}, "no cluster is named 'c'"),
        ({"a": (3,)}, "expected 1 to 2 devices of a node"),
        ({}, "is empty"),
    ):
        share = Share(batch=4, nodes=nodes)
        plan = Plan(
            schedule="1f1b",
            pipelines=(Pipeline(microbatches=1, stages=(), share=share),) * 2,
            problem_digest="",
            table_digest="",
        )
        with pytest.raises(InputError, match=why):
            price_several(problem, plan)


def test_device_time_is_remembered_but_of_profiles(
    problem: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a user's profile holds may change without a word in the problem."""
    from hetopt.cost import device_work

    asked = []
    usual = device_work._least_by_size

    def counted(one: Problem, *rest: Any) -> Any:
        asked.append(one.clusters[0].name)
        return usual(one, *rest)

    monkeypatch.setattr(device_work, "_KNOWN", {})
    monkeypatch.setattr(device_work, "_least_by_size", counted)
    first, second = least_device_seconds(problem), least_device_seconds(problem)
    assert (first == second).all()
    assert asked == ["a", "b"]
    asked.clear()
    monkeypatch.setattr(device_work, "_KNOWN", {})
    monkeypatch.setattr(device_work, "PROFILE_SUFFIX", "")
    for _ in range(2):
        least_device_seconds(problem)
    assert asked == ["a", "b"] * 2
