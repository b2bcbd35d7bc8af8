"""Reads back the schedule and the cut of hetopt's training program."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.export.pipeline import PipelineReadBack, stages_of
from hetopt.export.shared.hosts import even_places, rank_hosts
from hetopt.export.shared.schedule_csv import read_schedule
from hetopt.export.shared.torch_modules import module_names
from hetopt.problem.training import RECOMPUTE
from hetopt.reading import read_json
from hetopt.words import describe

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.problem.training import Recompute

#: What ``job.json`` says of the job, and where.
_SAYS = {
    "model": ("hidden", "heads", "kv_heads", "ffn", "vocab", "tied"),
    "training": ("seq_len", "global_batch", "zero"),
}


def is_torch(folder: Path) -> bool:
    """Whether a folder has a schedule and a job."""
    return all((folder / name).is_file() for name in ("schedule.csv", "job.json"))


def read_torch(folder: Path) -> PipelineReadBack:
    """Read ``schedule.csv`` and ``job.json``; hosts from ``ranks.csv``.

    Raises
    ------
    InputError
        As ``hetopt.export.launcher.Reader``.
    """
    microbatches, warmups = read_schedule(folder / "schedule.csv")
    path = folder / "job.json"
    content = read_json(path, "a job of hetopt's program")
    layers = _stage_layers(
        _at(content, "modules", path=path),
        _count(content, "model", "layers", path=path),
        str(path),
    )
    pp, dp, cp, tp = (
        _count(content, "mesh", name, path=path) for name in ("pp", "dp", "cp", "tp")
    )
    for what, found in (("schedule.csv", len(warmups)), ("modules", len(layers))):
        if found != pp:
            msg = f"is {pp}, but {what} has {found} stages"
            raise InputError(msg, file=str(path), field="mesh.pp")
    stated = _count(content, "training", "microbatches", path=path)
    if stated != microbatches:
        msg = f"is {stated}, but schedule.csv has {microbatches}"
        raise InputError(msg, file=str(path), field="training.microbatches")
    recompute = _recompute(content, pp, path)
    places = even_places(rank_hosts(folder), pp, dp * cp * tp, str(folder))
    stages = stages_of(places, layers, [(dp, cp, tp)] * pp, recompute)
    return PipelineReadBack(
        microbatches=microbatches,
        schedule="gpipe" if min(warmups) == microbatches > 1 else "1f1b",
        stages=tuple(
            replace(stage, warmup=warmup)
            for stage, warmup in zip(stages, warmups, strict=True)
        ),
        says={
            name: _at(content, section, name, path=path)
            for section, names in _SAYS.items()
            for name in names
        },
    )


def _stage_layers(modules: Any, layers: int, file: str) -> tuple[int, ...]:
    """Return the layers of every stage from the names of its modules.

    Raises
    ------
    InputError
        The stages do not hold all of ``tok_embeddings``, ``layers.0`` and so on,
        ``norm``, ``output`` in this order, at least one layer each.
    """
    field = "modules"
    if not isinstance(modules, list) or not all(isinstance(m, list) for m in modules):
        raise InputError("is no list of lists of names", file=file, field=field)
    names = [name for part in modules for name in part]
    # There are at most as many layers as names, whatever the file says.
    expected = module_names([min(layers, len(names))])[0]
    for place, name in enumerate(expected):
        if names[place : place + 1] != [name]:
            found = describe(names[place]) if place < len(names) else "nothing"
            msg = f"has {found} where {name!r} is expected"
            raise InputError(msg, file=file, field=field)
    if len(names) > len(expected):
        msg = f"has {describe(names[len(expected)])} after all modules of the model"
        raise InputError(msg, file=file, field=field)
    counts = tuple(
        sum(1 for name in part if name.startswith("layers.")) for part in modules
    )
    if not all(counts):
        msg = f"stage {counts.index(0)} has no layer, expected at least one"
        raise InputError(msg, file=file, field=field)
    return counts


def _recompute(content: Any, stages: int, path: Path) -> list[Recompute]:
    """Return the policy of each stage."""
    recompute = _at(content, "recompute", path=path)
    if (
        not isinstance(recompute, list)
        or len(recompute) != stages
        or any(policy not in RECOMPUTE for policy in recompute)
    ):
        msg = f"expected one of {', '.join(RECOMPUTE)} for each stage"
        raise InputError(msg, file=str(path), field="recompute")
    return recompute


def _at(content: Any, *keys: str, path: Path) -> Any:
    """Return the value under some keys; InputError if there is none."""
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
