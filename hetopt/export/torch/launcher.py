"""torch.distributed.pipelining: runs hetopt's own schedules, also on CPUs.

It is a library, so the bundle holds a program that uses it (``program``). All stages
have the same (dp, cp, tp); each recomputes what the plan says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.launcher import Launcher, Limits, Loss, Reader
from hetopt.export.shared.one_mesh import launched_with, one_mesh_losses
from hetopt.export.shared.schedule_csv import schedule_text
from hetopt.export.shared.scripts import mixed_note, script_name, torchrun_scripts
from hetopt.export.torch.job_file import job_text
from hetopt.export.torch.program import program_text
from hetopt.export.torch.reading import is_torch, read_torch
from hetopt.problem.training import SCHEDULE_CHOICES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.export.job import Job
    from hetopt.problem.problem import Problem


def launched(job: Job) -> Job:
    """Return the job with one mesh for all stages."""
    return launched_with(job, [stage.strategy.recompute for stage in job.stages])


def files(job: Job) -> Mapping[str, str]:
    """Return the program, the cut, the schedule, and one script per node."""
    return {
        "job.json": job_text(job),
        "schedule.csv": schedule_text(
            [stage.warmup for stage in job.stages], job.microbatches
        ),
        "train.py": program_text(),
        **torchrun_scripts(job, ["train.py"]),
    }


def commands(job: Job) -> str:
    """Say what the program is and how to start it."""
    first = script_name(job, job.placement.nodes[0])
    parts = [
        "`train.py` is a small transformer on made-up tokens that needs PyTorch "
        "alone (tested with 2.13): put your own model, data and optimizer in its "
        "place. `job.json` holds the mesh and which modules each stage has, "
        "`schedule.csv` the order of forward and backward passes. Embedding and "
        "output head are whole on every tensor-parallel rank. Copy this folder to "
        "every host and run on each its own script; ranks meet on the first host:",
        f"    ./{first}",
    ]
    return "\n\n".join(parts + mixed_note(job))


def losses(job: Job) -> Iterator[Loss]:
    """Yield what the program cannot do of a plan."""
    yield from one_mesh_losses(job)
    zero = max(job.zero_stages)
    if zero > 1:
        yield Loss(
            what=f"ZeRO {zero}: the program shards optimizer states alone",
            instead="ZeRO 1, which needs more memory",
        )
    yield from _problem_losses(job.problem)


def _problem_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what the program cannot do of a problem, whatever its plan."""
    model, training = problem.model, problem.training
    if training.precision == "fp16":
        yield Loss(
            what="fp16: the program does not scale its loss",
            instead="bf16",
        )
    if 0 < model.positions < training.seq_len:
        yield Loss(
            what=f"a table of {model.positions} positions for sequences of "
            f"{training.seq_len}: it must be as long as a sequence",
            instead=f"{training.seq_len} positions",
        )
    if not model.positions and model.head_dim % 2:
        yield Loss(
            what=f"heads of width {model.head_dim} with rotary embeddings: these "
            "turn pairs",
            instead=None,
        )


LAUNCHER = Launcher(
    name="torch",
    title="torch.distributed.pipelining",
    losses=losses,
    launched=launched,
    files=files,
    commands=commands,
    limits=Limits(
        schedules=SCHEDULE_CHOICES,
        shared=("dp", "cp", "tp"),
        zero=(0, 1),
        losses=_problem_losses,
    ),
    reader=Reader(looks_like=is_torch, read=read_torch),
)
