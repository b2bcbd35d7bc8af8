"""torch.distributed.pipelining: runs hetopt's own schedules, also on CPUs.

It is a library, so the bundle holds a program that uses it (``program``). All stages
have the same (dp, cp, tp); each recomputes what the plan says.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from hetopt.export.launcher import Launcher, Limits, Loss, Reader
from hetopt.export.shared.architecture import architecture_losses, as_said
from hetopt.export.shared.kernels import UNFUSED_LOSS, choice_losses
from hetopt.export.shared.one_mesh import launched, one_mesh_losses
from hetopt.export.shared.schedule_csv import schedule_text
from hetopt.export.shared.scripts import mixed_note, script_name, torchrun_scripts
from hetopt.export.shared.torch_modules import module_names
from hetopt.export.torch.program import program_text
from hetopt.export.torch.reading import is_torch, read_torch
from hetopt.problem.training import SCHEDULE_CHOICES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.export.job import Job
    from hetopt.problem.problem import Problem


#: Fields of the model that ``job.json`` has.
_SIZES = (
    "layers",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "vocab",
    "gated",
    "tied",
    "norm",
    "positions",
)


def files(job: Job) -> Mapping[str, str]:
    """Return the program, the cut, the schedule, and one script per node."""
    return {
        "job.json": _job_json(job),
        "schedule.csv": schedule_text(
            [stage.warmup for stage in job.stages], job.microbatches
        ),
        "train.py": program_text(),
        **torchrun_scripts(job, ["train.py"]),
    }


def commands(job: Job) -> str:
    """Say what the program is and how to start it."""
    first = script_name(job, 0)
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
    gelu = None if model.gated else "gelu"
    yield from architecture_losses(model, as_said(model, (), activation=gelu))
    yield from choice_losses(training, (UNFUSED_LOSS,))
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


def _content(job: Job) -> dict[str, Any]:
    """Return the content of ``job.json``."""
    model, training, layers = job.problem.model, job.problem.training, job.layers
    strategy = job.stages[0].strategy
    assert layers is not None
    sizes = {name: getattr(model, name) for name in _SIZES}
    if model.positions:
        sizes["positions"] = max(model.positions, training.seq_len)
    return {
        "model": sizes,
        "training": {
            "global_batch": training.global_batch,
            "seq_len": training.seq_len,
            "microbatches": job.microbatches,
            "precision": "fp32" if training.precision == "fp32" else "bf16",
            "optimizer": training.optimizer,
            "zero": min(max(job.zero_stages), 1),
        },
        "mesh": {
            "pp": len(job.stages),
            "dp": strategy.dp,
            "cp": strategy.cp,
            "tp": strategy.tp,
        },
        "recompute": [stage.strategy.recompute for stage in job.stages],
        "modules": module_names(layers),
    }


def _job_json(job: Job) -> str:
    """Return ``job.json``, with one line of modules for each stage."""
    content = _content(job)
    modules = ",\n".join(f"    {json.dumps(part)}" for part in content.pop("modules"))
    head = json.dumps(content, indent=2).removesuffix("\n}")
    return f'{head},\n  "modules": [\n{modules}\n  ]\n}}\n'


LAUNCHER = Launcher(
    name="torch",
    title="torch.distributed.pipelining",
    losses=losses,
    launched=partial(launched, one_recompute=False),
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
