"""HetAuto's experiments over the rates that its links between clusters may have.

    python -m benchmarks.links [--out FILE] [PROBLEM...]

HetAuto (sections 7.2 and 7.3) measured about 10 Gbps between two clusters with iperf3,
and does not say what a node or a connection gets. For every reading this prints, in
closed form: the proven optimum; Uniform's plan and its number of stages, with clusters
that may stay unused and with every cluster used (HetAuto, Eq. 12); and, for exp3, the
plan of appendix D, whose layers and recomputation are free. The values do not depend on
the machine. The exit code is 1 if an optimum is not proven, or if at the rate of the
shipped files the paper's facts about exp3 do not hold: its plan is faster than
Uniform's, and Uniform's has 23 stages where every cluster is used.
"""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml

from benchmarks.speed import CLOSED, run
from hetopt.base.files import write_text

PROBLEMS = ("hetauto-exp1", "hetauto-exp2", "hetauto-exp3")
#: The problem whose pins are the published plan of another.
PUBLISHED = {"hetauto-exp3": "hetauto-exp3-published"}
#: Stages of Uniform's plan on exp3 (HetAuto, section 7.3).
UNIFORM_STAGES = 23
#: The reading of the shipped files.
SHIPPED = "40 per node"
#: Where all nodes share a link Uniform is not planned: its search takes long there.
SHARED = "10 in all"
#: Keys of the default link by reading, rates in Gbps.
READINGS = {
    SHARED: {"bandwidth": "10 Gbps"},
    **{
        f"{rate} per node": {"bandwidth": "unlimited", "per_node": f"{rate} Gbps"}
        for rate in (10, 20, 30, 35, 40, 50, 80)
    },
    "10 per connection": {"bandwidth": "unlimited", "per_connection": "10 Gbps"},
}
_HEAD = (
    "| problem | Gbps | optimum | Uniform | Uniform, every cluster | published plan |",
    "| --- | --- | --: | --: | --: | --: |",
)


class Found(NamedTuple):
    """A plan: its time in closed form in seconds, and the cluster of every stage."""

    closed_form_s: float
    clusters: tuple[str, ...]
    status: str

    def cell(self) -> str:
        """Return the time, and the number of stages."""
        return f"{self.closed_form_s:.2f} ({len(self.clusters)})"


class Row(NamedTuple):
    """The plans of one problem under one reading; None where there is none."""

    optimum: Found | None
    uniform: Found | None
    every_cluster: Found | None
    published: Found | None

    def agrees(self) -> bool:
        """Return whether the paper's facts about exp3 hold."""
        _, _, uniform, published = self
        return (
            uniform is not None
            and published is not None
            and published.closed_form_s < uniform.closed_form_s
            and len(uniform.clusters) == UNIFORM_STAGES
        )


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problems", nargs="*", metavar="PROBLEM", default=[*PROBLEMS])
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args(arguments)
    lines = ["# The rate between HetAuto's clusters (`python -m benchmarks.links`)", ""]
    lines += ["Closed form in seconds, and the number of stages.", "", *_HEAD]
    print("\n".join(lines), flush=True)
    holds = True
    for problem in options.problems:
        for reading in READINGS:
            row = row_of(problem, reading)
            holds &= row.optimum is not None and row.optimum.status == "optimal"
            if problem in PUBLISHED and reading == SHIPPED:
                holds &= row.agrees()
            cells = ["-" if each is None else each.cell() for each in row]
            lines.append(f"| {' | '.join([problem, reading, *cells])} |")
            print(lines[-1], flush=True)
    if options.out is not None:
        write_text(options.out, "\n".join([*lines, ""]))
    return 0 if holds else 1


def row_of(problem: str, reading: str) -> Row:
    """Plan a shipped problem under one reading."""
    document = linked(problem, reading)
    uniform = None
    if reading != SHARED:
        uniform = _planned(document, "--solver", "uniform")
    names = {cluster["name"] for cluster in document["clusters"]}
    every = uniform
    if uniform is not None and set(uniform.clusters) != names:
        every = _planned(_using_all(document), "--solver", "uniform")
    pinned = PUBLISHED.get(problem)
    return Row(
        optimum=_planned(document),
        uniform=uniform,
        every_cluster=every,
        published=None if pinned is None else _planned(linked(pinned, reading)),
    )


def linked(problem: str, reading: str) -> dict[str, Any]:
    """Return a shipped problem with the links of a reading."""
    text = (files("hetopt.data") / "problems" / f"{problem}.yaml").read_text()
    document: dict[str, Any] = yaml.safe_load(text)
    link = document["links"]["default"]
    rest = {key: link[key] for key in ("latency", "staged") if key in link}
    document["links"]["default"] = READINGS[reading] | rest
    return document


def _using_all(document: dict[str, Any]) -> dict[str, Any]:
    """Return a problem whose plans use every cluster."""
    unused = {cluster["name"]: {"stages": 0} for cluster in document["clusters"]}
    return document | {"pin": {"forbid": {"clusters": unused}}}


def _planned(document: dict[str, Any], *flags: str) -> Found | None:
    """Return the plan of least closed form, or None if there is none."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "problem.yaml"
        path.write_text(yaml.safe_dump(document))
        result = run(str(path), *CLOSED, *flags).result
    if result is None or result["plan"] is None:
        return None
    (pipeline,) = result["plan"]["pipelines"]
    return Found(
        closed_form_s=result["closed_form_s"],
        clusters=tuple(stage["cluster"] for stage in pipeline["stages"]),
        status=result["status"],
    )


if __name__ == "__main__":
    sys.exit(main())
