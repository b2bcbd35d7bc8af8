"""The roofline's times follow the device and the size of the work."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hetopt.cost.sources.roofline import Roofline
from hetopt.problem.model import EMBEDDING, HEAD, LAYER, MLP_UP
from hetopt.problem.training import Training
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
    faster: dict[str, Any] = {axis: getattr(device, axis) * speed}
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
