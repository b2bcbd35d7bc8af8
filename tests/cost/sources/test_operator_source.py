from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

import numpy as np
import pytest

from hetopt.cost.build import build_table
from hetopt.cost.communication.within_stage import stage_communication
from hetopt.cost.forests import forest, kept
from hetopt.cost.operators.relatives import by_class, shipped_operators
from hetopt.cost.shapes import Shape
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.coverage import extrapolated
from hetopt.cost.sources.forest_source import ForestSource
from hetopt.cost.sources.operator_source import OperatorSource
from hetopt.cost.sources.roofline import Roofline
from hetopt.cost.units import unit_operations
from hetopt.errors import InputError
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.accelerator import PeakFlops
from hetopt.problem.facts import AS_MEASURED
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.software import Reached
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, make_problem, pinned, query

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.cost.sources.source import ShardQuery

#: A device of 100 TFLOP/s and 1 TB/s whose every kernel takes exactly twice as long
#: as its peak would.
HEADER = """\
# schema: hetopt-operators/1
# device: X1
# kind: measured
# source: a test
# licence: none
# peak_flops: 100 TFLOPS
# memory_bandwidth: 1 TB/s
op,dtype,m,k,n,groups,layout,batch,seq,heads,kv_heads,qk_dim,v_dim,bytes,time_us
"""


def operators() -> str:
    lines = [HEADER.rstrip()]
    for layout in ("TN", "NN", "NT"):
        for size in (1024, 2048, 4096):
            time_us = 2 * 2 * size**3 / 1e8
            lines.append(
                f"matmul,bf16,{size},{size},{size},1,{layout},,,,,,,,{time_us}"
            )
    for op, products in (("sdp_fwd", 2), ("sdp_bwd", 5)):
        for heads in (8, 16, 32):
            flops = products * heads * 4096**2 * 128
            lines.append(
                f"{op},bf16,,,,,,1,4096,{heads},{heads},128,128,,{2 * flops / 1e8}"
            )
    lines += [f"memory,bf16,,,,,,,,,,,,{10**n},{2 * 10**n / 1e6}" for n in (6, 7, 8)]
    return "\n".join(lines) + "\n"


def asked(kinds: tuple[str, ...], *shapes: tuple[int, int, int]) -> ShardQuery:
    training = Training(global_batch=8, seq_len=2048)
    return query(make_model(), training, make_cluster(), kinds, Shape.of(shapes))


def source(tmp_path: Path, accelerator: str = "A100-80GB") -> OperatorSource:
    device = replace(
        accelerators()[accelerator],
        peak_flops=PeakFlops.dense_16_bit(1e14),
        memory_bandwidth_bytes_per_s=1e12,
    )
    measured = by_class(operators(), "x.csv")
    return OperatorSource(device, measured, reached=Reached(), cache=tmp_path)


def test_a_units_time_is_the_sum_of_its_operators(tmp_path: Path) -> None:
    wanted = asked(("layer",), (2, 1, 1), (2, 1, 4))
    work = unit_operations(wanted.model, wanted.training, "layer", wanted.shape)
    flops = sum(part.flops for part in work.multiplications)
    times = source(tmp_path).shard_times(wanted)
    core = 2 * work.attention_flops / 1e14
    forward = 2 * flops / 1e14 + core + 2 * work.elementwise_bytes / 1e12
    backward = 4 * flops / 1e14 + 2.5 * core
    backward = backward + 2 * work.elementwise_backward_bytes / 1e12
    assert times.forward_s[:, 0] == pytest.approx(forward, rel=0.02)
    assert times.backward_s[:, 0] == pytest.approx(backward, rel=0.02)
    assert times.attention_core_s[:, 0] == pytest.approx(core, rel=0.02)
    assert times.attention_core_backward_s[:, 0] == pytest.approx(2.5 * core, rel=0.02)


def test_a_forest_is_grown_once_whatever_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = source(tmp_path).shard_times(asked(("layer",), (2, 1, 1)))
    second = source(tmp_path / "other").shard_times(asked(("head",), (4, 1, 2)))

    def refuse(*parts: object) -> NoReturn:
        pytest.fail("grown again")

    kept._forest.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(forest, "grow", refuse)
        again = source(tmp_path).shard_times(asked(("head",), (4, 1, 2)))
    assert again.forward_s.tolist() == second.forward_s.tolist()
    # What is kept and broken is grown again.
    kept._forest.cache_clear()
    for path in tmp_path.glob("times-*.npz"):
        path.unlink()
    for path in tmp_path.glob("forest-*.npz"):
        path.write_bytes(path.read_bytes()[:-100])
    found = source(tmp_path).shard_times(asked(("layer",), (2, 1, 1)))
    assert found.forward_s.tolist() == first.forward_s.tolist()
    kept._forest.cache_clear()


def test_operators_that_ship_need_no_scikit_learn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an empty cache, that is; and no forest is kept that ships."""
    kept._forest.cache_clear()
    monkeypatch.setattr(forest, "grow", lambda *_: pytest.fail("grown"))
    for name in ("A100-80GB", "A40", "H20-96GB", "B200"):
        device = accelerators()[name]
        one = OperatorSource(device, shipped_operators(device), cache=tmp_path)
        assert one.shard_times(asked(("layer", "head"), (2, 1, 1))).forward_s.min() > 0
    assert not list(tmp_path.glob("forest-*.npz"))


def with_kernels(**us_per_mb: float) -> str:
    """The same operators, with named element-wise kernels of other speeds."""
    text = operators().replace("time_us\n", "time_us,kernel\n")
    lines = [
        line if line.startswith(("#", "op,")) else f"{line},"
        for line in text.split("\n")
    ]
    for kernel, us in us_per_mb.items():
        lines += [
            f"memory,bf16,,,1024,,,,,,,,,{10**n},{us * 10**n / 1e6},{kernel}"
            for n in (6, 7, 8)
        ]
    return "\n".join(line for line in lines if line != ",") + "\n"


def test_a_units_element_wise_kernels_have_curves_of_their_own(tmp_path: Path) -> None:
    """Of what a layer moves only its norms become slower, by what they move."""
    wanted = asked(("layer",), (2, 1, 1))
    work = unit_operations(wanted.model, wanted.training, "layer", wanted.shape)
    one = source(tmp_path)
    slow = OperatorSource(
        one.accelerator,
        by_class(with_kernels(rmsnorm=7.0), "x.csv"),
        reached=Reached(),
        cache=tmp_path,
    )
    norms = [part for part in work.elementwise if part.kernel == "rmsnorm"]
    assert len(norms) == 2
    for times, moved in (
        ("forward_s", sum(part.bytes for part in norms)),
        ("backward_s", sum(part.backward_bytes for part in norms)),
    ):
        found = [
            getattr(either.shard_times(wanted), times)[:, 0] for either in (one, slow)
        ]
        # 7 us per megabyte, where all element-wise work takes 2.
        assert found[1] - found[0] == pytest.approx(5 * moved / 1e12, rel=1e-6)


def test_named_kernels_are_borrowed_with_their_class(tmp_path: Path) -> None:
    """Of a relative with twice the rates they take half as long."""
    shipped = shipped_operators(accelerators()["H20-96GB"])["memory"]
    assert shipped.device == "H100"
    assert {row.kernel for row in shipped.rows} >= {"rmsnorm", "rope", "swiglu", "add"}
    wanted = asked(("layer", "embedding"), (4, 1, 2))
    measured = by_class(with_kernels(rmsnorm=7.0, swiglu=3.0, embedding=9.0), "x.csv")
    slow, fast = (
        OperatorSource(
            replace(
                accelerators()["A100-80GB"],
                peak_flops=PeakFlops.dense_16_bit(factor * 1e14),
                memory_bandwidth_bytes_per_s=factor * 1e12,
            ),
            measured,
            reached=Reached(),
            cache=tmp_path,
        )
        for factor in (1, 2)
    )
    assert slow.borrowed["memory"] == "X1"
    ratio = slow.shard_times(wanted).forward_s / fast.shard_times(wanted).forward_s
    assert ratio == pytest.approx(np.full_like(ratio, 2), rel=0.02)


def test_collectives_of_sharded_weights_run_at_the_fitted_share(tmp_path: Path) -> None:
    """What is not hidden of ZeRO-3's, of every unit; other times stay."""
    problem = make_problem(
        training=Training(global_batch=8, seq_len=2048, zero=3),
        pins=pinned(2, dp=4, cp=1, tp=1, recompute="none"),
    )
    cluster = problem.clusters[0]
    one = source(tmp_path)
    shares = replace(AS_MEASURED, sharding=2.0)
    hidden = OperatorSource(
        one.accelerator, one.measured, reached=Reached(sustained=shares)
    )
    whole, half = (
        build_table(problem, either).at(2).clusters[0] for either in (one, hidden)
    )
    moved = stage_communication(
        problem.model,
        problem.training,
        cluster,
        "layer",
        Shape.of([(1, 1, 1)]),
        np.array([4]),
        np.array([4]),
    )
    gather_s, scatter_s = float(moved.gather_s[0]), float(moved.scatter_s[0])
    assert gather_s > 1e-4
    layer = list(dict.fromkeys(problem.model.units)).index("layer")
    for name, seconds in (
        ("forward_ns", gather_s),
        ("backward_ns", gather_s + scatter_s),
    ):
        saved = (getattr(whole, name) - getattr(half, name))[:, layer]
        assert saved * 1e-9 == pytest.approx([seconds / 2], rel=1e-5)


def test_a_device_twice_as_fast_takes_half_as_long(tmp_path: Path) -> None:
    wanted = asked(("layer", "head"), (4, 1, 2))
    one = source(tmp_path)
    fast = OperatorSource(
        replace(
            one.accelerator,
            peak_flops=PeakFlops.dense_16_bit(2e14),
            memory_bandwidth_bytes_per_s=2e12,
        ),
        one.measured,
        reached=Reached(),
        cache=tmp_path,
    )
    ratio = one.shard_times(wanted).forward_s / fast.shard_times(wanted).forward_s
    assert ratio == pytest.approx(np.full_like(ratio, 2), rel=0.02)


def test_what_a_user_measured_stays_as_measured(tmp_path: Path) -> None:
    """Whatever peaks a problem gives the device that the file was measured on."""
    wanted = asked(("layer",), (4, 1, 2))
    one = source(tmp_path)
    own = OperatorSource(
        replace(
            one.accelerator,
            name="X1",
            preset=None,
            peak_flops=PeakFlops.dense_16_bit(7e14),
            memory_bandwidth_bytes_per_s=3e12,
        ),
        one.measured,
        reached=Reached(),
        own=tuple(one.measured),
        cache=tmp_path,
    )
    ratio = one.shard_times(wanted).forward_s / own.shard_times(wanted).forward_s
    assert ratio == pytest.approx(np.ones_like(ratio), rel=1e-6)
    assert own.borrowed == {}


@pytest.mark.parametrize("name", ["A100-80GB", "H100"])
def test_rates_that_a_problem_changes_count_for_all_classes(
    tmp_path: Path, name: str
) -> None:
    """Those of the device itself too, of which H100 has but some borrowed."""
    text = """\
model: {preset: llama-7b}
clusters:
  - {name: a, accelerator: DEVICE, nodes: 1, devices_per_node: 8}
training: {global_batch: 16, seq_len: 2048}
"""
    device = accelerators()[name]
    flops, bandwidth = device.peak_flops.bf16, device.memory_bandwidth_bytes_per_s
    assert flops is not None
    found = []
    for factor in (1, 2, 0.5):
        changed = (
            f"{{preset: {name}, peak_flops: {{bf16: {factor * flops} FLOP/s}}, "
            f"memory_bandwidth: {factor * bandwidth} B/s}}"
        )
        problem = read_problem_text(text.replace("DEVICE", changed))
        one = latency_sources(problem, cache=tmp_path).by_cluster["a"]
        wanted = replace(
            asked(("layer", "head"), (4, 1, 2)), cluster=problem.clusters[0]
        )
        found.append(one.shard_times(wanted).forward_s)
    plain = OperatorSource(device, shipped_operators(device), cache=tmp_path)
    wanted = asked(("layer", "head"), (4, 1, 2))
    assert np.array_equal(found[0], plain.shard_times(wanted).forward_s)
    assert found[0] / found[1] == pytest.approx(np.full_like(found[0], 2), rel=0.03)
    assert found[2] / found[0] == pytest.approx(np.full_like(found[0], 2), rel=0.03)


def test_predictions_are_kept_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = asked(("layer",), (1, 1, 1))
    first = source(tmp_path).shard_times(wanted)
    monkeypatch.setattr(
        "hetopt.cost.forests.kept._forest",
        lambda _: pytest.fail("grew a forest again"),
    )
    again = source(tmp_path).shard_times(wanted)
    assert np.array_equal(first.forward_s, again.forward_s)


def test_auto_prefers_layers_then_operators_then_the_roofline() -> None:
    names = ("A100-80GB", "H20-96GB", "V100-32GB", "H2-Chip-A")
    problem = make_problem(clusters=tuple(make_cluster(name, name) for name in names))
    sources = latency_sources(problem).by_cluster
    kinds = [type(sources[name]) for name in names]
    assert kinds == [OperatorSource, OperatorSource, Roofline, Roofline]
    fp32 = replace(problem, training=replace(problem.training, precision="fp32"))
    assert type(latency_sources(fp32).by_cluster["A100-80GB"]) is Roofline
    profile = replace(problem, latency={"A100-80GB": "cpu-measured"})
    found = latency_sources(profile).by_cluster["A100-80GB"]
    assert isinstance(found, ForestSource)


def test_a_users_operators_come_before_those_that_ship(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    memory = [line for line in operators().splitlines() if line[:6] != "memory"]
    path.write_text("\n".join(memory) + "\n")
    problem = replace(make_problem(), latency={"a": str(path)})
    found = latency_sources(problem).by_cluster["a"]
    assert isinstance(found, OperatorSource)
    assert found.borrowed["matmul"] == "X1"
    shipped = shipped_operators(accelerators()["A100-80GB"])
    assert found.measured["memory"] == shipped["memory"]


@pytest.mark.parametrize(
    ("left", "message"),
    [
        ("memory", r"mine\.csv: latency\.a: has no matmul operators, and none of V100"),
        ("matmul", r"mine\.csv: latency\.a: has no sdp_fwd operators: measure them"),
    ],
)
def test_what_a_file_lacks_is_named(tmp_path: Path, left: str, message: str) -> None:
    path = tmp_path / "mine.csv"
    rows = [row for row in operators().splitlines() if row.startswith(left)]
    path.write_text(HEADER + "\n".join(rows) + "\n")
    problem = make_problem(clusters=(make_cluster("a", "V100-32GB"),))
    training = replace(problem.training, precision="fp16")
    problem = replace(problem, training=training, latency={"a": str(path)})
    with pytest.raises(InputError, match=message):
        latency_sources(problem)


def test_operators_that_are_missing_are_an_error_that_says_what_to_do() -> None:
    problem = make_problem(clusters=(make_cluster("a", "V100-32GB"),))
    problem = replace(problem, latency={"a": "operators"})
    with pytest.raises(InputError, match=r"latency\.a: no operators of V100-32GB"):
        latency_sources(problem)


def test_a_file_without_operators_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.csv"
    path.write_text(HEADER)
    plain = make_problem((make_cluster("a", "H100"),))
    with pytest.raises(InputError, match=r"latency\.a: has no operators, expected"):
        latency_sources(replace(plain, latency={"a": str(path)}))


def test_operators_of_another_precision_say_what_to_write(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(operators())
    problem = make_problem()
    fp32 = replace(problem.training, precision="fp32")
    problem = replace(problem, training=fp32, latency={"a": str(path)})
    write = r"no fp32 operators: write training: \{precision: bf16\}, or measure"
    with pytest.raises(InputError, match=write):
        latency_sources(problem)


def test_a_file_may_name_its_accelerator_as_profiles_of_layers_do(
    tmp_path: Path,
) -> None:
    """In a file without ``accelerator``, ``device`` is that name."""
    found = []
    for name, head in (("old", "# device: X1\n"), ("new", "# accelerator: X1\n")):
        path = tmp_path / f"{name}.csv"
        path.write_text(operators().replace("# device: X1\n", head))
        problem = replace(make_problem(), latency={"a": str(path)})
        one = latency_sources(problem, cache=tmp_path).by_cluster["a"]
        assert isinstance(one, OperatorSource)
        assert one.borrowed["matmul"] == "X1"
        found.append(one.shard_times(asked(("layer",), (2, 1, 1))).forward_s)
    assert np.array_equal(found[0], found[1])


def test_sizes_beyond_a_users_operators_are_warned_about(tmp_path: Path) -> None:
    """Of 1024 to 4096 each; with the operators that ship nothing is said."""
    path = tmp_path / "mine.csv"
    path.write_text(operators())
    narrow = make_model(hidden=1024, heads=8, kv_heads=8, ffn=1536, vocab=4096)
    pins = pinned(2, dp=4, cp=1, tp=1, recompute="none")
    training = Training(global_batch=8, seq_len=4096)
    problem = make_problem(model=narrow, training=training, pins=pins)
    problem = replace(problem, latency={"a": str(path)})
    wide = replace(problem, model=replace(narrow, ffn=2560))
    for each, expected in ((problem, ""), (wide, "(output width 5120, measured ")):
        table = build_table(each, Roofline())
        (part,) = table.slices
        (strategy,) = part.clusters[0].strategies
        stage = Stage(
            cluster="a", first_unit=0, end_unit=6, strategy=strategy, warmup=1
        )
        plan = Plan(
            problem_digest="",
            table_digest="",
            schedule="1f1b",
            pipelines=(Pipeline(microbatches=2, stages=(stage,)),),
        )
        warnings = extrapolated(each, table, plan, "p.yaml")
        assert len(warnings) == bool(expected)
        assert all(expected in text for text in warnings)
        assert extrapolated(replace(each, latency={}), table, plan, "p.yaml") == []
