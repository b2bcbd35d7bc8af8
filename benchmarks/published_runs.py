"""Published iterations that others measured against ours, under their own software.

Run with ``python -m benchmarks.published_runs``. What a software stack reaches of a
device (``Training.software``) is fitted here; ``--write`` puts it into
``data/software``. Printed errors are never those on rows that were fitted: whole
layouts are left out, on Ascend whole shapes of models. Beside them stand the errors
without software, which is what a device's own shares give. Where a family has a single
layout, nothing is left to fit, and all factors are 1.

Seconds of an iteration are a sum over classes (multiplications by precision, attention,
element-wise kernels, tensor-parallel collectives with and without overlap, dispatch of
experts' tokens), each at the rates of single kernels and collectives, times one factor
for each class. Factors are the least squares of relative errors, pulled a little
towards 1; rows of one family of devices share them. Collectives of ZeRO-2 and -3 run
beside computation, which no factor changes.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, combinations_with_replacement, permutations
from math import log
from operator import itemgetter
from pathlib import Path
from statistics import mean, median, stdev
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import lsq_linear

from benchmarks.published_rows import APART, Row, published_rows
from hetopt.cost.operators.relatives import shipped_operators
from hetopt.cost.recompute import of_share
from hetopt.cost.sources.operator_source import OperatorSource
from hetopt.problem.facts import Sustained
from hetopt.problem.training.software import Reached

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

#: Weight of a factor's deviation from 1, errors having 1: of dense models, and of
#: models with experts, whose rows separate the classes less.
_PULLS = (0.03, 0.05)

#: Least and largest factor: attention, say, is not quicker than the peak.
_BOUNDS = (0.4, 3.0)

#: Times that exposed collectives of ZeRO are priced again with the fitted factors.
_ROUNDS = 4

#: Rows that differ by this share of their time have to be ordered right.
_APART = 0.08

#: Groups with a larger median error are calibrated.
_CALIBRATED = 0.06

#: A group is judged if it has at least this many layouts.
_FEWEST = 3

#: Devices with the compute dies of those that were measured: the same factors, and no
#: error, as no run of theirs was read.
_ALIKE = {
    "H100": ("H800",),
    "H100-96GB": ("H100", "H800"),
    "A100-80GB": ("A100-40GB", "A800-80GB"),
}

_SOFTWARE = Path(__file__).parents[1] / "data" / "software"

#: What each stack is.
ABOUT = {
    "fsdp-compile": "PyTorch FSDP with torch.compile, as in fms-fsdp",
    "internevo": "InternEvo of 2024",
    "megatron-2025": "Megatron-LM and Megatron-Bridge, releases 25.09 to 26.04",
    "megatron-2026": "Megatron-Bridge from release 26.06, whole iterations as graphs",
    "mindspeed": "MindSpeed-LLM 1.0 on Ascend with fused SwiGLU",
    "mindspeed-unfused": "MindSpeed-LLM 1.0 on Ascend without fused SwiGLU",
    "torchtitan": "TorchTitan with torch.compile",
    "torchtitan-eager": "TorchTitan without torch.compile",
    "torchtitan-rowwise": "TorchTitan with torch.compile and FP8 scaled by rows",
}

#: Least milliseconds of a layer with experts that are tried, where a host starts every
#: kernel: ``Reached.host_s``.
_HOSTS_MS = (0, 6, 8, 9, 10, 12)

#: Classes of seconds that a factor changes.
_CLASSES = ("multiplication", "attention", "elementwise", "tensor", "dispatch")


@dataclass(frozen=True)
class Run:
    """A row, with our seconds by class at the rates of single kernels.

    Attributes
    ----------
    host_s
        ``Reached.host_s`` that these seconds are with.
    """

    row: Row
    host_s: float = 0.0

    def seconds(self, reached: Reached) -> float:
        """Return our time of the iteration."""
        figure, row = self.row.figure, self.row
        cluster = figure.problem.clusters[0]
        operators = shipped_operators(cluster.accelerator)
        source = OperatorSource(cluster.accelerator, operators, reached=reached)
        whole_s = figure.seconds(source)
        if row.layers[0] == row.layers[1]:
            return whole_s
        strategy = replace(figure.strategy, recompute="none")
        none_s = replace(figure, strategy=strategy).seconds(source)
        return of_share(whole_s, none_s, *row.layers)

    @cached_property
    def usual_s(self) -> float:
        """Our time at the rates of single kernels, nothing beside computation."""
        return self.seconds(
            _reached(self.row, dict.fromkeys(_CLASSES, 1.0), self.host_s, beside=False)
        )

    def nearly(self, factors: Mapping[str, float]) -> float:
        """Return our time under factors, a sum where nothing runs beside another."""
        if self.row.figure.problem.training.zero >= 2:
            return self.seconds(self.reached(factors))
        own = np.array([factors.get(name, 1.0) for name in self.names()])
        return self.usual_s + float(self.classes @ (own - 1))

    @cached_property
    def classes(self) -> np.ndarray:
        """Seconds by class; (5,). Halving a share doubles the seconds of its class."""
        doubled = (
            _reached(
                self.row,
                {**dict.fromkeys(_CLASSES, 1.0), name: 2.0},
                self.host_s,
                beside=False,
            )
            for name in _CLASSES
        )
        return np.array([self.seconds(each) - self.usual_s for each in doubled])

    def names(self) -> tuple[str, ...]:
        """Return the name of each class's factor, among rows fitted together."""
        row = self.row
        precision = "16" if row.precision in ("bf16", "fp16") else row.precision
        rowwise = " rowwise" if row.stack.endswith("-rowwise") else ""
        unfused = " unfused" if row.stack.endswith(("-unfused", "-eager")) else ""
        ultra = " ultra" if row.device in ("GB300", "B300") else ""
        beside = row.figure.problem.training.overlap_tensor
        return (
            f"multiplication {precision}{rowwise}",
            f"attention{ultra}",
            f"elementwise{unfused}",
            "tensor overlapped" if beside else "tensor",
            "dispatch",
        )

    @property
    def published_s(self) -> float:
        """The published time."""
        return self.row.figure.published_s

    def error(self, factors: Mapping[str, float]) -> float:
        """Return our time under fitted factors / published time - 1."""
        return self.seconds(self.reached(factors)) / self.published_s - 1

    def reached(self, factors: Mapping[str, float]) -> Reached:
        """Return what factors, 1 where none was fitted, say of the row's run."""
        own = [factors.get(name, 1.0) for name in self.names()]
        host_s = factors.get(_HOST, 0.0) if _starts_kernels(self.row) else 0.0
        return _reached(self.row, dict(zip(_CLASSES, own, strict=True)), host_s)


#: The factor's name that is no factor but ``Reached.host_s``.
_HOST = "host"


def _starts_kernels(row: Row) -> bool:
    """Whether a host starts every kernel of a layer with experts, without graphs."""
    return row.experts and row.stack == "megatron-2025"


_AT_HOST: dict[tuple[str, float], Run] = {}


def _at(run: Run, host_s: float) -> Run:
    """Return a run with seconds of a host's; those that were made are kept."""
    return _AT_HOST.setdefault((run.row.figure.name, host_s), Run(run.row, host_s))


def _reached(
    row: Row, factors: Mapping[str, float], host_s: float, *, beside: bool = True
) -> Reached:
    shares = {name: round(1 / factor, 3) for name, factor in factors.items()}
    dispatch, tensor = shares.pop("dispatch"), shares.pop("tensor")
    overlap = row.figure.problem.training.overlap_tensor
    return Reached(
        experts=row.experts,
        sustained=Sustained(**shares, tensor=1.0 if overlap else tensor),
        tensor_overlapped=tensor if overlap else None,
        sharding_beside=beside,
        dispatch=dispatch,
        dispatcher=row.figure.problem.training.moe.sent_by,
        host_s=host_s,
    )


def fitted(seen: Sequence[Run]) -> dict[str, float]:
    """Return the factors, and a host's seconds, of least squares of relative errors."""
    if not any(_starts_kernels(run.row) for run in seen):
        return _at_one_host(seen)[1]
    found = []
    for host_ms in _HOSTS_MS:
        host_s = host_ms / 1000
        runs = [_at(run, host_s) if _starts_kernels(run.row) else run for run in seen]
        off, factors = _at_one_host(runs)
        found.append((off, {**factors, _HOST: host_s}))
    return min(found, key=itemgetter(0))[1]


def _at_one_host(seen: Sequence[Run]) -> tuple[float, dict[str, float]]:
    """Return the sum of squares, and the factors that make it least."""
    names = sorted({name for run in seen for name in run.names()})
    factors = dict.fromkeys(names, 1.0)
    if not seen:
        return 0.0, factors
    weight = _PULLS[seen[0].row.experts] * np.sqrt(len(seen))
    matrix = np.zeros((len(seen), len(names)))
    for place, run in enumerate(seen):
        for name, class_s in zip(run.names(), run.classes, strict=True):
            matrix[place, names.index(name)] += class_s / run.published_s
    # A class of which the rows have nothing keeps its factor.
    pulls = weight * np.eye(len(names))
    for _ in range(_ROUNDS):
        known = np.array([factors[name] for name in names])
        ours = np.array([run.nearly(factors) / run.published_s for run in seen])
        target = 1 - (ours - matrix @ known)
        found = lsq_linear(
            np.concatenate([matrix, pulls]),
            np.concatenate([target, np.full(len(names), weight)]),
            bounds=_BOUNDS,
        )
        factors = dict(zip(names, map(float, found.x), strict=True))
    return float(found.cost), factors


def judged(group: Sequence[Run]) -> list[tuple[Run, float]]:
    """Return the error of every run with factors fitted without its layout."""
    found = []
    for layout in dict.fromkeys(run.row.layout for run in group):
        factors = fitted([run for run in group if run.row.layout != layout])
        found += [(r, r.error(factors)) for r in group if r.row.layout == layout]
    return found


def _usual(run: Run) -> float:
    """Return the error without software."""
    problem = run.row.figure.problem
    source = OperatorSource(
        problem.clusters[0].accelerator,
        shipped_operators(problem.clusters[0].accelerator),
    )
    usual_s = run.seconds(source.reached(problem.model, problem.training))
    return usual_s / run.published_s - 1


def _group(run: Run) -> tuple[str, str, str, str]:
    row = run.row
    kind = "experts" if row.experts else "dense"
    return row.stack, row.device, row.precision, kind


def _print_rows(found: Iterable[tuple[Run, float]], usual: Mapping[str, float]) -> None:
    for run, error in sorted(found, key=lambda item: item[1]):
        figure = run.row.figure
        print(
            f"{figure.name:40s} {run.row.device:18s} {run.row.precision:6s} "
            f"{run.row.stack:18s} {error:+.1%} (without software "
            f"{usual[figure.name]:+.1%})"
        )


def _print_groups(
    found: Sequence[tuple[Run, float]], usual: Mapping[str, float]
) -> None:
    groups: dict[tuple[str, str, str, str], list[tuple[Run, float]]] = defaultdict(list)
    for run, error in found:
        groups[_group(run)].append((run, error))
    print(
        "| software | device | precision | models | runs | layouts | bias | mean "
        "| median | worst | mean without software |"
    )
    print("|---" * 11 + "|")
    for group, part in sorted(groups.items()):
        errors = [error for _, error in part]
        sizes = [abs(error) for error in errors]
        before = mean(abs(usual[run.row.figure.name]) for run, _ in part)
        layouts = len({run.row.layout for run, _ in part})
        print(
            f"| {' | '.join(group)} | {len(part)} | {layouts} | {mean(errors):+.1%} "
            f"| {mean(sizes):.1%} | {median(sizes):.1%} | {max(sizes):.1%} "
            f"| {before:.1%} |"
        )
    print(flush=True)


#: Families that are judged: rows of a family with three layouts or more, largest mean
#: error. All have to be within 5% of no bias.
_LIMITS = {"dense": 0.09, "Ascend": 0.08, "experts": 0.22}
_BIAS = 0.05


def _print_verdicts(found: Sequence[tuple[Run, float]]) -> None:
    families: dict[str, list[tuple[Run, float]]] = defaultdict(list)
    for run, error in found:
        families[f"{_fit_group(run)[1]} {run.row.stack.partition('-')[0]}"].append(
            (run, error)
        )
    for family, part in families.items():
        errors = [error for _, error in part]
        layouts = len({run.row.layout for run, _ in part})
        rows = [run.row for run, _ in part]
        limit = _LIMITS["experts" if all(row.experts for row in rows) else "dense"]
        if family.startswith("Ascend"):
            limit = _LIMITS["Ascend"]
        size, bias = mean(map(abs, errors)), mean(errors)
        said = (
            f"{family}: {len(part)} runs, {layouts} layouts left out: mean {size:.1%}"
        )
        said += f" (at most {limit:.0%}), bias {bias:+.1%}, "
        sizes = [abs(error) for error in errors]
        said += f"median {median(sizes):.1%}, worst {max(sizes):.1%}"
        missed = size > limit or abs(bias) > _BIAS
        if layouts < _FEWEST:
            print(f"{said}; too few layouts to judge")
        else:
            print(said + (" MISSED" if missed else ""))
    print(flush=True)


def _print_order(found: Sequence[tuple[Run, float]]) -> None:
    """Print how many pairs of layouts of one problem are ordered right."""
    right = pairs = 0
    for (first, a), (second, b) in combinations(found, 2):
        one, two = first.row, second.row
        if one.layout == two.layout or _asked(one) != _asked(two):
            continue
        measured = first.published_s / second.published_s
        if max(measured, 1 / measured) < 1 + _APART:
            continue
        pairs += 1
        ours = measured * (1 + a) / (1 + b)
        right += (ours > 1) == (measured > 1)
        if (ours > 1) != (measured > 1):
            wrong = (
                f"{one.figure.name} ({one.layout}), {two.figure.name} ({two.layout})"
            )
            print(f"out of order: {wrong}: {measured:.2f} published, {ours:.2f} ours")
    share = right / pairs if pairs else 1.0
    print(
        f"of {pairs} pairs of layouts more than {_APART:.0%} apart, of one model, "
        f"device, number of devices and batch, {right} are in order ({share:.0%})\n"
    )


def _asked(row: Row) -> tuple[object, ...]:
    problem = row.figure.problem
    training = problem.training
    return (
        problem.model,
        row.device,
        problem.clusters[0].devices,
        training.global_batch,
        training.seq_len,
    )


def _print_calibration(
    groups: Mapping[tuple[str, str], Sequence[Run]],
    found: Sequence[tuple[Run, float]],
    usual: Mapping[str, float],
) -> None:
    """Print how much one run of a group tells about its others.

    Beside it, what the best of all single factors would leave, which nobody knows
    beforehand, and the standard deviation of ours / published, as a logarithm.
    """
    own: dict[tuple[str, str, str, str], list[tuple[Run, float]]] = defaultdict(list)
    for run, error in found:
        own[_group(run)].append((run, error))
    for said in ("without software", "with software"):
        print(
            f"| calibrated {said} by one run | others | median before | after "
            "| best factor | spread |"
        )
        print("|---" * 6 + "|")
        for name, part in sorted(own.items()):
            runs, ratios = [run for run, _ in part], [1 + error for _, error in part]
            if said == "without software":
                ratios = [1 + usual[run.row.figure.name] for run in runs]
            before = median(abs(ratio - 1) for ratio in ratios)
            if len(runs) < _FEWEST or before <= _CALIBRATED:
                continue
            pairs: Iterable[tuple[float, float]] = permutations(ratios, 2)
            if said == "with software":
                pairs = _under_one_fit(groups[_fit_group(runs[0])], runs)
            after = median(abs(other / one - 1) for one, other in pairs)
            best = min(median(abs(r / each - 1) for r in ratios) for each in ratios)
            missed = "" if after <= before / 2 else " MISSED"
            print(
                f"| {' '.join(name)} | {len(runs) - 1} | {before:.1%} "
                f"| {after:.1%}{missed} | {best:.1%} | {stdev(map(log, ratios)):.1%} |"
            )
        print(flush=True)


def _under_one_fit(
    group: Sequence[Run], own: Sequence[Run]
) -> Iterator[tuple[float, float]]:
    """Yield ours / published of a run that calibrates, and of one that is judged.

    Both are under the same factors, as in a problem, fitted without either's layout.
    """
    layouts = dict.fromkeys(run.row.layout for run in own)
    for both in combinations_with_replacement(layouts, 2):
        factors = fitted([run for run in group if run.row.layout not in both])
        ratios = [
            (run.row.layout, 1 + run.error(factors))
            for run in own
            if run.row.layout in both
        ]
        for (here, one), (there, other) in permutations(ratios, 2):
            if {here, there} == {*both}:
                yield one, other


def _fit_group(run: Run) -> tuple[str, str]:
    """Return the rows that are fitted together: of one source on one family."""
    return run.row.stack.partition("-")[0], run.row.family


def _write(
    groups: Mapping[tuple[str, str], Sequence[Run]],
    factors: Mapping[tuple[str, str], Mapping[str, float]],
    found: Sequence[tuple[Run, float]],
) -> None:
    """Put what every stack reaches into its file."""
    stacks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name, group in sorted(groups.items()):
        by_entry: dict[tuple[str, str, str, str], list[Run]] = defaultdict(list)
        for run in group:
            by_entry[_group(run)].append(run)
        for own, runs in sorted(by_entry.items()):
            sizes = [abs(error) for run, error in found if _group(run) == own]
            accuracy = {
                "runs": len(sizes),
                "median": round(median(sizes), 4),
                "worst": round(max(sizes), 4),
            }
            entry = _entry(group, runs, factors[name])
            stacks[own[0]].append({**entry, "accuracy": accuracy})
            for alike in _ALIKE.get(own[1], ()):
                like = f"as {own[1]}, whose compute dies it has; no run of it was read"
                stacks[own[0]].append({**entry, "devices": [alike], "source": like})
    # Graphs of whole iterations are of mixtures of experts.
    dense = [each for each in stacks["megatron-2025"] if not each["experts"]]
    stacks["megatron-2026"] += dense
    for stack, entries in stacks.items():
        path = _SOFTWARE / f"{stack}.json"
        # What else a stack's file says was not fitted, and stays.
        data = json.loads(path.read_text("utf-8")) if path.exists() else {}
        data |= {"name": stack, "about": ABOUT[stack], "reached": entries}
        text = json.dumps(data, indent=2, ensure_ascii=False) + "\n"
        _SOFTWARE.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")


def _entry(
    group: Sequence[Run], runs: Sequence[Run], factors: Mapping[str, float]
) -> dict[str, Any]:
    """Return what the factors of rows that were fitted together say of some of them."""
    row, names = runs[0].row, dict(zip(_CLASSES, runs[0].names(), strict=True))
    seen = {
        name
        for run in group
        for name, seconds in zip(run.names(), run.classes, strict=True)
        if seconds > 0
    }
    shares = {
        key: round(1 / factors[names[key]], 3)
        for key in ("multiplication", "attention", "elementwise")
    }
    plain, overlapped = "tensor", "tensor overlapped"
    shares["tensor"] = round(1 / factors[plain], 3) if plain in seen else 1.0
    entry: dict[str, Any] = {
        "devices": [row.device],
        "precisions": [row.precision],
        "experts": row.experts,
        "sustained": shares,
        "sharding_beside": True,
        "source": f"{len(runs)} of {len(group)} runs fitted together, "
        f"{', '.join(sorted({run.row.figure.source for run in group}))} "
        "(data/iterations, benchmarks.published_runs)",
    }
    if plain not in seen:
        entry["source"] += "; none has tensor-parallel collectives without overlap"
    if overlapped in seen:
        entry["tensor_overlapped"] = round(1 / factors[overlapped], 3)
    if "dispatch" in seen:
        entry["dispatch"] = round(1 / factors["dispatch"], 3)
    if row.experts:
        entry["dispatcher"] = row.figure.problem.training.moe.sent_by
    if _starts_kernels(row) and factors[_HOST]:
        entry["host_s"] = factors[_HOST]
    return entry


def main() -> None:
    """Print errors on layouts left out, and with ``--write`` write the factors."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", action="store_true", help="print every row")
    parser.add_argument("--fit", action="store_true", help="print the factors of all")
    parser.add_argument(
        "--write", action="store_true", help="put the factors into data/software"
    )
    options = parser.parse_args()
    every = [Run(row) for row in published_rows()]
    usual = {run.row.figure.name: _usual(run) for run in every}
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in every:
        if run.row.figure.name not in APART:
            groups[_fit_group(run)].append(run)
    found = [item for group in groups.values() for item in judged(group)]
    factors = {name: fitted(group) for name, group in groups.items()}
    if options.rows:
        _print_rows(found, usual)
    _print_groups(found, usual)
    for run in every:
        why = APART.get(run.row.figure.name)
        if why is not None:
            error = run.error(factors.get(_fit_group(run), {}))
            print(f"apart: {run.row.figure.name} {error:+.1%}: {why}")
    for figure in (run.row.figure for run in every):
        if figure.chunks > 1 and figure.remainder:
            parts = figure.stages * figure.chunks
            print(
                f"chunks that differ: {figure.name}: of {parts}, the first "
                f"{figure.remainder} hold a unit more than the others"
            )
    _print_verdicts(found)
    _print_order(found)
    _print_calibration(groups, found, usual)
    if options.write:
        _write(groups, factors, found)
    if options.fit:
        for name, own in factors.items():
            print(name, {key: round(value, 3) for key, value in own.items()})


if __name__ == "__main__":
    main()
