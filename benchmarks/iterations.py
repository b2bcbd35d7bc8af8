"""Measured iterations against the sum of measured operators, on models left out.

Run with ``python -m benchmarks.iterations``. The shares of the rates of single kernels
that whole iterations reach (``Accelerator.sustained``) are fitted here, one
share for each of multiplications, attention cores and element-wise kernels. Printed
errors are never those on rows that were fitted: of llm-foundry's runs one model at a
time is left out, of SimuMax's runs one tensor-parallel degree. SimuMax's runs of a
model with experts are in no fit (``benchmarks.experts``). With ``--fit`` the shares
fitted to all rows together are printed too; these ship. So do the errors: ``--write``
puts them into the devices' files.

Rows, with their sources at the head of the files in ``data/iterations``:

- llm-foundry: 104 runs on A100-40GB, A100-80GB and H100; FSDP over all devices, as
  ZeRO-2 or ZeRO-3. The four runs in fp8 are left out.
- SimuMax: 12 runs of 12 layers of Llama-3-70B on eight B200, Megatron-LM.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import nnls

from benchmarks.measured_runs import (
    FOUNDRY_DEVICES,
    foundry_model,
    foundry_strategy,
    llama_rows,
    rows,
)
from benchmarks.published import HETAUTO, Figure, figures
from hetopt.cost.operators.relatives import shipped_operators
from hetopt.cost.sources.operator_source import OperatorSource
from hetopt.plans.strategy import Strategy
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.accelerator import Accelerator, Link
from hetopt.problem.cluster.cluster import Cluster
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.facts import AS_MEASURED, Sustained
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.training.software import Reached
from hetopt.problem.training.training import Training

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

#: Limits of a family's mean absolute error, of its bias in a class of sequence lengths,
#: and of the share of rows that are off by more than ``FAR``.
MEAN_LIMIT, BIAS_LIMIT, FAR, FAR_SHARE = 0.06, 0.03, 0.15, 0.05
#: A bias is compared with its limit if a class has at least this many rows.
FEWEST_ROWS = 5

#: Classes of sequence lengths: the longest of each.
_LENGTHS = (("512-1k", 1024), ("2k", 2048), ("4-8k", 8192), ("16-64k", 65536))

#: Only times are judged here; ``benchmarks/memory.py`` judges whether a run fits.
_AMPLE_BYTES = 10**13

#: Weight of a class's deviation from the rates of single kernels, errors having 1.
_PULL = 0.01

#: Runs of equal batch that differ by this share must be predicted in the right order.
_APART = 0.05

#: Families with one iteration (HetAuto, Table 1) -> the family whose shares they use.
_SINGLE = {"H20": "H100", "Ascend": "A100"}

#: The devices' files, which hold the errors on their iterations.
_ACCELERATORS = Path(__file__).parents[1] / "data" / "accelerators"

_OF_KERNELS = ("multiplication", "attention", "elementwise")
_SHARES = (*_OF_KERNELS, "sharding", "tensor")


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One measured iteration.

    Attributes
    ----------
    figure
        The run, and its measured time.
    family
        Devices whose shares are fitted together; see ``_family``.
    left_out
        The group of rows that is left out together with this one.
    seq_len, tp, microbatch
        For the summaries.
    fixed_s, class_s
        Our seconds that no share changes, and those that each share of ``_SHARES``
        changes, at the rates of single kernels and collectives; (5,).
    """

    figure: Figure
    family: str
    left_out: str
    seq_len: int
    tp: int
    microbatch: int
    fixed_s: float
    class_s: np.ndarray

    def error(self, shares: Sustained) -> float:
        """Return our time / measured time - 1."""
        inverse = np.array([1 / getattr(shares, name) for name in _SHARES])
        return (
            float(self.fixed_s + self.class_s @ inverse) / self.figure.published_s - 1
        )


def runs() -> tuple[Run, ...]:
    """Return every measured iteration."""
    return (*_llm_foundry(), *_simumax())


def fitted(seen: Sequence[Run]) -> Sustained:
    """Return the shares with the least sum of squared relative errors.

    A weak regularisation towards single kernels' rates (``_PULL``) decides between
    classes that the rows cannot separate: SimuMax's runs are of one model and length.
    """
    measured = np.array([run.figure.published_s for run in seen])
    classes = np.array([run.class_s for run in seen]) / measured[:, None]
    fixed = np.array([run.fixed_s for run in seen]) / measured
    pull = _PULL * np.sqrt(len(seen))
    inverse, _ = nnls(
        np.concatenate([classes, pull * np.eye(len(_SHARES))]),
        np.concatenate([1 - fixed, np.full(len(_SHARES), pull)]),
    )
    return Sustained(
        **{
            name: float(1 / max(value, 1e-3))
            for name, value in zip(_SHARES, inverse, strict=True)
        }
    )


def judged(every: Sequence[Run]) -> list[tuple[Run, float]]:
    """Return the error of every run with shares fitted without its fold."""
    found = []
    for family in dict.fromkeys(run.family for run in every):
        group = [run for run in every if run.family == family]
        for fold in dict.fromkeys(run.left_out for run in group):
            shares = fitted([run for run in group if run.left_out != fold])
            found += [(run, run.error(shares)) for run in group if run.left_out == fold]
    return found


def _llm_foundry() -> Iterable[Run]:
    for figure, model in foundry_figures():
        yield _run(figure, left_out=model)


def foundry_figures() -> Iterable[tuple[Figure, str]]:
    """Yield llm-foundry's iterations in BF16, each with the name of its model."""
    for row in rows("llm-foundry.csv"):
        if row["precision"] == "amp_fp8":
            continue
        devices, batch = int(row["devices"]), int(row["global_batch"])
        seq_len, per_node = int(row["seq_len"]), min(8, devices)
        accelerator = accelerators()[FOUNDRY_DEVICES[row["accelerator"]]]
        # The source does not state the network of H100 nodes; see the file's head.
        node_gbps = 3200 if accelerator.name == "H100" else 1600
        zero, recompute = foundry_strategy(row)
        training = Training(
            global_batch=batch,
            seq_len=seq_len,
            zero=zero,
            schedule="1f1b",
        )
        tokens_per_s = float(row["tokens_per_s_per_device"]) * devices
        figure = Figure(
            name=f"{row['model']} s{row['seq_len']} n{devices}",
            source="llm-foundry",
            problem=problem_of(
                foundry_model(row),
                training,
                accelerator.name,
                (devices // per_node, per_node),
                node_gbps,
            ),
            stages=1,
            microbatches=int(row["accumulation"]),
            strategy=Strategy(dp=devices, cp=1, tp=1, recompute=recompute),
            published_s=batch * seq_len / tokens_per_s,
        )
        yield figure, row["model"]


def _simumax() -> Iterable[Run]:
    for row, model in llama_rows():
        yield _run(on_b200(row, model), left_out=f"TP {row['tp']}")


def on_b200(row: Mapping[str, str], model: Model) -> Figure:
    """Return the figure of one of SimuMax's rows."""
    batches, dp = int(row["microbatches"]), int(row["dp"])
    training = Training(
        global_batch=batches * dp,
        seq_len=int(row["seq_len"]),
        zero=1,
        schedule="1f1b",
        overlap_gradients=False,
    )
    return Figure(
        name=row["case"],
        source="SimuMax",
        problem=problem_of(model, training, "B200", (1, 8)),
        stages=int(row["pp"]),
        microbatches=batches,
        strategy=Strategy(dp=dp, cp=1, tp=int(row["tp"]), ep=int(row["ep"])),
        published_s=float(row["iteration_ms"]) * 1e-3,
    )


def problem_of(
    model: Model,
    training: Training,
    name: str,
    nodes: tuple[int, int],
    gbps: int = 3200,
) -> Problem:
    """Return a problem of one cluster.

    Parameters
    ----------
    nodes, gbps
        Nodes, and devices of each; of a node in all.
    """
    device = accelerators()[name]
    count, per_node = nodes
    network = Link(latency_s=5e-6, bandwidth_bytes_per_s=gbps / 8 / 8 * 1e9)
    return Problem(
        name="measured",
        model=model,
        clusters=(
            Cluster(
                name="measured",
                accelerator=device,
                nodes=count,
                devices_per_node=per_node,
                memory_bytes=_AMPLE_BYTES,
                max_tp=per_node,
                intra_node=device.intra_node,
                inter_node=network,
                host_device=device.host_device,
                nics_per_node=8,
            ),
        ),
        links=ClusterLinks(default=None),
        training=training,
    )


def _run(figure: Figure, *, left_out: str) -> Run:
    """Split our time of a figure into the parts that each share changes."""
    cluster = figure.problem.clusters[0]
    measured = shipped_operators(cluster.accelerator)

    def seconds(shares: Sustained) -> float:
        source = OperatorSource(
            cluster.accelerator, measured, reached=Reached(sustained=shares)
        )
        return figure.seconds(source)

    whole = seconds(AS_MEASURED)
    # Halving a share doubles the seconds of its class: the difference is its time.
    classes = np.array(
        [seconds(replace(AS_MEASURED, **{name: 0.5})) - whole for name in _SHARES]
    )
    training = figure.problem.training
    return Run(
        figure=figure,
        family=_family(cluster.accelerator),
        left_out=left_out,
        seq_len=training.seq_len,
        tp=figure.strategy.tp,
        microbatch=training.global_batch // (figure.microbatches * figure.strategy.dp),
        fixed_s=whole - float(classes.sum()),
        class_s=classes,
    )


def _family(accelerator: Accelerator) -> str:
    """Return the generation of a device of the catalogue: its name without a size."""
    return accelerator.name.partition("-")[0]


def _write_accuracies(found: Sequence[tuple[Run, float]]) -> None:
    """Put the errors into the files of the devices that ran the iterations."""
    families = {
        run.figure.problem.clusters[0].accelerator.name: run.family for run, _ in found
    }
    for path in sorted(_ACCELERATORS.glob("*.json")):
        data = json.loads(path.read_text("utf-8"))
        family = families.get(data["name"])
        if family is None:
            continue
        sizes = [abs(error) for run, error in found if run.family == family]
        data["operators"]["accuracy"]["value"] = {
            "runs": len(sizes),
            "median": round(median(sizes), 4),
            "worst": round(max(sizes), 4),
        }
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        path.write_text(text, "utf-8")


def _length(run: Run) -> str:
    return next(name for name, longest in _LENGTHS if run.seq_len <= longest)


def _print_groups(
    found: Sequence[tuple[Run, float]], title: str, group_of: Callable[[Run], object]
) -> None:
    groups: dict[tuple[str, object], list[float]] = defaultdict(list)
    for run, error in found:
        groups[run.family, group_of(run)].append(error)
    print(f"| family | {title} | rows | bias | mean absolute | worst |")
    print("|---|---|---|---|---|---|")
    for (family, group), errors in groups.items():
        worst = max(errors, key=abs)
        print(
            f"| {family} | {group} | {len(errors)} | {mean(errors):+.1%} "
            f"| {mean(map(abs, errors)):.1%} | {worst:+.1%} |"
        )
    print(flush=True)


def _print_verdicts(found: Sequence[tuple[Run, float]]) -> None:
    for family in dict.fromkeys(run.family for run, _ in found):
        errors = [error for run, error in found if run.family == family]
        sizes = [abs(error) for error in errors]
        far = sum(size > FAR for size in sizes)
        lines = [
            (
                f"mean {mean(sizes):.1%}, at most {MEAN_LIMIT:.0%}",
                mean(sizes) <= MEAN_LIMIT,
            ),
            (f"{far} of {len(sizes)} beyond {FAR:.0%}", far <= FAR_SHARE * len(sizes)),
        ]
        for name, _ in _LENGTHS:
            part = [
                e for run, e in found if run.family == family and _length(run) == name
            ]
            if family != "B200" and len(part) >= FEWEST_ROWS:
                bias = mean(part)
                lines.append((f"bias {name} {bias:+.1%}", abs(bias) <= BIAS_LIMIT))
        print(
            f"{family}: median {median(sizes):.1%}; "
            + "; ".join(text + ("" if holds else " MISSED") for text, holds in lines)
        )
    print(flush=True)


def _print_unseen(unseen: Sequence[Run]) -> None:
    """Print SimuMax's rows predicted without a fit on B200, and check their order."""
    h100 = accelerators()["H100"].sustained
    for name, shares in (("as measured", AS_MEASURED), ("as H100", h100)):
        errors = [run.error(shares) for run in unseen]
        print(
            f"B200 with shares {name}: bias {mean(errors):+.1%}, "
            f"mean absolute {mean(map(abs, errors)):.1%}, worst "
            f"{max(errors, key=abs):+.1%}"
        )
    fits = {run.figure.name: error for run, error in judged(unseen)}
    right = pairs = 0
    for first, second in combinations(unseen, 2):
        measured = first.figure.published_s / second.figure.published_s
        batches = {run.figure.problem.training.global_batch for run in (first, second)}
        if len(batches) > 1 or max(measured, 1 / measured) < 1 + _APART:
            continue
        ours = measured * (1 + fits[first.figure.name]) / (1 + fits[second.figure.name])
        pairs += 1
        right += (ours > 1) == (measured > 1)
    print(f"B200, of {pairs} pairs more than {_APART:.0%} apart {right} in order")


def _print_fits(every: Sequence[Run]) -> None:
    """Print the shares of all rows, and of devices with one published iteration."""
    shares = {
        family: fitted([run for run in every if run.family == family])
        for family in dict.fromkeys(run.family for run in every)
    }
    for family, found in shares.items():
        print(family, found)
    for figure in figures():
        family = _family(figure.problem.clusters[0].accelerator)
        relative = _SINGLE.get(family)
        if figure.source == HETAUTO and relative is not None:
            run, known = _run(figure, left_out=""), shares[relative]
            theirs = {name: getattr(known, name) for name in _OF_KERNELS}
            kernels_s, others_s = np.split(run.class_s, [len(theirs)])
            ours_s = kernels_s @ [1 / share for share in theirs.values()]
            left_s = figure.published_s - run.fixed_s - others_s.sum()
            factor = float(ours_s / left_s)
            scaled = {name: factor * share for name, share in theirs.items()}
            # One iteration does not determine the shares of collectives.
            scaled["sharding"], scaled["tensor"] = known.sharding, known.tensor
            print(f"{family} {Sustained(**scaled)}, {factor:.3f} x {relative}")


def main() -> None:
    """Print errors on rows left out, and with ``--fit`` the shares of all rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--fit", action="store_true", help="print fitted shares too")
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument(
        "--write",
        action="store_true",
        help="put the errors, which results quote, into data/accelerators",
    )
    options = parser.parse_args()
    every = runs()
    found = judged(every)
    if options.rows:
        for run, error in sorted(found, key=lambda item: item[1]):
            device = run.figure.problem.clusters[0].accelerator.name
            print(f"{run.figure.name:40s} {device:10s} {error:+.1%}")
    _print_groups(found, "left out", lambda run: run.left_out)
    _print_groups(found, "sequence", _length)
    _print_groups(
        found,
        "device",
        lambda run: run.figure.problem.clusters[0].accelerator.name,
    )
    _print_groups(found, "devices", lambda run: run.figure.problem.clusters[0].devices)
    _print_groups(found, "micro-batch", lambda run: run.microbatch)
    _print_verdicts(found)
    _print_unseen([run for run in every if run.family == "B200"])
    if options.write:
        _write_accuracies(found)
    if options.fit:
        _print_fits(every)


if __name__ == "__main__":
    main()
