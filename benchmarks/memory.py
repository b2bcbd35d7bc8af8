"""Compare our memory with measured peaks and with others' formulas, row by row.

    python -m benchmarks.memory [--reference FOLDER]

- Megatron-LM on 8 B200 (``data/iterations/simumax-b200.csv``): the largest peak of
  bytes that PyTorch had allocated, against our fullest stage. The limit for
  DeepSeek-V2, which has experts, is one per cent larger, as nothing was fitted to it.
- llm-foundry's FSDP runs (``data/iterations/llm-foundry.csv``): all ran, so each must
  fit its device beside the overhead.
- With ``--reference``, a folder with ``memory.json``: weights, gradients and optimizer
  of Megatron-LM's report, activations by FlagScale's formula (c01 to c09) and by
  Megatron's (c11), and the activations of Korthikanti et al., Fig. 1, which we may
  exceed.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measured_runs import (
    FOUNDRY_DEVICES,
    deepseek_rows,
    foundry_model,
    foundry_strategy,
    gpt,
    llama_rows,
    rows,
)
from hetopt.cost.build import build_table, usable_bytes
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.accelerator import Link
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.problem.training.choices import Recompute

GIB = 2**30
#: Largest errors on measured peaks, without and with experts, and below them.
MEASURED_ERROR, EXPERTS_ERROR = 0.03, 0.04
MEASURED_BELOW = 0.01
#: Largest errors of weights, gradients and optimizer, and of activations, against
#: others' formulas.
STATE_ERROR = 0.01
ACTIVATION_ERROR = 0.03

_NETWORK = Link(latency_s=5e-6, bandwidth_bytes_per_s=25e9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A training run with equal stages: degrees and recomputation.

    Attributes
    ----------
    microbatches
        Micro-batches of an iteration.
    ep
        Ranks that routed experts are spread over.
    """

    model: Model
    accelerator: str
    seq_len: int
    microbatch: int
    microbatches: int
    dp: int = 1
    cp: int = 1
    tp: int = 1
    ep: int = 1
    stages: int = 1
    zero: int = 1
    recompute: Recompute = "none"

    def problem(self) -> Problem:
        """Return the problem with the run's decisions pinned."""
        device = accelerators()[self.accelerator]
        devices = self.dp * self.cp * self.tp
        per_node = min(devices, 8)
        cluster = Cluster(
            name="all",
            accelerator=device,
            nodes=self.stages * devices // per_node,
            devices_per_node=per_node,
            memory_bytes=device.memory_bytes,
            overhead_bytes=device.overhead_of(device.memory_bytes),
            max_tp=per_node,
            intra_node=device.intra_node,
            inter_node=_NETWORK,
            host_device=device.host_device,
            nics_per_node=per_node,
        )
        return Problem(
            name="run",
            model=self.model,
            clusters=(cluster,),
            links=ClusterLinks(default=None),
            training=Training(
                global_batch=self.dp * self.microbatch * self.microbatches,
                seq_len=self.seq_len,
                zero=self.zero,
                schedule="1f1b",
            ),
            pins=Pins(
                microbatches=_only(self.microbatches),
                clusters={
                    "all": ClusterPins(
                        dp=_only(self.dp),
                        cp=_only(self.cp),
                        tp=_only(self.tp),
                        ep=_only(self.ep),
                        etp=_only(1),
                        recompute=_only(self.recompute),
                    )
                },
            ),
        )


def _only(value: int | str) -> Domain:
    return Domain(allowed=frozenset({value}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes of one stage on one device."""

    state: int
    activation: int
    temporary: int
    fixed: int

    @property
    def total(self) -> int:
        """Bytes that the framework allocates at the peak."""
        return self.state + self.activation + self.temporary + self.fixed


def needs(run: Run) -> tuple[list[Need], int]:
    """Return the need of every stage under 1F1B, and the usable bytes of a device.

    The table leaves out strategies that do not fit the device, so it is built for
    devices with ample memory.
    """
    problem = run.problem()
    offered = usable_bytes(problem, problem.clusters[0])
    table = build_table(_with_memory(problem, 10**14))
    rows = table.slices[0].clusters[0]
    embedding, *body, head = run.model.units
    layers = len(body) // run.stages
    found = []
    for stage in range(run.stages):
        units = body[stage * layers : (stage + 1) * layers]
        units = [embedding] * (stage == 0) + units
        units += [head] * (stage == run.stages - 1)
        count = np.array([units.count(kind) for kind in table.kinds])
        in_flight = min(run.stages - stage, run.microbatches)
        found.append(
            Need(
                state=int((count * rows.state_bytes[0]).sum()),
                activation=int(in_flight * (count * rows.activation_bytes[0]).sum()),
                temporary=int(rows.temporary_bytes[0][count > 0].max()),
                fixed=int(rows.fixed_bytes[0]),
            )
        )
    return found, offered


def _with_memory(problem: Problem, memory_bytes: int) -> Problem:
    cluster = replace(problem.clusters[0], memory_bytes=memory_bytes)
    return replace(problem, clusters=(cluster,))


def measured_peaks() -> Iterator[tuple[str, float, float]]:
    """Yield name, measured GiB and our GiB of each row on B200."""
    for row, model in (*llama_rows(), *deepseek_rows()):
        run = Run(
            model=model,
            accelerator="B200",
            seq_len=int(row["seq_len"]),
            microbatch=1,
            microbatches=int(row["microbatches"]),
            dp=int(row["dp"]),
            cp=int(row["cp"]),
            tp=int(row["tp"]),
            ep=int(row["ep"]),
            stages=int(row["pp"]),
        )
        most = max(need.total for need in needs(run)[0])
        yield row["case"], float(row["allocated_GiB"]), most / GIB


def foundry_runs() -> Iterator[tuple[str, float, float]]:
    """Yield name, our GiB and the device's usable GiB of each run of llm-foundry."""
    for row in rows("llm-foundry.csv"):
        number = {key: int(row[key]) for key in row if row[key].isdigit()}
        zero, recompute = foundry_strategy(row)
        run = Run(
            model=foundry_model(row),
            accelerator=FOUNDRY_DEVICES[row["accelerator"]],
            seq_len=number["seq_len"],
            microbatch=number["micro_batch"],
            microbatches=number["accumulation"],
            dp=number["devices"],
            zero=zero,
            recompute=recompute,
        )
        (need,), offered = needs(run)
        name = f"{row['model']} s {row['seq_len']} {row['devices']} {run.accelerator}"
        yield name, need.total / GIB, offered / GIB


def _reference_run(case: dict[str, Any], zero: int) -> Run:
    config, degrees = case["model_config"], case["parallel"]
    return Run(
        model=Model(
            name=case["model"],
            layers=config["L"],
            hidden=config["h"],
            heads=config["a"],
            kv_heads=config["g"],
            head_dim=config["h"] // config["a"],
            ffn=config["f"],
            vocab=config["V"],
            gated=config["swiglu"],
            tied=config["tied"],
            norm="rms" if config["swiglu"] else "layer",
        ),
        accelerator="A100-80GB",
        seq_len=config["s"],
        microbatch=degrees["mbs"],
        microbatches=degrees["m"],
        dp=degrees["dp"],
        cp=degrees["cp"],
        tp=degrees["tp"],
        stages=degrees["pp"],
        zero=zero,
        recompute="selective",
    )


def reference_rows(
    folder: Path,
) -> Iterator[tuple[str, float, float, float, bool]]:
    """Yield name, their GiB, our GiB, the limit, and whether ours may be above."""
    content = json.loads((folder / "memory.json").read_text("utf-8"))
    for case in content["cases"]:
        if case["parallel"]["v"]:
            continue  # interleaved schedules are not planned
        results, name = case["results"], case["id"]
        report = results["megatron_theoretical_memory_usage"]
        for zero, key in (
            (0, "weight_and_optimizer_bytes"),
            (1, "weight_and_optimizer_bytes_distopt_sharded_over_dp_x_cp"),
        ):
            first = needs(_reference_run(case, zero))[0][0]
            what = f"{name} states, ZeRO-{zero}"
            yield what, report[key] / GIB, first.state / GIB, STATE_ERROR, False
        kept = (
            report["activation_bytes_sp_selective"]
            if name == "c11"
            else results["flagscale_theoretical_memory_usage"][
                "activation_bytes_sp_selective_or_flash"
            ]
        )
        yield (
            f"{name} activations",
            kept / GIB,
            first.activation / GIB,
            ACTIVATION_ERROR,
            False,
        )
    published = content["published"]["fig1_gib"]
    for name, (layers, hidden, heads, stages, batch) in _FIGURE_1.items():
        kept_gib = _figure_1_activations(layers, hidden, heads, stages, batch) / GIB
        theirs = published[name]["act_seqsel"]
        yield f"Fig. 1 {name}", theirs, kept_gib, ACTIVATION_ERROR, True


#: Korthikanti et al., Table 3: layers, hidden, heads, stages and micro-batch.
_FIGURE_1 = {
    "gpt-22b": (48, 6144, 64, 1, 4),
    "gpt3-175b": (96, 12288, 96, 8, 1),
    "turing-530b": (105, 20480, 128, 35, 1),
    "gpt-1t": (128, 25600, 160, 64, 1),
}


def _figure_1_activations(
    layers: int, hidden: int, heads: int, stages: int, batch: int
) -> float:
    """Return the layers' activations in flight, tp 8, without the effect of chunks."""
    run = Run(
        model=gpt("gpt", layers=layers, hidden=hidden, heads=heads),
        accelerator="A100-80GB",
        seq_len=2048,
        microbatch=batch,
        microbatches=stages,
        tp=8,
        stages=stages,
        recompute="selective",
    )
    return needs(run)[0][0].activation * _CHUNKS.get(hidden, 1.0)


#: Two of Fig. 1's models ran interleaved schedules with 3 chunks: activations in flight
#: grow by a factor of 1 + (p - 1) / (3 p).
_CHUNKS = {12288: 1 + 7 / 24, 20480: 1 + 34 / 105}


def _print(head: str, rows: Iterable[tuple[str, ...]]) -> None:
    columns = head.split(" | ")
    print("| " + head + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def main() -> None:
    """Print the comparisons."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--reference", type=Path, help="folder that has memory.json")
    folder = parser.parse_args().reference
    _print(
        "B200, Megatron-LM | measured GiB | ours | error",
        (
            (case, f"{measured:.2f}", f"{ours:.2f}", f"{ours / measured - 1:+.1%}")
            for case, measured, ours in measured_peaks()
        ),
    )
    _print(
        "llm-foundry, FSDP: all ran | ours GiB | of | fits",
        (
            (name, f"{ours:.1f}", f"{of:.1f}", "yes" if ours <= of else "NO")
            for name, ours, of in foundry_runs()
        ),
    )
    if folder is not None:
        _print(
            "others' formulas | theirs GiB | ours | error",
            (
                (what, f"{theirs:.2f}", f"{ours:.2f}", f"{ours / theirs - 1:+.1%}")
                for what, theirs, ours, _, _ in reference_rows(folder)
            ),
        )


if __name__ == "__main__":
    main()
