"""torch.distributed.pipelining: runs hetopt's own schedules, also on CPUs.

RUNTIMES.md, torch.distributed.pipelining. It is a library: the program that uses it,
``hetopt/export/torch_program.py``, comes along. All stages have the same (d, c, t);
what a stage recomputes is its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.export.alike import alike_losses, launched
from hetopt.export.bundle import ranks_csv
from hetopt.export.launcher import Loss
from hetopt.export.megatron import mixed_note
from hetopt.export.rank_hosts import rank_hosts, stage_places
from hetopt.export.schedule_csv import read_schedule, schedule_text
from hetopt.export.scripts import script_name, torchrun_scripts
from hetopt.export.sketch import Sketch, StageSketch
from hetopt.export.torch_job import job_text, stage_layers
from hetopt.plan import Strategy
from hetopt.problem.training import RECOMPUTE
from hetopt.reading import read_json
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from hetopt.export.job import Job
    from hetopt.problem.problem import Problem

_PROGRAM = Path(__file__).with_name("torch_program.py")

#: What ``job.json`` says of the job, and where.
_SAYS = {
    "model": ("hidden", "heads", "kv_heads", "ffn", "vocab", "tied"),
    "training": ("seq_len", "global_batch", "zero"),
}


class TorchPipelining:
    """Writes a small training program with the plan's schedule and cut."""

    name = "torch"
    title = "torch.distributed.pipelining"

    def losses(self, job: Job) -> Iterable[Loss]:
        """Yield what of the plan the program cannot do."""
        return _losses(job)

    def files(self, job: Job) -> Mapping[str, str]:
        """Return the program, the cut, the schedule, and one script per node."""
        job = launched(job, one_recompute=False)
        return {
            "ranks.csv": ranks_csv(job.placement),
            "job.json": job_text(job),
            "schedule.csv": schedule_text(
                [stage.warmup for stage in job.stages], job.microbatches
            ),
            "train.py": _PROGRAM.read_text("utf-8"),
            **torchrun_scripts(job, ["train.py"]),
        }

    def commands(self, job: Job) -> str:
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

    def recognises(self, folder: Path) -> bool:
        """Whether there are a schedule and modules."""
        return all((folder / name).is_file() for name in ("schedule.csv", "job.json"))

    def read(self, folder: Path) -> Sketch:
        """Read ``schedule.csv`` and ``job.json``; hosts from ``ranks.csv``."""
        microbatches, warmups = read_schedule(folder / "schedule.csv")
        path = folder / "job.json"
        content = read_json(path, "a job of hetopt's program")
        layers = stage_layers(
            _at(content, "modules", path=path),
            _count(content, "model", "layers", path=path),
            str(path),
        )
        degrees = {
            name: _count(content, "mesh", name, path=path)
            for name in ("pp", "dp", "cp", "tp")
        }
        for what, found in (
            ("schedule.csv", len(warmups)),
            ("modules", len(layers)),
        ):
            if found != degrees["pp"]:
                msg = f"is {degrees['pp']}, but {what} has {found} stages"
                raise InputError(msg, file=str(path), field="mesh.pp")
        stated = _count(content, "training", "microbatches", path=path)
        if stated != microbatches:
            msg = f"is {stated}, but schedule.csv has {microbatches}"
            raise InputError(msg, file=str(path), field="training.microbatches")
        recompute = _at(content, "recompute", path=path)
        if (
            not isinstance(recompute, list)
            or len(recompute) != len(layers)
            or any(policy not in RECOMPUTE for policy in recompute)
        ):
            msg = f"expected one of {', '.join(RECOMPUTE)} for each stage"
            raise InputError(msg, file=str(path), field="recompute")
        each = degrees["dp"] * degrees["cp"] * degrees["tp"]
        places = stage_places(rank_hosts(folder), len(layers), each, str(folder))
        return Sketch(
            microbatches=microbatches,
            schedule="gpipe" if min(warmups) == microbatches > 1 else "1f1b",
            stages=tuple(
                StageSketch(
                    cluster=cluster,
                    hosts=hosts,
                    layers=layers[number],
                    strategy=Strategy(
                        dp=degrees["dp"],
                        cp=degrees["cp"],
                        tp=degrees["tp"],
                        recompute=recompute[number],
                    ),
                    warmup=warmups[number],
                )
                for number, (cluster, hosts) in enumerate(places)
            ),
            says={
                name: _at(content, section, name, path=path)
                for section, names in _SAYS.items()
                for name in names
            },
        )


def _losses(job: Job) -> Iterator[Loss]:
    yield from alike_losses(job)
    zero = max(job.zero_stages)
    if zero > 1:
        yield Loss(
            what=f"ZeRO {zero}: the program shards optimizer states alone",
            instead="ZeRO 1, which needs more memory",
        )
    yield from problem_losses(job.problem)


def problem_losses(problem: Problem) -> Iterator[Loss]:
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


def _at(content: Any, *keys: str, path: Path) -> Any:
    """Return what stands under some keys; InputError if nothing does."""
    for key in keys:
        if not isinstance(content, dict) or key not in content:
            raise InputError("is missing", file=str(path), field=".".join(keys))
        content = content[key]
    return content


def _count(content: Any, *keys: str, path: Path) -> int:
    """Return a whole number of at least 1."""
    value = _at(content, *keys, path=path)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"is {describe(value)}, expected a whole number of at least 1"
        raise InputError(msg, file=str(path), field=".".join(keys))
    return value


LAUNCHER = TorchPipelining()
