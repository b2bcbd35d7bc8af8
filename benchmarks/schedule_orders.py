"""Is one schedule faster than another, and smaller, where it was measured to be?

Run with ``python -m benchmarks.schedule_orders``. Primus published the throughput and
the peak memory of one layout under several schedules (the head of
``data/iterations/primus-schedules.csv`` has the source). Here the same layouts are
priced, simulated pass by pass, and every pair of schedules is compared with the
measured one. Only orders are judged: the source does not say the batch, the length,
the micro-batch and the recomputation. Assumed are:

- 4,096 tokens, micro-batches of one sequence, no recomputation, ZeRO-1;
- an iteration of 4 p, 8 p or 32 p micro-batches on p stages;
- equally many layers on every chunk of every stage, embedding and head besides. For
  Qwen3-235B that takes 96 layers instead of 94, under every schedule: 94 is not a
  multiple of 3 or 4 chunks;
- MI355X with its own rates, and all else as MI300X; memory is not limited;
- nodes of eight devices with an interface of 400 Gbps for each.

Gradients of weights, w, take the part of the backward pass that the cost model gives
them. As the orders of V-half and V-min suit passes of equal length, the iteration of
8 p micro-batches is simulated with w = half of the backward pass, too.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import hetopt
from benchmarks.measured_runs import rows
from hetopt.schedule.orders import FOLDED_CHUNKS, FOLDS
from hetopt.schedule.run import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.schedule.times import PipelineTimes

GIB = 2**30
#: Micro-batches of an iteration over stages.
BATCHES = (4, 8, 32)
#: Measured values that are closer than this share count as equal.
TIE = 0.01

_SEQ_LEN = 4096
_PER_NODE = 8
_LAYOUT = itemgetter("model", "accelerator", "devices", "pp", "dp", "ep")
#: AMD-AGI/Primus fd1eeab, primus/backends/torchtitan/patches/peak_flops_patches.py
#: (2,500 TFLOP/s); https://aiwiki.ai/wiki/amd_instinct_mi355x (bandwidth).
_MI355X = {
    "name": "MI355X",
    "like": "MI300X",
    "peak_flops": {"bf16": "2500 TFLOPS"},
    "memory_bandwidth": "8000 GB/s",
}
_DEVICES: dict[str, Any] = {"MI300X": "MI300X", "MI355X": _MI355X}
#: Presets, and the layers that are priced.
_MODELS = {"Llama-2-7B": ("llama-7b", 32), "qwen3-235b-a22b": ("qwen3-235b-a22b", 96)}


def groups() -> Iterator[list[dict[str, str]]]:
    """Yield the measured runs of each layout, as rows of the file."""
    for _, group in groupby(rows("primus-schedules.csv"), key=_LAYOUT):
        yield list(group)


def problem_of(row: dict[str, str], microbatches: int) -> dict[str, Any]:
    """Return the sections of a problem that has no plan but that of a measured run."""
    preset, layers = _MODELS[row["model"]]
    stages, chunks, dp, ep = (int(row[key]) for key in ("pp", "chunks", "dp", "ep"))
    folded = row["schedule"] in FOLDS
    # Pairs of units if folded, where embedding and head are one pair.
    units = [layers // stages // (FOLDED_CHUNKS if folded else chunks)] * stages
    units[0] += 1
    units[-1] += 0 if folded else 1
    cluster = {
        "name": "all",
        "accelerator": _DEVICES[row["accelerator"]],
        "memory": "2 TB",
        "nodes": int(row["devices"]) // _PER_NODE,
        "devices_per_node": _PER_NODE,
        "inter_node": {"bandwidth": "400 Gbps", "latency": "5 us"},
    }
    degrees = {"dp": dp, "cp": 1, "tp": 1} | ({"ep": ep} if ep > 1 else {})
    return {
        "name": "schedule-orders",
        "model": {"preset": preset, "layers": layers},
        "clusters": [cluster],
        "training": {
            "global_batch": dp * microbatches,
            "seq_len": _SEQ_LEN,
            "schedule": row["schedule"],
            "chunks": chunks,
            "recompute": "none",
        },
        "pin": {
            "stages": stages,
            "microbatches": microbatches,
            "units": units,
            "clusters": {"all": degrees},
        },
    }


def modelled(row: dict[str, str], microbatches: int) -> tuple[float, ...]:
    """Return what a run's plan is priced at.

    Tokens/s per device, the same with w = half of the backward pass, and GiB of the
    fullest and of the first stage.
    """
    problem = hetopt.read_problem(problem_of(row, microbatches))
    table = hetopt.build_table(problem)
    best = hetopt.plan(problem, table=table, jobs=1).best
    if best is None:
        msg = f"no plan under {row['schedule']}"
        raise ValueError(msg)
    priced = hetopt.price(best.plan, table)
    tokens = problem.training.global_batch * _SEQ_LEN / int(row["devices"])
    halved_s = simulate(_halved(priced.times)).makespan_ns * 1e-9
    memory = [each / GIB for each in priced.memory_bytes]
    return (
        tokens / priced.iteration_time_s,
        tokens / halved_s,
        max(memory),
        memory[0],
    )


def _halved(times: PipelineTimes) -> PipelineTimes:
    """Return the times with w = half of the backward pass, if the schedule has w."""
    if times.weight_ns is None:
        return times
    fold = times.fold
    if fold is not None:
        fold = replace(fold, weight_ns=tuple(b // 2 for b in fold.backward_ns))
    return replace(times, weight_ns=tuple(b // 2 for b in times.backward_ns), fold=fold)


def verdict(measured: float, ours: Sequence[float]) -> str:
    """Return whether ours have the sign of the measured one: yes, no, tie or mixed.

    Each is the ratio of two schedules' values, minus 1.
    """
    if abs(measured) < TIE:
        return "tie"
    same = {(each > 0) == (measured > 0) for each in ours}
    return "mixed" if len(same) > 1 else "yes" if same == {True} else "no"


def _cells(measured: float, ours: Sequence[float]) -> str:
    numbers = " | ".join(f"{each:+.1%}" for each in (measured, *ours))
    return f"{numbers} | {verdict(measured, ours)}"


def _label(row: dict[str, str]) -> str:
    several = f", {row['chunks']} chunks" if row["chunks"] != "1" else ""
    return f"`{row['schedule']}`{several}"


def _print_group(runs: Sequence[dict[str, str]]) -> None:
    row = runs[0]
    counts = [times * int(row["pp"]) for times in BATCHES]
    print(
        f"## {row['model']} on {row['devices']} {row['accelerator']}, p = {row['pp']}\n"
    )
    found = []
    titles = " | ".join(f"q = {q}" for q in counts)
    print(
        f"| schedule | tokens/s measured | {titles} | q = {counts[1]}, w half ", end=""
    )
    print("| GiB measured | fullest stage | first stage |")
    print("|---" * (len(counts) + 6) + "|")
    for run in runs:
        speed, peak = float(run["tokens_per_s_per_device"]), float(run["peak_GiB"])
        every = [modelled(run, q) for q in counts]
        speeds, memory = (speed, *(each[0] for each in every)), (peak, *every[-1][2:])
        found.append((_label(run), speeds, memory))
        shown = " | ".join(f"{each:,.0f}" for each in (*speeds, every[1][1]))
        held = " | ".join(f"{each:.1f}" for each in memory)
        print(f"| {_label(run)} | {shown} | {held} |", flush=True)
    print(f"\n| pair | speed measured | {titles} | as measured ", end="")
    print("| memory measured | fullest stage | first stage | as measured |")
    print("|---" * (len(counts) + 7) + "|")
    for (name, *own), (other, *others) in combinations(found, 2):
        cells = []
        for measured, theirs in zip(own, others, strict=True):
            ratios = [a / b - 1 for a, b in zip(measured, theirs, strict=True)]
            cells.append(_cells(ratios[0], ratios[1:]))
        print(f"| {name} : {other} | {' | '.join(cells)} |")
    print()


def main() -> None:
    """Print, for each layout, its schedules and every pair of them."""
    for runs in groups():
        _print_group(runs)


if __name__ == "__main__":
    main()
