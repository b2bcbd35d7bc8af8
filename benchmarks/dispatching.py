"""All-to-alls of routed experts over links slowed to the plan's, against the model.

    python -m benchmarks.dispatching [NAME ...] [--repeat 5]

A stage of 2 to 8 ranks dispatches the copies of a micro-batch's tokens to experts that
are spread over them, and combines them again, by the program of ``hetopt export --to
torch`` on gloo. Every node is a network namespace; ``benchmarks.shaping`` slows its
cable to a switch and its loopback to the bandwidth that the cost model gives the ranks
of a node together. Prints medians of the slowest rank's seconds; the exit code is 1 if
one is off by more than ``BAR``. Needs root, ``ip``, ``tc`` and PyTorch.

gloo sends inside the node and to other nodes at the same time, while the model adds up
the two times. Here the link inside a node is 16 times as fast as the network, so the
difference is a few per cent.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

import hetopt
from benchmarks.shaping import CABLE, can_shape, move, switched
from hetopt.cost.communication.collectives import (
    ALL_TO_ALL_SHARE,
    NETWORK_SHARE,
    intra_node_bandwidth,
)
from hetopt.cost.communication.within_stage import stage_communication
from hetopt.cost.shapes import Shape
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.torch.launcher import LAUNCHER
from hetopt.problem.model.kinds import LAYER_EXPERTS

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem

#: Largest permitted error of the modelled times, as a share.
BAR = 0.1

#: Tokens of a rank: its copies are 8 MB.
SEQ_LEN = 4096

WORKER = Path(__file__).with_name("dispatch_worker.py")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A stage whose ranks send tokens to one another.

    Attributes
    ----------
    nodes, each
        Nodes, and ranks in each.
    inside
        Nominal bandwidth of a rank inside its node.
    """

    nodes: int
    each: int
    inside: str = "0.8 Gbps"

    @property
    def ranks(self) -> int:
        """Ranks of the stage."""
        return self.nodes * self.each

    def problem(self) -> dict[str, Any]:
        """Return a problem whose only plan is this stage."""
        strategy = {"dp": self.ranks, "cp": 1, "tp": 1, "recompute": "none"}
        return {
            "name": "dispatching",
            "model": {
                **{"layers": 1, "hidden": 256, "heads": 4, "ffn": 256, "vocab": 512},
                "experts": {"number": 16, "per_token": 2, "ffn": 256},
            },
            "clusters": [
                {
                    "name": "hall",
                    "accelerator": {
                        "name": "slow",
                        "peak_flops": {"fp32": "1 TFLOPS", "bf16": "1 TFLOPS"},
                        "memory": "16 GB",
                        "memory_bandwidth": "100 GB/s",
                        "intra_node": {"bandwidth": self.inside, "latency": 0},
                        "host_device": {"bandwidth": "10 GB/s", "latency": 0},
                    },
                    "nodes": self.nodes,
                    "devices_per_node": self.each,
                    "nics_per_node": 1,
                    "inter_node": {"bandwidth": "50 Mbps", "latency": 0},
                }
            ],
            "training": {
                **{"global_batch": self.ranks, "seq_len": SEQ_LEN, "precision": "fp32"},
                **{"schedule": "1f1b", "zero": 1},
            },
            "pin": {
                "stages": 1,
                "microbatches": 1,
                "clusters": {"hall": {**strategy, "ep": self.ranks, "etp": 1}},
            },
        }


CASES = {
    "2 nodes": Case(nodes=2, each=1),
    "4 nodes": Case(nodes=4, each=1),
    "8 nodes": Case(nodes=8, each=1),
    "2 nodes of 2": Case(nodes=2, each=2),
    "4 nodes of 2": Case(nodes=4, each=2),
    "2 nodes of 4": Case(nodes=2, each=4),
    "one node of 4": Case(nodes=1, each=4, inside="50 Mbps"),
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Seconds of a dispatch and a combination."""

    measured_s: float
    modelled_s: float

    @property
    def ratio(self) -> float:
        """Measured over modelled."""
        return self.measured_s / self.modelled_s


def outcome(case: Case, folder: Path, repeat: int) -> Outcome:
    """Plan and export a case, and time its all-to-alls over slowed links."""
    (folder / "problem.json").write_text(json.dumps(case.problem()), "utf-8")
    problem = hetopt.read_problem(str(folder / "problem.json"))
    found = hetopt.plan(problem, objective="closed", jobs=1).best
    assert found is not None, "a case without a plan"
    job = Job.of(problem, found.plan)
    out = folder / "out"
    write_folder(str(out), bundle(job, LAUNCHER, allow_lossy=False))
    shutil.copy(WORKER, out / "train.py")
    (cluster,) = problem.clusters
    network = cluster.nics_per_node * cluster.inter_node.bandwidth_bytes_per_s
    inside = case.each * intra_node_bandwidth(cluster) * ALL_TO_ALL_SHARE
    with switched(network * NETWORK_SHARE, inside, case.nodes) as names:
        move(out, names, CABLE)
        times = _run(out, repeat, folder / "times.json")
    return Outcome(measured_s=median(times), modelled_s=modelled_s(problem, case))


def modelled_s(problem: Problem, case: Case) -> float:
    """Return the latency table's seconds for a dispatch and a combination."""
    found = stage_communication(
        problem.model,
        problem.training,
        problem.clusters[0],
        LAYER_EXPERTS,
        Shape.of([(1, 1, 1, case.ranks, 1)]),
        np.array([case.ranks]),
        np.array([case.each]),
    )
    return float(found.dispatch_s.item())


def _run(folder: Path, repeat: int, times: Path) -> list[float]:
    """Start every node's script; return the seconds that the first rank wrote."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    running = [
        subprocess.Popen(
            [str(script), str(repeat), str(times)],
            env={**os.environ, "PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for script in sorted(folder.glob("nodes/*.sh"))
    ]
    printed = [each.communicate(timeout=300)[0] for each in running]
    if any(each.returncode for each in running):
        raise RuntimeError("".join(printed))
    found: list[float] = json.loads(times.read_text("utf-8"))
    return found


def main() -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--repeat", type=int, default=5, metavar="N")
    options = parser.parse_args()
    if not can_shape():
        parser.error("this takes root, ip and tc")
    print("| stage | ranks | modelled (s) | measured (s) | ratio |")
    print("|---|--:|--:|--:|--:|")
    holds = True
    for name in options.names or CASES:
        case = CASES[name]
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(case, Path(folder), options.repeat)
        holds &= abs(found.ratio - 1) <= BAR
        print(
            f"| {name} | {case.ranks} | {found.modelled_s:.4f} | "
            f"{found.measured_s:.4f} | {found.ratio:.3f} |",
            flush=True,
        )
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
