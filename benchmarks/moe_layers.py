"""Measured layers of experts on 8 H100 against ours, by dispatcher and precision.

    python -m benchmarks.moe_layers

The times are those of Megatron-LM's functional tests (``moe_perf``), which may not be
copied here: they are read from ``../shared``, and without it nothing is printed. Only
the routed and shared experts, router and dispatch are in them. Two numbers of ours were
read off them: how much quicker H100's grouped multiplications are than B200's kernels
say (``Accelerator.grouped``), and the rates of DeepEP and HybridEP beside all-to-alls
(``DISPATCH_RATES``). So this is a fit; the element-wise kernels, which Megatron-LM
fuses and partly runs beside multiplications, are ours unfitted.
"""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.communication.within_stage import stage_communication
from hetopt.cost.operators.relatives import shipped_operators
from hetopt.cost.shapes import Shape
from hetopt.cost.sources.operator_source import OperatorSource
from hetopt.cost.sources.source import ShardQuery
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.facts import AS_RELATIVES
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.kinds import ATTENTION, LAYER_EXPERTS
from hetopt.problem.model.model import Model
from hetopt.problem.training.dispatch import Dispatch
from hetopt.problem.training.software import Reached
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.cluster.accelerator import Accelerator

LAYERS = (
    Path(__file__).parents[2]
    / "shared/reference/published/kernels/megatron-moe-layers-h100.csv"
)


def seconds(row: Mapping[str, str], device: Accelerator) -> tuple[float, float]:
    """Return our seconds of a layer's experts, forward and backward."""
    experts = Experts(
        number=int(row["experts"]),
        per_token=int(row["per_token"]),
        ffn=int(row["expert_ffn"]),
        shared_ffn=int(row["shared_ffn"]),
    )
    model = Model(
        name="layer",
        layers=1,
        hidden=int(row["hidden"]),
        heads=32,
        kv_heads=32,
        head_dim=128,
        ffn=int(row["expert_ffn"]),
        vocab=32000,
        gated=True,
        experts=experts,
    )
    training = Training(
        global_batch=int(row["ep"]),
        seq_len=int(row["tokens_per_device"]),
        precision=row["precision"],  # type: ignore[arg-type]
        moe=Dispatch(dispatcher=row["dispatcher"]),  # type: ignore[arg-type]
    )
    one = np.ones(1, dtype=np.int64)
    ranks = int(row["ep"])
    cluster = Cluster(
        name="node",
        accelerator=device,
        nodes=1,
        devices_per_node=ranks,
        inter_node=device.intra_node,
    )
    shape = Shape(microbatch=one, cp=one, tp=one, ep=one * ranks, etp=one)
    source = OperatorSource(
        device, shipped_operators(device), reached=Reached(experts=True)
    )
    dense = replace(model, experts=None)
    whole, attention = (
        source.shard_times(
            ShardQuery(
                model=of, training=training, cluster=cluster, kinds=(kind,), shape=shape
            )
        )
        for of, kind in ((model, LAYER_EXPERTS), (dense, ATTENTION))
    )
    sent = stage_communication(
        model, training, cluster, LAYER_EXPERTS, shape, one * ranks, one * ranks
    )
    dispatch_s = sent.dispatch_s / whole.dispatch
    forward, backward = (
        float((a - b + dispatch_s).item())
        for a, b in (
            (whole.forward_s, attention.forward_s),
            (whole.backward_s, attention.backward_s),
        )
    )
    return forward, backward


def main() -> None:
    """Print every layer, and the mean error with and without what was fitted."""
    if not LAYERS.exists():
        print(f"the measured layers are not here: {LAYERS.name}")
        return
    device = accelerators()["H100"]
    plain = replace(device, grouped=AS_RELATIVES)
    print(
        "| hidden | experts | dispatcher | precision | forward ms | ours | backward ms "
        "| ours |"
    )
    print("|---" * 8 + "|")
    errors: dict[str, list[float]] = {"H100": [], "B200's grouped kernels": []}
    for row in csv.DictReader(LAYERS.read_text("utf-8").splitlines()):
        measured = [float(row[key]) / 1e3 for key in ("forward_ms", "backward_ms")]
        for name, own in (("B200's grouped kernels", plain), ("H100", device)):
            ours = seconds(row, own)
            errors[name] += [a / b - 1 for a, b in zip(ours, measured, strict=True)]
        print(
            f"| {row['hidden']} | {row['experts']} | {row['dispatcher']} "
            f"| {row['precision']} | {measured[0] * 1e3:.2f} | {ours[0] * 1e3:.2f} "
            f"| {measured[1] * 1e3:.2f} | {ours[1] * 1e3:.2f} |"
        )
    for name, own_errors in errors.items():
        print(
            f"{name}: mean {mean(map(abs, own_errors)):.0%}, bias "
            f"{mean(own_errors):+.0%}"
        )


if __name__ == "__main__":
    main()
