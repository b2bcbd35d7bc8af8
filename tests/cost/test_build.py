from __future__ import annotations

import time
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hetopt.cost.boundaries.slices import boundary_bytes
from hetopt.cost.build import build_table
from hetopt.cost.communication.synchronisation import OPTIMIZER_START_S
from hetopt.cost.sources.source import ShardQuery, ShardTimes
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.table import CostTable, SourceKind
from hetopt.errors import InputError
from hetopt.plans.strategy import Strategy
from hetopt.problem.catalogue import problem_files
from hetopt.problem.cluster.accelerator import PeakFlops
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.model import Granularity
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.problem.training.choices import RESHARDING, ScheduleName
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.problem.training.training import Training
from tests.cost.making import (
    GBPS,
    link,
    make_cluster,
    make_links,
    make_model,
    make_problem,
    only,
    pinned,
)

MIXTURE = """\
model:
  {layers: 4, hidden: 256, heads: 8, ffn: 512, vocab: 1024, tied: true,
   experts: {number: 8, per_token: 2, ffn: 128, dense_layers: 1}}
clusters:
  - {name: a, accelerator: H100, nodes: 2, devices_per_node: 4,
     inter_node: {bandwidth: 100 Gbps}}
training: {global_batch: 16, seq_len: 1024, zero: ZERO, moe: {overlap: 0.5}}
"""

NAMES = [
    field.name
    for field in fields(ClusterTable)
    if field.name not in ("strategies", "layout", "weight_ns", "weight_bytes")
]


def row(
    table: CostTable, q: int, strategy: Strategy, cluster: int = 0
) -> dict[str, Any]:
    part = table.at(q).clusters[cluster]
    place = part.strategies.index(strategy)
    return {name: getattr(part, name)[place] for name in NAMES}


def assert_sound(table: CostTable) -> None:
    for part in table.slices:
        count = len(part.layouts)
        for matrix in (part.transfer_ns, part.occupancy_ns, part.resharding):
            assert matrix.dtype == np.int64
            assert matrix.shape == (len(table.cut_classes), count, count)
        assert (part.occupancy_ns >= 1).all()
        assert (part.occupancy_ns <= part.transfer_ns).all()
        assert np.isin(part.resharding, np.arange(len(RESHARDING))).all()
        if part.tied_ns is not None:
            assert part.tied_ns.dtype == np.int64
            assert (part.tied_ns > 0).all()
        for number, cluster in enumerate(part.clusters):
            rows = len(cluster.strategies)
            assert list(cluster.strategies) == sorted(set(cluster.strategies))
            for name in (*NAMES, "layout"):
                values = getattr(cluster, name)
                assert values.dtype == np.int64, name
                assert values.shape[0] == rows, name
                assert (values >= 0).all(), name
            for name in ("forward_ns", "backward_ns", "state_bytes"):
                assert (getattr(cluster, name) > 0).all(), name
            for place, strategy in enumerate(cluster.strategies):
                layout = part.layouts[cluster.layout[place]]
                assert layout.cluster == number
                assert (layout.dp, layout.shards) == (
                    strategy.dp,
                    strategy.cp * strategy.tp,
                )


@pytest.mark.parametrize(
    "name",
    [
        # A million strategies.
        pytest.param(name, marks=pytest.mark.slow if "deepseek-v3" in name else ())
        for name in sorted(problem_files())
    ],
)
def test_shipped_problems(name: str) -> None:
    problem = read_problem(str(problem_files()[name]))
    table = build_table(problem)
    assert table.problem_digest == problem_digest(problem)
    assert table.slices
    assert_sound(table)


def test_the_largest_table_is_quick() -> None:
    problem = read_problem(str(problem_files()["hetauto-exp3"]))
    start = time.perf_counter()
    build_table(problem)
    assert time.perf_counter() - start < 5


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("granularity", ["layer", "block"])
@pytest.mark.parametrize("tied", [False, True])
def test_every_setting_builds(zero: int, granularity: Granularity, tied: bool) -> None:
    problem = make_problem(
        (make_cluster("a"), make_cluster("b", "H20-96GB", nodes=1)),
        make_model(granularity=granularity, tied=tied, layers=2),
        Training(global_batch=4, seq_len=1024, zero=zero),
    )
    table = build_table(problem)
    assert_sound(table)
    assert (table.slices[0].tied_ns is not None) == tied
    assert len(table.cut_classes) == (2 if granularity == "block" else 1)


def test_a_wider_cut_costs_more() -> None:
    model = make_model(granularity="block", layers=2)
    table = build_table(make_problem((make_cluster(), make_cluster("b")), model))
    hidden, ffn = (table.cut_classes.index(name) for name in ("hidden", "ffn"))
    for part in table.slices:
        assert (part.transfer_ns[ffn] > part.transfer_ns[hidden]).all()


def test_the_residual_crosses_with_the_inner_activations() -> None:
    """HAPT, section 6.5: two tensors, five times the bytes of one of hidden size."""
    model = replace(
        make_model(granularity="block", layers=2), hidden=512, ffn=2048, gated=False
    )
    assert model.cut_tensors("ffn", 128) == ((128, 2048), (128, 512))
    problem = make_problem(model=model)
    hidden, ffn = (boundary_bytes(problem, 2, cut) for cut in ("hidden", "ffn"))
    assert ffn == 5 * hidden


def test_blocks_take_as_long_as_the_layer() -> None:
    layer, block = (
        build_table(make_problem(model=make_model(layers=2, granularity=name)))
        for name in ("layer", "block")
    )
    for strategy in (
        Strategy(dp=1, cp=1, tp=1, recompute="none"),
        Strategy(dp=2, cp=2, tp=2, recompute="selective"),
        Strategy(dp=1, cp=2, tp=4, recompute="full"),
    ):
        one, three = row(layer, 4, strategy), row(block, 4, strategy)
        for name in ("forward_ns", "backward_ns"):
            total = sum(
                three[name][block.kinds.index(kind)]
                for kind in ("attention", "mlp-up", "mlp-down")
            )
            assert abs(one[name][layer.kinds.index("layer")] - total) <= 3


def test_recomputation_adds_to_backward_only_and_saves_memory() -> None:
    table = build_table(make_problem())
    none, selective, full = (
        row(table, 4, Strategy(dp=2, cp=2, tp=2, recompute=policy))
        for policy in ("none", "selective", "full")
    )
    layer = table.kinds.index("layer")
    for other in (selective, full):
        assert (other["forward_ns"] == none["forward_ns"]).all()
    assert (
        none["backward_ns"][layer]
        < selective["backward_ns"][layer]
        < full["backward_ns"][layer]
    )
    extra = full["backward_ns"] - none["backward_ns"]
    assert extra[layer] == pytest.approx(none["forward_ns"][layer], abs=2)
    assert extra[table.kinds.index("head")] == 0
    kept = [each["activation_bytes"][layer] for each in (none, selective, full)]
    assert kept == sorted(kept, reverse=True)


def test_only_strategies_that_fit_a_unit_are_kept() -> None:
    roomy = make_cluster(memory_bytes=80 * 10**9)
    tight = make_cluster(memory_bytes=2 * 10**9)
    for cluster in (roomy, tight):
        problem = make_problem((cluster,))
        table = build_table(problem)
        assert table.usable_bytes == (cluster.memory_bytes,)
        for part in table.slices:
            rows = part.clusters[0]
            need = rows.state_bytes + rows.activation_bytes + rows.temporary_bytes
            layer = table.kinds.index("layer")
            assert (need[:, layer] + rows.fixed_bytes <= table.usable_bytes[0]).all()
    assert len(table.slices[0].clusters[0].strategies) < len(
        build_table(make_problem((roomy,))).slices[0].clusters[0].strategies
    )


def test_counts_without_strategies_are_left_out() -> None:
    nothing = make_cluster(memory_bytes=10**6)
    assert build_table(make_problem((nothing,))).slices == ()
    pins = pinned(4, dp=3, cp=1, tp=1, recompute="none")
    assert build_table(make_problem(pins=pins)).slices == ()


def test_a_cluster_without_strategies_keeps_its_place() -> None:
    clusters = (make_cluster("a"), make_cluster("b", memory_bytes=10**6))
    table = build_table(make_problem(clusters))
    assert_sound(table)
    empty = table.slices[0].clusters[1]
    assert empty.strategies == ()
    assert empty.forward_ns.shape == (0, len(table.kinds))


def test_pinned_resharding_is_used() -> None:
    clusters = (make_cluster("a"), make_cluster("b"))
    pins = Pins(resharding=only("inner-dp"))
    table = build_table(make_problem(clusters, pins=pins))
    free = build_table(make_problem(clusters))
    for part, other in zip(table.slices, free.slices, strict=True):
        assert (part.resharding == RESHARDING.index("inner-dp")).all()
        assert (part.transfer_ns >= other.transfer_ns).all()


def test_each_cluster_asks_its_source_once() -> None:
    calls = []

    class Constant:
        def source_kind(self, cluster: Cluster) -> SourceKind:
            return "measured" if cluster.name == "a" else "published"

        def shard_times(self, query: ShardQuery) -> ShardTimes:
            calls.append((query.cluster.name, len(query.shape.tp)))
            ones = np.ones((len(query.shape.tp), len(query.kinds)))
            return ShardTimes(
                forward_s=ones,
                backward_s=2 * ones,
                weight_s=0.5 * ones,
                attention_core_s=0 * ones,
                attention_core_backward_s=0 * ones,
            )

    problem = make_problem((make_cluster("a"), make_cluster("b")))
    table = build_table(problem, Constant())
    assert [name for name, _ in calls] == ["a", "b"]
    assert table.sources == ("measured", "published")
    one = row(table, 8, Strategy(dp=1, cp=1, tp=1, recompute="full"))
    layer = table.kinds.index("layer")
    assert one["forward_ns"][layer] == 10**9
    assert one["backward_ns"][layer] == 3 * 10**9


def test_an_unknown_latency_source_is_refused() -> None:
    problem = replace(make_problem(), latency={"a": "a-profile"})
    with pytest.raises(InputError, match=r"latency\.a: is 'a-profile'"):
        build_table(problem)
    automatic = build_table(replace(problem, latency={"a": "auto"}))
    assert automatic.sources == ("operators",)


def total_sync_s(zero: int, strategy: Strategy, speed: float = 1.0) -> float:
    cluster = make_cluster(inter_node=link(5e-6, 100 * GBPS * speed))
    training = Training(global_batch=16, seq_len=2048, zero=zero)
    pins = pinned(1, dp=strategy.dp, cp=strategy.cp, tp=strategy.tp, recompute="none")
    table = build_table(make_problem((cluster,), training=training, pins=pins))
    found = row(table, 1, strategy)
    units = np.bincount(table.units)
    return float(found["sync_ns"] + (units * found["sync_unit_ns"]).sum()) * 1e-9


def test_synchronisation_per_zero_stage() -> None:
    strategy = Strategy(dp=16, cp=1, tp=1)
    times = [total_sync_s(zero, strategy) for zero in range(4)]
    # Sharding the update saves more than gathering weights costs, and from stage 2
    # on gradients travel with every micro-batch instead.
    assert times[0] > times[1] > times[2] > times[3] > OPTIMIZER_START_S


def test_one_replica_has_nothing_to_synchronise() -> None:
    slow, fast = (
        total_sync_s(1, Strategy(dp=1, cp=1, tp=8), speed) for speed in (1, 8)
    )
    assert slow == fast


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("part", ["intra_node", "inter_node", "accelerator"])
def test_better_hardware_never_makes_an_iteration_slower(zero: int, part: str) -> None:
    model = make_model(layers=4, tied=True)
    training = Training(global_batch=16, seq_len=2048, zero=zero)
    slow = make_cluster()
    if part == "accelerator":
        device = slow.accelerator
        peaks = PeakFlops.dense_16_bit(3 * device.peak_flops_of("bf16"))
        better: object = replace(device, peak_flops=peaks)
    else:
        old = getattr(slow, part)
        better = link(old.latency_s / 2, 4 * old.bandwidth_bytes_per_s)
    changes: dict[str, Any] = {part: better}
    fast = replace(slow, **changes)
    before, after = (
        build_table(make_problem((cluster,), model, training))
        for cluster in (slow, fast)
    )
    units = np.bincount(before.units)
    for first, second in zip(before.slices, after.slices, strict=True):
        assert (second.transfer_ns <= first.transfer_ns).all()
        assert (second.occupancy_ns <= first.occupancy_ns).all()
        assert first.tied_ns is not None
        assert second.tied_ns is not None
        assert (second.tied_ns <= first.tied_ns).all()
        old_rows, new_rows = first.clusters[0], second.clusters[0]
        assert (new_rows.forward_ns <= old_rows.forward_ns).all()
        assert (new_rows.backward_ns <= old_rows.backward_ns).all()

        def iteration(
            rows: ClusterTable, q: int = first.microbatches
        ) -> NDArray[np.int64]:
            passes = ((rows.forward_ns + rows.backward_ns) * units).sum(axis=1)
            update = rows.sync_ns + (rows.sync_unit_ns * units).sum(axis=1)
            total: NDArray[np.int64] = q * passes + update
            return total

        slack = 2 * len(before.units)  # rounding to nanoseconds
        assert (iteration(new_rows) <= iteration(old_rows) + slack).all()


def test_more_nodes_change_no_coefficient_of_a_strategy() -> None:
    few, many = (
        build_table(make_problem((make_cluster(nodes=nodes), make_cluster("b"))))
        for nodes in (1, 3)
    )
    for first, second in zip(few.slices, many.slices, strict=True):
        rows = second.clusters[0]
        for place, strategy in enumerate(first.clusters[0].strategies):
            other = rows.strategies.index(strategy)
            for name in NAMES:
                if name == "max_stages":
                    continue
                before = getattr(first.clusters[0], name)[place]
                assert (getattr(rows, name)[other] == before).all()
        where = {
            (layout.cluster, layout.dp, layout.shards): number
            for number, layout in enumerate(second.layouts)
        }
        places = [where[x.cluster, x.dp, x.shards] for x in first.layouts]
        grown = second.transfer_ns[:, places][:, :, places]
        assert (grown == first.transfer_ns).all()


def test_capacities_slow_a_boundary() -> None:
    clusters = (make_cluster("a"), make_cluster("b"))
    free, capped = (
        build_table(make_problem(clusters, links=make_links(capacity_bytes_per_s=cap)))
        for cap in (None, 1e9)
    )
    for first, second in zip(free.slices, capped.slices, strict=True):
        assert (second.transfer_ns >= first.transfer_ns).all()
        assert (second.transfer_ns > first.transfer_ns).any()


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize("schedule", ["1f1b", "zb-h1"])
def test_a_strategy_costs_alone_what_it_costs_among_others(
    schedule: ScheduleName, zero: int
) -> None:
    problem = read_problem_text(MIXTURE.replace("ZERO", str(zero))).under(schedule, 1)
    table = build_table(problem)
    counts = [part.microbatches for part in table.slices]
    several = [q for q in counts if len(table.at(q).clusters[0].strategies) > 50]
    for q in (several[0], several[-1]):
        own = table.at(q).clusters[0]
        for place in range(0, len(own.strategies), len(own.strategies) // 5):
            strategy = own.strategies[place]
            pins = Pins(
                microbatches=Domain(allowed=frozenset({q})),
                clusters={
                    "a": ClusterPins(
                        **{
                            name: Domain(allowed=frozenset({getattr(strategy, name)}))
                            for name in ("dp", "cp", "tp", "ep", "etp", "recompute")
                        }
                    )
                },
            )
            alone = build_table(replace(problem, pins=pins)).at(q).clusters[0]
            assert alone.strategies == (strategy,)
            for name, column in alone.columns().items():
                if name != "layout":
                    assert (column[0] == own.columns()[name][place]).all(), name
