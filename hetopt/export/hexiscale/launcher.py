"""HexiScale: pipelines side by side, each stage of a pipeline with a tp of its own.

See https://github.com/Relaxed-System-Lab/HexiScale. A plan whose stages all have dp
replicas is dp such pipelines, all alike: replica r of a stage is that stage of pipeline
r, and gets the same sequences of every micro-batch.

HexiScale numbers ranks pipeline by pipeline, and a rank finds its place in its pipeline
by that number. On a host, however, the replicas of a stage are neighbours. So every
rank is a process of its own that is told its number and sees one device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.hexiscale.files import files
from hetopt.export.hexiscale.losses import (
    fits,
    hexiscale_losses,
    launched,
    problem_losses,
)
from hetopt.export.hexiscale.reading import is_hexiscale, read_hexiscale
from hetopt.export.launcher import Launcher, Limits, Reader
from hetopt.export.shared.scripts import script_name

if TYPE_CHECKING:
    from hetopt.export.job import Job


def commands(job: Job) -> str:
    """Say where the folder goes and which arguments are the user's."""
    first = script_name(job, job.placement.nodes[0])
    return (
        "Copy this folder into a checkout of HexiScale on every host, so that the "
        "checkout's `llama_train.py` is in the folder above, and run on each host "
        "its own script; ranks meet on the first host. The scripts hold what the "
        "plan decides; learning rate, number of iterations and the like follow as "
        "arguments. A trial, on the first host:\n\n"
        f"    ./{first} --run-iter 10\n\n"
        "`ranks.csv` has HexiScale's ranks: all of the first pipeline, then all of "
        "the second. Where stages have different tp, every rank sends whole "
        "activations to its counterpart, more than the plan counts on."
    )


LAUNCHER = Launcher(
    name="hexiscale",
    title="HexiScale",
    losses=hexiscale_losses,
    launched=launched,
    files=files,
    commands=commands,
    limits=Limits(
        schedules=("gpipe",),
        shared=("dp",),
        context_parallel=False,
        recompute=(("none",), ("full",)),
        losses=problem_losses,
        fits=fits,
    ),
    reader=Reader(looks_like=is_hexiscale, read=read_hexiscale),
)
