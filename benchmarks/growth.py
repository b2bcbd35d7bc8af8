"""How planning time and memory grow with clusters, devices and layers.

Run with ``python -m benchmarks.growth``: ten problems of eight clusters and ten of
sixteen, then one of every size, each planned by the command line in a process of its
own; the tables are printed and written to ``benchmarks/results/growth.md``. With sizes
or seeds of your own they are only printed. Problems are generated
(``benchmarks.growing``) and all their times are modelled. Planning time and memory
depend on the machine, and so does the gap if the proof is not finished.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.growing import Size, document
from hetopt.base.files import write_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

RESULTS = Path(__file__).parent / "results" / "growth.md"
#: Each size is one step from another one in every direction.
SIZES = (
    Size(2, 64, 24),
    Size(2, 1024, 48),
    Size(4, 256, 24),
    Size(4, 1024, 48),
    Size(4, 4096, 96),
    Size(8, 1024, 48),
    Size(8, 4096, 96),
    Size(8, 16384, 126),
    Size(12, 4096, 96),
    Size(12, 16384, 126),
    Size(16, 16384, 126),
    Size(16, 65536, 192),
    Size(16, 131072, 256),
)
#: Sizes planned with ten seeds, and the limits for each of these runs.
MANY, SEEDS = (Size(8, 1024, 48), Size(16, 16384, 126)), range(10)
BAR_GAP, BAR_GIB = 0.001, 4.0
#: Seconds between two measurements of the memory used.
_TURN_S = 0.5

HEADER = (
    "| clusters | devices | layers | seed | status | seconds | GiB | closed form s "
    "| lower bound s | gap | p, q |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|"
)


class Outcome(NamedTuple):
    """One problem's row."""

    clusters: int
    devices: int
    layers: int
    seed: int
    status: str
    seconds: float
    peak_gib: float
    closed_form_s: float | None
    lower_bound_s: float | None
    gap: float | None
    stages: int | None
    microbatches: int | None

    def row(self) -> str:
        """Return the outcome as a row of the table."""
        found = self.closed_form_s is not None
        cells = (
            str(self.clusters),
            str(self.devices),
            str(self.layers),
            str(self.seed),
            self.status,
            f"{self.seconds:.1f}",
            f"{self.peak_gib:.2f}",
            f"{self.closed_form_s:.4f}" if found else "",
            f"{self.lower_bound_s:.4f}" if self.lower_bound_s is not None else "",
            f"{self.gap:.2%}" if self.gap is not None else "",
            f"{self.stages}, {self.microbatches}" if found else "",
        )
        return f"| {' | '.join(cells)} |"


def plan(size: Size, seed: int, *, solver: str, limit_s: float, jobs: int) -> Outcome:
    """Plan one problem with the command line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "problem.yaml")
        path.write_text(json.dumps(document(size, seed)), encoding="utf-8")
        command = [sys.executable, "-m", "hetopt", "plan", str(path), "--json"]
        command += ["--solver", solver, "--time-limit", str(limit_s)]
        command += ["--jobs", str(jobs)]
        began = time.monotonic()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as child:
            watch = _Watch(child.pid)
            watch.start()
            printed, _ = child.communicate()
            seconds = time.monotonic() - began
            watch.done.set()
            watch.join()
    found = json.loads(printed)
    pipeline = found["plan"]["pipelines"][0] if found["plan"] else None
    return Outcome(
        *size,
        seed=seed,
        status=found["status"],
        seconds=seconds,
        peak_gib=watch.peak_bytes / 2**30,
        closed_form_s=found["closed_form_s"],
        lower_bound_s=found["lower_bound_s"],
        gap=found["gap"],
        stages=len(pipeline["stages"]) if pipeline else None,
        microbatches=pipeline["microbatches"] if pipeline else None,
    )


class _Watch(threading.Thread):
    """Measures the memory of all processes of a session; counts shared pages once."""

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self.session = session
        self.done = threading.Event()
        self.peak_bytes = 0

    def run(self) -> None:
        """Measure repeatedly until stopped."""
        while not self.done.wait(_TURN_S):
            used = 0
            for folder in Path("/proc").glob("[0-9]*"):
                # A process may end while it is measured.
                with suppress(OSError, IndexError, ValueError):
                    fields = (folder / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[3]) == self.session:
                        used += _resident_bytes(folder)
            self.peak_bytes = max(self.peak_bytes, used)


def _resident_bytes(folder: Path) -> int:
    for line in (folder / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def summary(size: Size, outcomes: Sequence[Outcome]) -> str:
    """Return a summary of ten seeds of a size, compared with the limits."""
    close = sum(
        found.gap is not None and found.gap <= BAR_GAP and found.peak_gib < BAR_GIB
        for found in outcomes
    )
    gaps = [found.gap for found in outcomes if found.gap is not None]
    return (
        f"{len(outcomes)} seeds, {size.clusters} clusters, about {size.devices:,} "
        f"devices, {size.layers} layers: {close} proven or within {BAR_GAP:.1%} under "
        f"{BAR_GIB:g} GiB; largest gap {max(gaps, default=float('nan')):.2%}, "
        f"longest {max(found.seconds for found in outcomes):.0f} s, at most "
        f"{max(found.peak_gib for found in outcomes):.2f} GiB"
    )


def _all(options: argparse.Namespace) -> Iterator[tuple[Size, int]]:
    """Yield the requested sizes and seeds."""
    axes = (options.clusters, options.devices, options.layers)
    most = MANY[-1]
    defaults = ([most.clusters], [most.devices], [most.layers])
    chosen = [axis or default for axis, default in zip(axes, defaults, strict=True)]
    for size in product(*chosen):
        for seed in options.seeds or [0]:
            yield Size(*size), seed


def _machine(options: argparse.Namespace) -> str:
    load = " ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{options.jobs} workers on {os.cpu_count()} cores, limit "
        f"{options.time_limit:g} s, solver {options.solver}; load averages {load} "
        "(more than there are workers would be other work). All times in the problems "
        "are modelled."
    )


def main() -> None:
    """Plan every size and seed, and print the tables."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    for axis in ("--clusters", "--devices", "--layers", "--seeds"):
        parser.add_argument(axis, type=int, nargs="+", metavar="N")
    parser.add_argument("--time-limit", type=float, default=120, metavar="S")
    parser.add_argument("--solver", default="dp", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), metavar="N")
    options = parser.parse_args()

    def row(size: Size, seed: int) -> Outcome:
        outcome = plan(
            size,
            seed,
            solver=options.solver,
            limit_s=options.time_limit,
            jobs=options.jobs,
        )
        print(outcome.row(), flush=True)
        return outcome

    if any((options.clusters, options.devices, options.layers, options.seeds)):
        print(f"{_machine(options)}\n\n{HEADER}", flush=True)
        for size, seed in _all(options):
            row(size, seed)
        return
    began = _machine(options)
    print(began, flush=True)
    many: dict[Size, list[Outcome]] = {}
    sizes: list[Outcome] = []
    for size in MANY:
        print(f"\n{HEADER}", flush=True)
        for seed in SEEDS:
            many.setdefault(size, []).append(row(size, seed))
            _write(began, many, sizes)
        print(f"\n{summary(size, many[size])}", flush=True)
    print(f"\n{HEADER}", flush=True)
    for size in SIZES:
        sizes.append(row(size, 0))
        _write(began, many, sizes)


def _write(
    began: str, many: Mapping[Size, Sequence[Outcome]], sizes: Sequence[Outcome]
) -> None:
    """Write the results so far, as the whole run takes most of an hour."""
    text = [
        "# How planning grows (`python -m benchmarks.growth`)",
        f"When it began: {began}",
        "\n".join([HEADER, *(found.row() for found in sizes)]),
    ]
    for size, outcomes in many.items():
        text.append(f"{summary(size, outcomes)}.")
        text.append("\n".join([HEADER, *(found.row() for found in outcomes)]))
    write_text(str(RESULTS), "\n\n".join(text) + "\n")


if __name__ == "__main__":
    main()
