"""The roofline's times follow the device and the size of the work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetopt.cost.sources.roofline import Roofline
from hetopt.problem.cluster.accelerator import PeakFlops
from hetopt.problem.model.kinds import EMBEDDING, HEAD, LAYER, MLP_UP
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, query, shape

TRAINING = Training(global_batch=8, seq_len=2048)


@settings(max_examples=30, deadline=None)
@given(
    b=st.integers(1, 8),
    cp=st.sampled_from([1, 2, 4]),
    tp=st.sampled_from([1, 2, 4, 8]),
    speed=st.floats(1, 8),
    axis=st.sampled_from(["peak_flops", "memory_bandwidth_bytes_per_s"]),
)
def test_a_faster_device_is_never_slower(
    b: int, cp: int, tp: int, speed: float, axis: str
) -> None:
    slow = make_cluster()
    device = slow.accelerator
    faster: dict[str, Any] = {
        axis: PeakFlops.dense_16_bit(device.peak_flops_of("bf16") * speed)
        if axis == "peak_flops"
        else getattr(device, axis) * speed
    }
    fast = replace(slow, accelerator=replace(device, **faster))
    kinds = (EMBEDDING, LAYER, HEAD)
    source = Roofline()
    before, after = (
        source.shard_times(
            query(make_model(), TRAINING, cluster, kinds, shape((b, cp, tp)))
        )
        for cluster in (slow, fast)
    )
    assert (after.forward_s <= before.forward_s).all()
    assert (after.backward_s <= before.backward_s).all()
    assert np.isfinite(before.backward_s).all()


def test_efficiency_rises_with_the_size_of_the_multiplication() -> None:
    rows = shape(*[(b, 1, 1) for b in (1, 2, 4, 8, 16)])
    times = Roofline().shard_times(
        query(
            make_model(hidden=1024, heads=8, kv_heads=8, ffn=2816),
            Training(global_batch=16, seq_len=128),
            make_cluster(),
            (MLP_UP,),
            rows,
        )
    )
    per_sequence = times.forward_s[:, 0] / rows.microbatch
    assert (np.diff(per_sequence) < 0).all()


def seconds(cluster: str, kind: str, **knobs: Any) -> float:
    training = replace(TRAINING, **knobs)
    times = Roofline().shard_times(
        query(
            make_model(),
            training,
            make_cluster(accelerator=cluster),
            (kind,),
            shape((4, 1, 1)),
        )
    )
    return float(times.forward_s[0, 0] + times.backward_s[0, 0])


@pytest.mark.parametrize("kind", [EMBEDDING, LAYER, HEAD])
def test_fp8_is_for_the_multiplications_of_layers(kind: str) -> None:
    bf16, fp8 = (seconds("H100", kind, precision=p) for p in ("bf16", "fp8"))
    assert (fp8 < bf16) == (kind == LAYER)
    # At most twice as fast, as the rate is, since attention stays as it was.
    assert fp8 > bf16 / 2


def test_emulated_precisions_multiply_at_the_rate_of_fp32() -> None:
    knobs: dict[str, Any] = {"precision": "bf16", "emulate": "fp32"}
    fp16 = seconds("V100-32GB", LAYER, precision="fp16")
    assert seconds("V100-32GB", LAYER, **knobs) > 5 * fp16


@pytest.mark.parametrize(
    ("kind", "knob"), [(LAYER, "attention"), (HEAD, "cross_entropy")]
)
def test_separate_operations_take_longer(kind: str, knob: str) -> None:
    fused, unfused = (
        seconds("A100-80GB", kind, **{knob: way}) for way in ("fused", "unfused")
    )
    assert unfused > fused
