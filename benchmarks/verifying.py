"""The time of `hetopt verify` relative to `hetopt plan`, and its answers to forgeries.

    python -m benchmarks.verifying [--drawn 10] [--out FILE] [PROBLEM...]

Plans each problem and verifies its certificate with all programs searched, each in a
process of its own. Then forges the certificate in ten ways; each forgery has to be
rejected within twice the time that the plan took. Makes two tables in Markdown. The
exit code is 1 if a certificate is not verified, or a forgery is.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.forging import KINDS, forged
from hetopt.base.files import write_text
from hetopt.base.machine import machine

PROBLEMS = (
    "hetauto-exp1",
    "hetauto-exp2",
    "hetauto-exp3",
    "h2-exp-a-1",
    "h2-exp-a-2",
    "h2-exp-b-1",
    "h2-exp-b-2",
    "h2-exp-c-1",
    "h2-exp-c-2",
    "h2-exp-d",
)
FOLDER = Path(__file__).parent.parent / "data" / "problems"
ACCELERATORS = ("A100-80GB", "H20-96GB", "H100", "Ascend-A2-64GB", "V100-32GB")
SCHEDULES = ("1f1b", "eager-1f1b", "virtual-1f1b", "gpipe")
#: Largest permitted ratio of the times of verifying and planning.
FACTOR = 2.0


class Done(NamedTuple):
    """One process: exit code, times in seconds, and last line of output."""

    code: int
    wall_s: float
    cpu_s: float
    said: str


class Sums:
    """Counts of forgeries and of their rejections, by kind."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.in_time: Counter[str] = Counter()
        self.longest: dict[str, float] = {}

    def add(self, kind: str, done: Done, planned: Done) -> None:
        """Count one forgery."""
        ratio = done.cpu_s / planned.cpu_s
        self.seen[kind] += 1
        self.rejected[kind] += done.code in (1, 2)
        self.in_time[kind] += ratio <= FACTOR
        self.longest[kind] = max(self.longest.get(kind, 0.0), ratio)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM")
    parser.add_argument("--drawn", type=int, default=10, metavar="N")
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args(arguments)
    lines = [
        "# How long `hetopt verify` takes (`python -m benchmarks.verifying`)",
        "",
        "Whole processes, one after the other; CPU seconds are of all cores together.",
        "",
        "| problem | plan wall, CPU s | verify wall, CPU s | ratios | outcome |",
        "|---|--:|--:|--:|---|",
    ]
    print("\n".join(lines), flush=True)
    sums, sound = Sums(), True
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = [FOLDER / f"{name}.yaml" for name in options.problems or PROBLEMS]
        drawn = [] if options.problems else range(options.drawn)
        paths += [_drawn(seed, folder) for seed in drawn]
        # Compilation is not timed: this run does it.
        _beside(paths[0], folder, Sums(), forge=False)
        for path in paths:
            line, good = _beside(path, folder, sums, forge=path.parent == FOLDER)
            sound &= good
            lines.append(line)
            print(line, flush=True)
    more = [
        "",
        "| forgery | rejected | within twice the plan's CPU time | longest, of it |",
        "|---|--:|--:|--:|",
    ]
    for kind, seen in sums.seen.items():
        sound &= sums.rejected[kind] == seen
        more.append(
            f"| {kind} | {sums.rejected[kind]} of {seen} | {sums.in_time[kind]} | "
            f"{sums.longest[kind]:.2f} |"
        )
    more += ["", f"On {machine()}, load average {os.getloadavg()[0]:.1f}.", ""]
    print("\n".join(more))
    if options.out is not None:
        write_text(options.out, "\n".join([*lines, *more]))
    return 0 if sound else 1


def _beside(path: Path, folder: Path, sums: Sums, *, forge: bool) -> tuple[str, bool]:
    """Plan, verify, forge; return a line and whether the certificate was verified."""
    plan, certificate = folder / "plan.json", folder / "cert.json"
    outputs = ["--out", str(plan), "--certificate", str(certificate)]
    asked = ["plan", str(path), "--objective", "closed", "--time-limit", "300"]
    planned = _run(*asked, *outputs)
    if planned.code:
        # Without a plan there is no certificate to verify here.
        return f"| {path.stem} | - | - | - | plan: {planned.said[:80]} |", False
    verified = _run("verify", str(path), str(plan), str(certificate))
    cells = (
        path.stem,
        f"{planned.wall_s:.2f}, {planned.cpu_s:.2f}",
        f"{verified.wall_s:.2f}, {verified.cpu_s:.2f}",
        f"{verified.wall_s / planned.wall_s:.2f}, {verified.cpu_s / planned.cpu_s:.2f}",
        "verified" if verified.code == 0 else verified.said[:80],
    )
    if forge:
        _forge(path, folder, planned, sums)
    return f"| {' | '.join(cells)} |", verified.code == 0


def _forge(path: Path, folder: Path, planned: Done, sums: Sums) -> None:
    """Verify ten forgeries of the certificate in the folder."""
    plan = json.loads((folder / "plan.json").read_text())
    certificate = json.loads((folder / "cert.json").read_text())
    second = folder / "second.json"
    _run("plan", str(path), "--top", "2", "--out", str(second))
    other = json.loads(second.read_text())["alternatives"][0]
    for kind in KINDS:
        files = []
        for name, data in zip(
            ("forged-plan.json", "forged.json"),
            forged(kind, plan, certificate, other),
            strict=True,
        ):
            (folder / name).write_text(json.dumps(data))
            files.append(str(folder / name))
        limit = f"{max(5.0, 4 * FACTOR * planned.wall_s):.0f}"
        done = _run("verify", str(path), *files, "--time-limit", limit)
        print(f"  {kind}: {done.code} in {done.cpu_s:.1f} s: {done.said[-120:]}")
        sums.add(kind, done, planned)


def _run(*arguments: str) -> Done:
    command = [sys.executable, "-m", "hetopt", *arguments]
    before, began = _children_s(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = (done.stdout + done.stderr).strip().splitlines()
    return Done(
        code=done.returncode,
        wall_s=time.perf_counter() - began,
        cpu_s=_children_s() - before,
        said=said[-1] if said else "",
    )


def _children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _drawn(seed: int, folder: Path) -> Path:
    """Write a problem of two or three clusters; the same seed gives the same one."""
    rng = Random(seed)
    clusters = "".join(
        f"  - {{name: c{i}, accelerator: {name}, nodes: {rng.choice((1, 2, 4))}, "
        "devices_per_node: 8, inter_node: {bandwidth: 100 Gbps, latency: 5 us}}\n"
        for i, name in enumerate(rng.sample(ACCELERATORS, rng.choice((2, 3))))
    )
    path = folder / f"drawn-{seed}.yaml"
    path.write_text(
        f"name: drawn-{seed}\n"
        f"model: {{preset: {rng.choice(('llama-7b', 'llama-13b'))}}}\n"
        f"clusters:\n{clusters}"
        f"links: {{default: {{bandwidth: {rng.choice((10, 25, 100))} Gbps, "
        f"latency: 100 us, staged: host}}}}\n"
        f"training: {{global_batch: {rng.choice((32, 64, 128))}, seq_len: 4096, "
        f"schedule: {SCHEDULES[seed % len(SCHEDULES)]}, emulate: fp32}}\n"
    )
    return path


if __name__ == "__main__":
    sys.exit(main())
