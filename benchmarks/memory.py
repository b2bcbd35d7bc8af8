"""Compare our memory with measured peaks and with others' formulas, row by row.

    python -m benchmarks.memory [--reference FOLDER]

- Megatron-LM on 8 B200 (``data/iterations/simumax-b200.csv``): the largest peak of
  bytes that PyTorch had allocated, against our fullest stage. The limit for
  DeepSeek-V2, which has experts, is one per cent larger, as nothing was fitted to it.
- llm-foundry's FSDP runs (``data/iterations/llm-foundry.csv``): all ran, so each must
  fit its device beside the overhead.
- NVIDIA's recipe of Llama-3-70B in FP8 on 64 H100 (``megatron-bridge.csv`` there): it
  ran, so its layout must fit under ``training.software``; with what each of today's
  choices takes off.
- With ``--reference``, a folder with ``memory.json``: weights, gradients and optimizer
  of Megatron-LM's report, activations by FlagScale's formula (c01 to c09) and by
  Megatron's (c11), and the activations of Korthikanti et al., Fig. 1, which we may
  exceed. These formulas count the masks of dropout.
- With ``--reference``, if it has ``published/memory/megatron-lm-golden.csv``: peaks of
  the last rank in Megatron-LM's functional tests, of dense models of 7B and more.
"""

from __future__ import annotations

import argparse
import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
from hetopt.problem.catalogue import accelerators, software
from hetopt.problem.cluster.accelerator import Link
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.model.architecture import Architecture
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import INTERLEAVED
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from hetopt.problem.training.training import Training
from hetopt.schedule.warmup import held_at_ends, warmup_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.problem.training.choices import Recompute, ScheduleName

GIB = 2**30
#: Largest errors on measured peaks, without and with experts, and below them.
MEASURED_ERROR, EXPERTS_ERROR = 0.03, 0.04
MEASURED_BELOW = 0.01
#: The same of Megatron-LM's functional tests, of which the log says less.
GOLDEN_ERROR, GOLDEN_BELOW = 0.08, 0.02
#: Largest errors of weights, gradients and optimizer, and of activations, against
#: others' formulas.
STATE_ERROR = 0.01
ACTIVATION_ERROR = 0.03

_NETWORK = Link(latency_s=5e-6, bandwidth_bytes_per_s=25e9)

#: Megatron-LM's default, for scores, too: papers and tests that give none have it.
_DROPOUT = Architecture(hidden_dropout=0.1, attention_dropout=0.1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A training run with equal stages: degrees and recomputation.

    Attributes
    ----------
    microbatches
        Micro-batches of an iteration.
    ep
        Ranks that routed experts are spread over.
    chunks
        Parts of the model on every stage; above 1 under an interleaved schedule.
    settings
        Other settings of training.
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
    chunks: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def schedule(self) -> ScheduleName:
        """1F1B, interleaved if stages have several chunks."""
        return "1f1b" if self.chunks == 1 else INTERLEAVED

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
                schedule=self.schedule,
                chunks=self.chunks,
                **self.settings,
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
    layers = len(body) // (run.stages * run.chunks)
    found = []
    for stage, passes in enumerate(_passes_held(run)):
        units = body[stage * layers : (stage + 1) * layers]
        units = [embedding] * (stage == 0) + units
        units += [head] * (stage == run.stages - 1)
        count = np.array([units.count(kind) for kind in table.kinds])
        held = np.array([passes.get(kind, passes[""]) for kind in table.kinds])
        found.append(
            Need(
                state=int((count * rows.state_bytes[0]).sum()),
                activation=int((held * count * rows.activation_bytes[0]).sum()),
                temporary=int(rows.temporary_bytes[0][count > 0].max()),
                fixed=int(rows.fixed_bytes[0]),
            )
        )
    return found, offered


def _passes_held(run: Run) -> Iterator[dict[str, int]]:
    """Yield the passes that each stage holds of the model's ends, and of the rest."""
    p, q, v = run.stages, run.microbatches, run.chunks
    boundaries = p - 1
    counts = warmup_counts(
        run.schedule,
        microbatches=q,
        crosses=(False,) * boundaries,
        round_trip_ns=(0,) * p,
        transfer_ns=(0,) * boundaries,
        chunks=v,
    )
    ends = {}
    if v > 1:
        first, last = held_at_ends(run.schedule, p, q, v)
        ends = {run.model.units[0]: first, run.model.units[-1]: last}
    for count in counts:
        yield {"": min(count, q * v), **ends}


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


def foundry_runs() -> Iterator[tuple[str, str, float, float]]:
    """Yield name, device, our GiB and the usable GiB of each run of llm-foundry."""
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
        name = f"{row['model']} s {row['seq_len']} {row['devices']}"
        yield name, run.accelerator, need.total / GIB, offered / GIB


def _foundry_summary() -> Iterator[tuple[str, ...]]:
    """Yield a line per device: runs, those that fit, and the fullest."""
    found = list(foundry_runs())
    for device in dict.fromkeys(each for _, each, _, _ in found):
        own = [(ours / of, name) for name, each, ours, of in found if each == device]
        fullest, name = max(own)
        fit = sum(share <= 1 for share, _ in own)
        yield device, str(len(own)), str(fit), f"{fullest:.0%} ({name})"


#: NVIDIA's recipe of Llama-3-70B in FP8 on 64 H100, tp 4 and 8 stages of 5 chunks.
_RECIPE = "megatron-bridge-054"


def recipe_steps() -> Iterator[tuple[str, float, float]]:
    """Yield a choice of a recipe's software, our GiB with it and those before, usable.

    The first line has gradients in fp32, masks of dropout, and inputs in 16 bits.
    """
    (row,) = (each for each in rows("megatron-bridge.csv") if each["id"] == _RECIPE)
    stack = software()["megatron-2025"]
    plain = replace(Model.of("llama-3-70b"), architecture=_DROPOUT)
    settings: dict[str, Any] = {"precision": row["precision"], "overlap_tensor": True}
    settings["software"] = replace(stack, casts_again=True)
    run = _run_of(row, plain, settings)
    without_masks = replace(plain, architecture=Architecture())
    for what, model, changed in (
        ("none of the below", plain, {}),
        (f"gradients: {stack.gradients}", plain, {"gradients": stack.gradients}),
        ("no dropout, no masks", without_masks, {}),
        ("inputs of multiplications in FP8", without_masks, {"software": stack}),
    ):
        run = replace(run, model=model, settings={**run.settings, **changed})
        found, offered = needs(run)
        yield what, max(need.total for need in found) / GIB, offered / GIB


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
            architecture=_DROPOUT,
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
        model=gpt(
            "gpt", layers=layers, hidden=hidden, heads=heads, architecture=_DROPOUT
        ),
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


#: The least hidden size of the models that are compared: those of 7B and more.
_LARGE = 4096


def _run_of(row: Mapping[str, str], model: Model, settings: dict[str, Any]) -> Run:
    """Return a published row's run, of one layout for all stages."""
    number = {key: int(row[key]) for key in row if row[key].isdigit()}
    return Run(
        model=model,
        accelerator=row["device"],
        seq_len=number["seq_len"],
        microbatch=number["microbatch"],
        microbatches=number["global_batch"] // number["microbatch"] // number["dp"],
        dp=number["dp"],
        tp=number["tp"],
        stages=number["pp"],
        zero=number["zero"],
        chunks=number["chunks"],
        settings=settings,
    )


def golden_rows(folder: Path) -> Iterator[tuple[str, float, float]]:
    """Yield name, measured GiB and our GiB of the last rank, of large dense models.

    The tests give no dropout, and so have Megatron-LM's default, and no kind of
    positions: they are learned. Their cross entropy is not fused.
    """
    path = folder / "published" / "memory" / "megatron-lm-golden.csv"
    if not path.is_file():
        return
    for row in csv.DictReader(path.read_text("utf-8").splitlines()):
        large = int(row["hidden"] or 0) >= _LARGE
        if not large or row["experts"] or row["complete"] != "yes":
            continue
        number = {key: int(row[key]) for key in row if row[key].isdigit()}
        hidden, heads = number["hidden"], number["heads"]
        model = Model(
            name=row["model"],
            layers=number["layers"],
            hidden=hidden,
            heads=heads,
            kv_heads=number["kv_heads"],
            head_dim=hidden // heads,
            ffn=number["ffn"],
            vocab=number["vocab"],
            gated=row["gated"] == "true",
            tied=row["tied"] == "true",
            norm="layer",
            positions=number["positions"],
            architecture=_DROPOUT,
        )
        settings = {
            "sequence_parallel": row["sequence_parallel"] == "true",
            "cross_entropy": row["cross_entropy"],
            "gradients": row["gradients"],
        }
        run = _run_of(row, model, settings)
        name = f"{row['path'].rpartition('/')[2].partition(' ')[0]} {row['device']}"
        yield name, number["peak_bytes"] / GIB, needs(run)[0][-1].total / GIB


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
        "llm-foundry, FSDP: all ran | runs | fit | fullest, of what is usable",
        _foundry_summary(),
    )
    _print(
        "Llama-3-70B in FP8, 64 H100: it ran | ours GiB | of | fits",
        (
            (what, f"{ours:.1f}", f"{of:.1f}", "yes" if ours <= of else "no")
            for what, ours, of in recipe_steps()
        ),
    )
    if folder is not None:
        _print(
            "Megatron-LM's tests, GPT of 7B, last rank | error",
            (
                (name, f"{ours / measured - 1:+.1%}")
                for name, measured, ours in golden_rows(folder)
            ),
        )
        _print(
            "others' formulas | theirs GiB | ours | error",
            (
                (what, f"{theirs:.2f}", f"{ours:.2f}", f"{ours / theirs - 1:+.1%}")
                for what, theirs, ours, _, _ in reference_rows(folder)
            ),
        )


if __name__ == "__main__":
    main()
