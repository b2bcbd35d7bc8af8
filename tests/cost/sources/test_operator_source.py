from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.cost.operators.relatives import by_class, shipped_operators
from hetopt.cost.shapes import Shape
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.forest_source import ForestSource
from hetopt.cost.sources.operator_source import OperatorSource
from hetopt.cost.sources.roofline import Roofline
from hetopt.cost.sources.sustained import AS_MEASURED
from hetopt.cost.units import unit_operations
from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster import PeakFlops
from hetopt.problem.training import Training
from tests.cost.making import make_cluster, make_model, make_problem, query

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
    return OperatorSource(device, measured, sustained=AS_MEASURED, cache=tmp_path)


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
        sustained=AS_MEASURED,
        cache=tmp_path,
    )
    ratio = one.shard_times(wanted).forward_s / fast.shard_times(wanted).forward_s
    assert ratio == pytest.approx(np.full_like(ratio, 2), rel=0.02)


def test_a_devices_own_times_stay_as_measured(tmp_path: Path) -> None:
    """Whatever peaks a problem gives the device that the file was measured on."""
    wanted = asked(("layer",), (4, 1, 2))
    one = source(tmp_path)
    own = OperatorSource(
        replace(
            one.accelerator,
            name="X1",
            peak_flops=PeakFlops.dense_16_bit(7e14),
            memory_bandwidth_bytes_per_s=3e12,
        ),
        one.measured,
        sustained=AS_MEASURED,
        cache=tmp_path,
    )
    ratio = one.shard_times(wanted).forward_s / own.shard_times(wanted).forward_s
    assert ratio == pytest.approx(np.ones_like(ratio), rel=1e-6)
    assert own.borrowed == {}


def test_predictions_are_kept_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = asked(("layer",), (1, 1, 1))
    first = source(tmp_path).shard_times(wanted)
    monkeypatch.setattr(
        "hetopt.cost.sources.operator_source._forest",
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
        ("matmul", r"mine\.csv: latency\.a: has no sdp_fwd operators; use roofline"),
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
