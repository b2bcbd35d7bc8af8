"""Runs a bundle of hetopt's own program here, and reads what its ranks measured."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.reading import read_json
from hetopt.errors import InputError
from hetopt.export.torch.reading import read_torch
from hetopt.running.conditions import conditions_of
from hetopt.running.devices import ensure_torch, has_gpus
from hetopt.running.launching import launch, scripts_of
from hetopt.running.measured import measured_of
from hetopt.running.records import iterations_of, read_ranks
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from hetopt.export.pipeline import PipelineReadBack
    from hetopt.running.measured import Measured
    from hetopt.running.records import Iteration


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The measurements of a bundle's run: the summary, and each iteration."""

    measured: Measured
    iterations: tuple[Iteration, ...]

    @property
    def typical(self) -> Iteration:
        """The iteration with the (lower) median time."""
        found = sorted(self.iterations, key=lambda each: each.time_s)
        return found[(len(found) - 1) // 2]


def read_bundle(folder: Path) -> PipelineReadBack:
    """Return the stages of a bundle.

    Raises
    ------
    InputError
        The folder is no bundle of hetopt's own program.
    """
    scripts_of(folder)
    return read_torch(folder)


def run_bundle(
    folder: Path,
    *,
    iterations: int,
    units: str | None = None,
    data: str | None = None,
) -> Run:
    """Run a bundle's scripts, all on this machine.

    Parameters
    ----------
    folder
        A folder that `hetopt export --to torch` wrote.
    iterations
        Number of timed iterations, after one that is not timed.
    units, data
        FILE:FUNCTION of the user's own model and tokens, as the program takes them.

    Raises
    ------
    HetoptError
        A rank failed; all ranks have ended.
    InputError
        The folder is no such bundle, a file is missing, there is no PyTorch, or there
        are too few GPUs.
    """
    ensure_torch()
    read = read_bundle(folder)
    ranks = sum(stage.strategy.devices for stage in read.stages)
    content = read_json(folder / "job.json", "a job")
    digest = content.get("plan_digest")
    for name, value in (("plan_digest", digest), ("clusters", content.get("clusters"))):
        if not value:
            msg = "is missing: export the plan again"
            raise InputError(msg, file=str(folder / "job.json"), field=name)
    arguments = [f"--steps={1 + iterations}"]
    for option, given in (("--units", units), ("--data", data)):
        if given is not None:
            arguments.append(f"{option}={_absolute(given, option)}")
    if not has_gpus():
        arguments.append("--cpu")
    with tempfile.TemporaryDirectory(prefix="hetopt-run-") as kept:
        loads = launch(folder, [*arguments, f"--times={kept}"], Path(kept))
        wrote = read_ranks(Path(kept), ranks)
    folded, uneven = rule_of(read.schedule).folded, read.cuts is not None
    found = tuple(iterations_of(wrote, read.chunks, folded=folded))
    measured = measured_of(
        digest, wrote, found, units, read.chunks, folded=folded, uneven=uneven
    )
    return Run(
        measured=measured.under(conditions_of(wrote, loads)),
        iterations=found,
    )


def _absolute(name: str, option: str) -> str:
    """Return FILE:FUNCTION with an absolute path, since the program runs elsewhere."""
    path, _, function = name.rpartition(":")
    if not Path(path).is_file() or not function.isidentifier():
        msg = f"is {name!r}, expected FILE.py:FUNCTION, with a file that exists"
        raise InputError(msg, field=option)
    return f"{Path(path).absolute()}:{function}"
