"""Runs of 14 plans over links slowed to the plan's, against their simulations.

    python -m benchmarks.running [NAME ...] [--iterations N]

``hetopt plan`` makes the plans, and the bundle's own scripts start them. Messages
between stages are real and go through networks that ``benchmarks.shaping`` has slowed
down. Passes of stages are timed waits of the planned lengths, 50 ms or longer
(``benchmarks/waiting_units.py``), as 8 ranks on a few cores do not compute at the speed
of 8 devices; transfers are never replaced by waits. Needs root, ``ip``, ``tc`` and
PyTorch.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import hetopt
from benchmarks.shaping import can_shape, move, shaped
from hetopt.cost.communication.collectives import NETWORK_SHARE
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.torch.launcher import LAUNCHER
from hetopt.problem.training.choices import FREE
from hetopt.report.running import run_report
from hetopt.running.explaining import explain_run
from hetopt.running.run import run_bundle

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.running.explaining import Explained
    from hetopt.running.run import Run

#: Links between nodes.
RATE = "100 Mbps"
RATE_BYTES_PER_S = 100e6 / 8

UNITS = Path(__file__).with_name("waiting_units.py")


@dataclass(frozen=True, kw_only=True)
class Case:
    """The decisions to which a plan is pinned.

    Attributes
    ----------
    halls
        Stages and (d, c, t) of every cluster; a stage has a node of its own.
    each
        Sequences of a micro-batch.
    recompute
        Recomputation of every cluster.
    like
        The catalogue's device that each cluster's is like. Those of unlike vendors
        exchange through their hosts.
    units
        Units of every cluster's stages, which begin inside layers; empty: whole layers.
    """

    schedule: str
    halls: tuple[tuple[int, tuple[int, int, int]], ...]
    q: int = 4
    each: int = 2
    recompute: tuple[str, ...] = ()
    like: tuple[str, ...] = ()
    units: tuple[int, ...] = ()
    training: dict[str, Any] = field(default_factory=dict)

    def problem(self) -> dict[str, Any]:
        """Return a problem that permits only this plan."""
        clusters, pins = [], {}
        staged = "host" if len({*self.like}) > 1 else "device"
        for number, (stages, (dp, cp, tp)) in enumerate(self.halls):
            devices = dp * cp * tp
            name = f"hall{number}"
            # A layer then takes 60 ms, however many devices share it.
            peak = f"{15 * self.each / devices:g} GFLOPS"
            fast = {"bandwidth": "10 GB/s", "latency": "1 us"}
            like = {"like": self.like[number]} if self.like else {}
            clusters.append(
                {
                    "name": name,
                    "accelerator": {
                        "name": "slow",
                        **like,
                        "peak_flops": dict.fromkeys(("fp32", "tf32", "bf16"), peak),
                        "memory": "16 GB",
                        "memory_bandwidth": "100 GB/s",
                        "intra_node": fast,
                        "host_device": fast,
                    },
                    "nodes": stages,
                    "devices_per_node": devices,
                    "nics_per_node": 1,
                    "inter_node": {"bandwidth": RATE, "latency": 0},
                }
            )
            kept = self.recompute[number] if self.recompute else "none"
            degrees = {"dp": dp, "cp": cp, "tp": tp, "recompute": kept}
            pins[name] = {"stages": stages, **degrees}
            if self.units:
                pins[name]["units"] = self.units[number]
        return {
            "name": "running",
            "model": {
                **{"layers": self.stages + 1, "hidden": 256, "heads": 4},
                **{"ffn": 1024, "vocab": 512},
                "granularity": "block" if self.units else "layer",
            },
            "clusters": clusters,
            "links": {"default": {"bandwidth": RATE, "latency": 0, "staged": staged}},
            "training": {
                **{"global_batch": self.each * self.q, "seq_len": 256},
                **{"precision": "fp32", "schedule": self.schedule, "zero": 1},
                **self.training,
            },
            "pin": {
                "stages": self.stages,
                "microbatches": self.q,
                "order": [cluster["name"] for cluster in clusters],
                "clusters": pins,
            },
        }

    @property
    def stages(self) -> int:
        """Stages of the pipeline."""
        return sum(stages for stages, _ in self.halls)


ONE, PAIR, TWO = (1, 1, 1), (1, 1, 2), (2, 1, 1)

CASES = {
    "1f1b": Case(schedule="1f1b", halls=((1, ONE), (1, ONE)), q=6),
    "eager, recomputed": Case(
        schedule="eager-1f1b",
        halls=((1, ONE), (1, ONE), (1, ONE)),
        q=6,
        recompute=("full", "selective", "none"),
        training={"recompute": "auto", "zero": 0},
    ),
    "virtual, tensors to replicas": Case(
        schedule="virtual-1f1b", halls=((2, PAIR), (1, TWO))
    ),
    "h-1f1b, replicas to tensors": Case(
        schedule="h-1f1b", halls=((1, TWO), (1, ONE), (1, PAIR)), q=8
    ),
    "gpipe, split sequences": Case(
        schedule="gpipe", halls=((1, (1, 2, 1)), (1, PAIR)), q=5
    ),
    "free warm-ups": Case(schedule="free-1f1b", halls=((4, ONE),), q=6),
    "free warm-ups, unequal": Case(
        schedule="free-1f1b", halls=((1, PAIR), (1, TWO)), q=6, each=4
    ),
    "1f1b, 8 ranks": Case(schedule="1f1b", halls=((4, PAIR),)),
    "virtual, 8 ranks": Case(schedule="virtual-1f1b", halls=((2, PAIR), (2, TWO))),
    "eager, four replicas": Case(
        schedule="eager-1f1b", halls=((1, (4, 1, 1)), (1, (2, 1, 2))), each=4
    ),
    "1f1b, ZeRO 0": Case(
        schedule="1f1b",
        halls=((1, TWO), (1, ONE), (1, PAIR)),
        q=5,
        training={"zero": 0},
    ),
    "two vendors, as exp1 in small": Case(
        schedule="virtual-1f1b",
        halls=((1, TWO), (1, PAIR)),
        q=6,
        like=("Ascend-A2-64GB", "A100-80GB"),
        training={"recompute": "auto"},
    ),
    "h-1f1b, layers cut": Case(
        schedule="h-1f1b",
        halls=((1, TWO), (1, ONE), (1, PAIR)),
        q=8,
        units=(5, 4, 5),
    ),
    "gpipe, replicas": Case(
        schedule="gpipe", halls=((2, TWO),), recompute=("full",), each=4
    ),
}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A plan that ran, with its price and its measurements."""

    plan: Plan
    price: Price
    run: Run
    explained: Explained

    @property
    def ratio(self) -> float:
        """Measured over simulated."""
        return self.explained.measured_s / self.explained.predicted_s


def outcome(case: Case, folder: Path, iterations: int) -> Outcome:
    """Plan a case, export it, and run it over slowed links."""
    (folder / "problem.json").write_text(json.dumps(case.problem()), "utf-8")
    problem = hetopt.read_problem(str(folder / "problem.json"))
    table = hetopt.build_table(problem)
    aim: Literal["closed", "simulated"] = "closed"
    if case.schedule == FREE:
        aim = "simulated"
    found = hetopt.plan(problem, table=table, objective=aim, jobs=1).best
    assert found is not None, "a case without a plan"
    plan = found.plan
    price = hetopt.price(plan, table)
    if min(price.times.forward_ns) < 50e6:
        msg = f"a stage takes less than 50 ms: {price.times.forward_ns} ns"
        raise ValueError(msg)
    waits = [
        {"forward_s": forward / 1e9, "backward_s": backward / 1e9}
        for forward, backward in zip(
            price.times.forward_ns, price.times.backward_ns, strict=True
        )
    ]
    (folder / "waits.json").write_text(json.dumps(waits), "utf-8")
    units = shutil.copy(UNITS, folder)
    job = Job.of(problem, plan)
    write_folder(str(folder / "out"), bundle(job, LAUNCHER, allow_lossy=False))
    nodes = len(job.placement.nodes)
    rates = {(n, n + 1): _rate(job, n) for n in range(nodes - 1)}
    with shaped(rates, nodes) as names:
        move(folder / "out", names)
        run = run_bundle(
            folder / "out", iterations=iterations, units=f"{units}:build_unit"
        )
    explained = explain_run(price.times, run.measured)
    return Outcome(plan=plan, price=price, run=run, explained=explained)


def _rate(job: Job, node: int) -> float:
    """Return the planned bandwidth of the link from a node to the next, in bytes/s."""
    one, other = job.placement.nodes[node : node + 2]
    # Bandwidths between clusters are measured ones, those inside clusters are nominal.
    share = NETWORK_SHARE if one.cluster == other.cluster else 1.0
    return RATE_BYTES_PER_S * share


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--reports", action="store_true", help="each run's too")
    options = parser.parse_args()
    if not can_shape():
        parser.error("this takes root, ip and tc")
    print("Passes of stages are timed waits; messages between stages are real.")
    head = "simulated", "measured", "ratio", "passes", "sync", "boundaries", "rest"
    print(f"{'plan':30}{'ranks':>6}" + "".join(f"{name:>11}" for name in head))
    for name in options.names or CASES:
        with tempfile.TemporaryDirectory() as folder:
            found = outcome(CASES[name], Path(folder), options.iterations)
        explained, ranks = found.explained, found.plan.devices
        parts = "".join(f"{part:+11.4f}" for _, part in explained.parts_s)
        print(
            f"{name:30}{ranks:6}{explained.predicted_s:11.4f}"
            f"{explained.measured_s:11.4f}{found.ratio:11.4f}{parts}",
            flush=True,
        )
        if options.reports:
            from hetopt.report.drawing.console import draw

            report = run_report(found.plan, found.price, found.run.measured, explained)
            print(draw(report, sys.stdout), flush=True)


if __name__ == "__main__":
    main()
