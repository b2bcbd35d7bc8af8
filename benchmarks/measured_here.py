"""Layers of three small models against sums of operators, both measured on this device.

Run with ``python -m benchmarks.measured_here --out FOLDER`` where PyTorch is installed;
add ``--device cpu`` on a machine that also has other devices. Writes to FOLDER
``operators.csv``, measured as by ``hetopt profile --operators --quick``, and
``layers.csv``, the models' layers as measured by ``hetopt profile``; existing files are
not measured again.

The device has no published iterations, so operators count as measured
(``facts.AS_MEASURED``): nothing is fitted to any model's layers, and the forest has
seen none of them. For comparison, one share of the device is fitted to the layers of
the other two models.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.operators.relatives import by_class
from hetopt.cost.profiles.file import ProfileRow, read_profile
from hetopt.cost.shapes import Shape
from hetopt.cost.sources.operator_source import OperatorSource
from hetopt.cost.sources.source import ShardQuery
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.accelerator import Link, PeakFlops
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.model.kinds import LAYER
from hetopt.problem.model.model import Model
from hetopt.problem.training.software import Reached
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.operators.relatives import Measured

#: Limit of the mean error of a model's layers.
LIMIT = 0.10

#: (hidden, heads) of the models; other sizes follow as in ``hetopt profile``.
MODELS = ((512, 8), (768, 12), (1024, 16))
DEGREES = ((1, 1), (1, 2), (1, 4))
MICROBATCHES, SEQ_LENS = (1, 2), (512, 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A layer's seconds, forward and backward."""

    row: ProfileRow
    measured_s: tuple[float, float]
    predicted_s: tuple[float, float]

    @property
    def ratio(self) -> float:
        """Predicted / measured time of both passes."""
        return sum(self.predicted_s) / sum(self.measured_s)


def measure(folder: Path, kind: str | None) -> None:
    """Measure the files that the folder lacks."""
    import torch

    from hetopt.profile.device import describe, find_device
    from hetopt.profile.grid import Grid, distinct_shapes
    from hetopt.profile.measuring import measure_grid
    from hetopt.profile.operators import measure_operators

    torch.set_num_threads(1)
    device = find_device(kind)
    about = describe(device)
    start = time.monotonic()
    path = str(folder / "operators.csv")
    outcome = measure_operators(path, device, "bf16", about, quick=True)
    print(
        f"{len(outcome.measured)} kernels measured in {time.monotonic() - start:.0f} s,"
        f" {outcome.found} were there"
    )
    for hidden, heads in MODELS:
        grid = Grid(
            units=(LAYER,),
            families=("llama",),
            dtype="bf16",
            hidden=(hidden,),
            heads=(heads,),
            degrees=DEGREES,
            microbatch=MICROBATCHES,
            seq_len=SEQ_LENS,
        )
        shapes = distinct_shapes(grid)
        measure_grid(str(folder / "layers.csv"), shapes, device, about)


def predicted_s(row: ProfileRow, measured: dict[str, Measured]) -> tuple[float, float]:
    """Return a layer's seconds, forward and backward, as sums of operators."""
    part = next(iter(measured.values()))
    device = replace(
        accelerators()["A100-80GB"],
        name=part.device,
        preset=None,
        peak_flops=PeakFlops.dense_16_bit(part.rates.flops),
        memory_bandwidth_bytes_per_s=part.rates.bytes_per_s,
    )
    link = Link(latency_s=0.0, bandwidth_bytes_per_s=1e9)
    times = OperatorSource(device, measured, reached=Reached()).shard_times(
        ShardQuery(
            model=Model(
                name="small",
                layers=1,
                hidden=row.hidden,
                heads=row.heads,
                kv_heads=row.kv_heads,
                head_dim=row.head_dim,
                ffn=row.ffn,
                vocab=row.vocab,
            ),
            training=Training(global_batch=row.microbatch, seq_len=row.seq_len),
            cluster=Cluster(
                name="here",
                accelerator=device,
                nodes=1,
                devices_per_node=row.tp,
                memory_bytes=device.memory_bytes,
                max_tp=row.tp,
                intra_node=link,
                inter_node=link,
                host_device=link,
                nics_per_node=1,
            ),
            kinds=(LAYER,),
            shape=Shape.of([(row.microbatch, row.cp, row.tp)]),
        )
    )
    return float(times.forward_s[0, 0]), float(times.backward_s[0, 0])


def judged(folder: Path) -> list[Judged]:
    """Return the measured layers, with the predictions from operators."""
    path = folder / "operators.csv"
    measured = dict(by_class(path.read_text("utf-8"), str(path)))
    return [
        Judged(
            row=row,
            measured_s=(row.forward_s, row.backward_s),
            predicted_s=predicted_s(row, measured),
        )
        for row in read_profile(str(folder / "layers.csv")).rows
        if row.forward_s is not None and row.backward_s is not None
    ]


def errors_of_passes(rows: Sequence[Judged]) -> list[float]:
    """Return mean absolute errors of forward and of backward."""
    ratios = np.array([row.predicted_s for row in rows]) / np.array(
        [row.measured_s for row in rows]
    )
    found: list[float] = np.abs(ratios - 1).mean(axis=0).tolist()
    return found


def main() -> None:
    """Measure, and print errors model by model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--device", choices=("cuda", "npu", "cpu"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    measure(options.out, options.device)
    rows = judged(options.out)
    print(
        "| model left out | layers | forward | backward | both | worst | bias |", end=""
    )
    print(" both, one share fitted to the others | |")
    print("|---|---|---|---|---|---|---|---|---|")
    for hidden, heads in MODELS:
        own = [row for row in rows if row.row.hidden == hidden]
        others = [row for row in rows if row.row.hidden != hidden]
        share = median(row.ratio for row in others)
        off = [row.ratio - 1 for row in own]
        fitted = mean(abs(row.ratio / share - 1) for row in own)
        forward, backward = errors_of_passes(own)
        found = mean(map(abs, off))
        verdict = "" if found <= LIMIT else f"above {LIMIT:.0%}"
        print(
            f"| hidden {hidden}, {heads} heads | {len(own)} | {forward:.1%} "
            f"| {backward:.1%} | {found:.1%} | {max(map(abs, off)):.1%} "
            f"| {mean(off):+.1%} | {fitted:.1%} | {verdict} |"
        )


if __name__ == "__main__":
    main()
