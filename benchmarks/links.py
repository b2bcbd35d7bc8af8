"""The cost of shared links for the search, on HetAuto's experiments.

    python -m benchmarks.links [--repeat 5] [--out FILE] [PROBLEM...]

10 Gbps is read as the rate of every connection (as in 0.1.0), of a node (the shipped
files), or of a whole link. Whole processes run in turn, after one of each that fills
caches; printed are medians in seconds of the wall clock, and their ratio to the first.
The exit code is 1 if some plan is not proven optimal, or a ratio is above ``BAR``.
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import yaml

from benchmarks.speed import CLOSED, Run, run
from hetopt.base.files import write_text

PROBLEMS = ("hetauto-exp1", "hetauto-exp2", "hetauto-exp3")
#: Largest permitted ratio of times.
BAR = 1.8
_RATE = "10 Gbps"
#: Keys of the default link by reading; the others are compared with the first.
READINGS = {
    "each connection": {"bandwidth": "unlimited", "per_connection": _RATE},
    "each node": {"bandwidth": "unlimited", "per_node": _RATE},
    "in all": {"bandwidth": _RATE},
}
_HEAD = (
    "| problem | 10 Gbps has | wall (s) | ratio | CPU (s) | status | objective (s) |",
    "| --- | --- | --: | --: | --: | --- | --: |",
)


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", default=[*PROBLEMS])
    parser.add_argument("--repeat", type=int, default=5, metavar="N")
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args(arguments)
    lines = ["# What shared links cost the search (`python -m benchmarks.links`)"]
    lines += ["", f"Medians of {options.repeat}, in turn.", "", *_HEAD]
    print("\n".join(lines), flush=True)
    holds = True
    for problem in options.problems:
        found = _runs(problem, options.repeat)
        first = median(each.wall_s for each in found[next(iter(READINGS))])
        for reading, runs in found.items():
            result = runs[-1].result or {}
            wall_s = median(each.wall_s for each in runs)
            cpu_s = median(each.cpu_s for each in runs)
            holds &= result.get("status") == "optimal" and wall_s <= BAR * first
            value = result.get("closed_form_s")
            lines.append(
                f"| {problem} | {reading} | {wall_s:.2f} | {wall_s / first:.2f} | "
                f"{cpu_s:.2f} | {result.get('status', 'failed')} | "
                f"{'-' if value is None else format(value, '.6f')} |"
            )
            print(lines[-1], flush=True)
    if options.out is not None:
        write_text(options.out, "\n".join([*lines, ""]))
    return 0 if holds else 1


def _runs(problem: str, repeat: int) -> dict[str, list[Run]]:
    """Plan a shipped problem under each reading, in turn."""
    text = (files("hetopt.data") / "problems" / f"{problem}.yaml").read_text()
    found: dict[str, list[Run]] = {reading: [] for reading in READINGS}
    with TemporaryDirectory() as folder:
        for reading, keys in READINGS.items():
            document = yaml.safe_load(text)
            link = document["links"]["default"]
            rest = {key: link[key] for key in ("latency", "staged") if key in link}
            document["links"]["default"] = keys | rest
            path = Path(folder) / f"{reading}.yaml"
            path.write_text(yaml.safe_dump(document))
            run(str(path), *CLOSED)
        for _ in range(repeat):
            for reading, runs in found.items():
                runs.append(run(str(Path(folder) / f"{reading}.yaml"), *CLOSED))
    return found


if __name__ == "__main__":
    sys.exit(main())
