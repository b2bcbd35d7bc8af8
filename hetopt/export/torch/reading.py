"""Reads back the plan in the ``job.json`` of hetopt's training program."""

from __future__ import annotations

import math
from dataclasses import MISSING, fields, replace
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import read_json
from hetopt.base.words import counted, describe
from hetopt.errors import InputError, RecordError
from hetopt.export.pipeline import MOST_STAGES, PipelineReadBack, stages_of
from hetopt.export.shared.hosts import MOST_RANKS, rank_hosts, stage_places
from hetopt.problem.model.experts import Experts
from hetopt.problem.training.choices import (
    FOLDED,
    INTERLEAVED,
    RECOMPUTE,
    RESHARDING,
    SCHEDULE_CHOICES,
)
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hetopt.problem.training.choices import ScheduleName

#: Schedules that split backward passes.
SPLIT = tuple(name for name in SCHEDULE_CHOICES if rule_of(name).splits)

#: What ``job.json`` says of the job, where, and as which type.
_SAYS: dict[str, dict[str, type]] = {
    "model": {
        **dict.fromkeys(("hidden", "heads", "kv_heads", "ffn", "vocab"), int),
        "tied": bool,
    },
    "training": {"seq_len": int, "global_batch": int},
}
#: Type of a value -> what an error calls it.
_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    list: "a list",
}


def is_torch(folder: Path) -> bool:
    """Whether a folder has a ``job.json``."""
    return (folder / "job.json").is_file()


def read_torch(folder: Path) -> PipelineReadBack:
    """Read ``job.json``, and hosts from ``ranks.csv`` or a hostfile.

    Raises
    ------
    InputError
        As ``hetopt.export.launcher.Reader``.
    """
    path = folder / "job.json"
    job = _Job(path)
    microbatches = job.count("training", "microbatches")
    chunks = job.chunks(microbatches)
    zero_bubble = job.zero_bubble(chunks)
    stages = range(job.stages)
    degrees = [(job.of(n, "dp"), job.of(n, "cp"), job.of(n, "tp")) for n in stages]
    passes = microbatches * chunks
    warmups = [job.of(n, "warmup") for n in stages]
    if zero_bubble is None:
        warmups = [min(count, passes) for count in warmups]
    _check_warmups(warmups, str(path))
    for n in stages if chunks > 1 else stages[:-1]:
        job.choice(n, "resharding", RESHARDING)
    zeros = [job.choice(n, "zero", (0, 1)) for n in stages]
    alike = len(set(zeros)) == 1
    experts = _experts(job)
    says = _says(job, experts)
    read = stages_of(
        _places(folder, degrees),
        _layers(job, chunks, folded=zero_bubble in FOLDED),
        degrees,
        [job.choice(n, "recompute", RECOMPUTE) for n in stages],
    )
    schedule: ScheduleName = "gpipe" if min(warmups) == microbatches > 1 else "1f1b"
    if chunks > 1 or zero_bubble is not None:
        schedule = zero_bubble or INTERLEAVED
    meshes = [job.expert_degrees(n) if experts else (1, 1) for n in stages]
    return PipelineReadBack(
        microbatches=microbatches,
        schedule=schedule,
        chunks=chunks,
        stages=tuple(
            replace(
                stage,
                warmup=warmups[n],
                strategy=replace(
                    stage.strategy,
                    zero=None if alike else zeros[n],
                    ep=meshes[n][0],
                    etp=meshes[n][1],
                ),
            )
            for n, stage in enumerate(read)
        ),
        says={**says, "zero": zeros[0]} if alike else says,
    )


def _says(job: _Job, experts: Experts | None) -> dict[str, Any]:
    """Return what the job says of model and training."""
    says = {
        name: job.typed(kind, section, name)
        for section, kinds in _SAYS.items()
        for name, kind in kinds.items()
    } | {"experts": experts}
    if experts:
        # The program drops no token and waits for all-to-alls of all copies.
        says |= {"capacity": None, "node_dedup": False, "overlaps": False}
    return says


class _Job:
    """A ``job.json`` whose values are checked when they are read."""

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        self.content = read_json(path, "a job of hetopt's program")
        found = self.at("stages")
        if not isinstance(found, list) or not 1 <= len(found) <= MOST_STAGES:
            msg = f"expected a list of 1 to {MOST_STAGES} stages"
            raise self.wrong(msg, "stages")
        self.stages = len(found)

    def wrong(self, what: str, *keys: str | int) -> InputError:
        """Return the error that says ``what`` about a field."""
        return InputError(what, file=self.file, field=".".join(map(str, keys)))

    def at(self, *keys: str | int) -> Any:
        """Return the value under some keys; InputError if there is none."""
        content = self.content
        for depth, key in enumerate(keys):
            # A number is the index of a stage, which is there.
            if isinstance(key, str):
                self._check_mapping(content, *keys[:depth])
                if key not in content:
                    raise self.wrong("is missing", *keys[: depth + 1])
            content = content[key]
        return content

    def optional(self, section: str, name: str) -> Any:
        """Return a value of a section; None if it is missing or null."""
        content = self.at(section)
        self._check_mapping(content, section)
        return content.get(name)

    def _check_mapping(self, content: Any, *keys: str | int) -> None:
        if not isinstance(content, dict):
            raise self.wrong(f"is {describe(content)}, expected a mapping", *keys)

    def typed(self, kind: type, *keys: str | int) -> Any:
        """Return a value of a type; a whole number is a number, too."""
        value = self.at(*keys)
        if type(value) not in ((int, float) if kind is float else (kind,)):
            msg = f"is {describe(value)}, expected {_KINDS[kind]}"
            raise self.wrong(msg, *keys)
        return value

    def count(self, *keys: str | int, least: int = 1) -> int:
        """Return a whole number from ``least`` to ``MOST_RANKS``."""
        value = self.at(*keys)
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not least <= value <= MOST_RANKS
        ):
            msg = (
                f"is {describe(value)}, expected a whole number from {least} to "
                f"{MOST_RANKS}"
            )
            raise self.wrong(msg, *keys)
        return value

    def chunks(self, microbatches: int) -> int:
        """Return how many chunks of the model every stage holds."""
        chunks = self.count("training", "chunks")
        if chunks > 1 and (self.stages == 1 or microbatches % self.stages):
            msg = (
                f"is {chunks}, which needs at least 2 stages, and micro-batches that "
                f"they divide, not {self.stages} and {microbatches}"
            )
            raise self.wrong(msg, "training", "chunks")
        return chunks

    def zero_bubble(self, chunks: int) -> ScheduleName | None:
        """Return the schedule that splits backward passes; None for any other."""
        # Jobs of hetopt 0.1 do not have the field.
        value = self.optional("training", "zero_bubble")
        if value is not None and value not in SPLIT:
            msg = f"is {describe(value)}, expected null or one of {', '.join(SPLIT)}"
            raise self.wrong(msg, "training", "zero_bubble")
        if value is not None and chunks > 1:
            raise self.wrong(
                f"is {chunks}, expected 1 with {value}", "training", "chunks"
            )
        found: ScheduleName | None = value
        return found

    def of(self, stage: int, name: str, least: int = 1) -> int:
        """Return a number of a stage."""
        return self.count("stages", stage, name, least=least)

    def expert_degrees(self, stage: int) -> tuple[int, int]:
        """Return ep and etp of a stage; InputError unless they divide its devices."""
        ep, etp = self.of(stage, "ep"), self.of(stage, "etp")
        devices = math.prod(self.of(stage, name) for name in ("dp", "cp", "tp"))
        if devices % (ep * etp):
            msg = (
                f"is {ep}: ep * etp = {ep} * {etp} does not divide dp * cp * tp = "
                f"{devices}"
            )
            raise self.wrong(msg, "stages", stage, "ep")
        return ep, etp

    def choice(self, stage: int, name: str, known: Sequence[Any]) -> Any:
        """Return one of the known values of a stage."""
        value = self.at("stages", stage, name)
        if isinstance(value, (bool, list, dict)) or value not in known:
            names = ", ".join(map(str, known))
            msg = f"is {describe(value)}, expected one of {names}"
            raise self.wrong(msg, "stages", stage, name)
        return value


def _layers(job: _Job, chunks: int, *, folded: bool) -> list[int | Fraction]:
    """Return the layers of every stage, of one chunk; thirds if stages cut layers.

    Parameters
    ----------
    folded
        Whether stages hold a second chunk, on the way back to the head.

    Raises
    ------
    InputError
        The stages do not hold all units in order, at least one of a layer each.
    """
    units, each = _pairs(job) if folded else _units(job, chunks), 1
    last = job.stages - 1
    # Before stages could cut layers, bundles counted whole layers in any case.
    if job.optional("model", "granularity") == "block":
        whole = job.of(last, "end") == units
        units, each = (units, 1) if whole else (units * 3 - 4, 3)
    end = 0
    found: list[int | Fraction] = []
    for n in range(job.stages):
        first = job.of(n, "first", least=0)
        if first != end:
            msg = f"is {first}, expected {end}, where the stage before ends"
            raise job.wrong(msg, "stages", n, "first")
        end = job.of(n, "end")
        held = end - first - (n == 0) - (n == last and not folded)
        if held < 1:
            msg = f"is {end}, which leaves no layer to stage {n}, expected at least one"
            raise job.wrong(msg, "stages", n, "end")
        found.append(Fraction(held, each) if held % each else held // each)
    if end != units:
        what = "half of all layers" if folded else "all layers and the head"
        msg = f"is {end}, expected {units}: the embedding, {what}"
        raise job.wrong(msg, "stages", last, "end")
    return found


def _experts(job: _Job) -> Experts | None:
    """Return the routed experts of the model; None if it has none.

    Raises
    ------
    InputError
        The field is malformed.
    """
    found = job.optional("model", "experts")
    if found is None:
        return None
    keys = ("model", "experts")
    for field in fields(Experts):
        kind = int if field.default is MISSING else type(field.default)
        job.typed(list if kind is tuple else kind, *keys, field.name)
    names = sorted(field.name for field in fields(Experts))
    for name in sorted(found.keys() - set(names)):
        msg = f"has {describe(name)}, expected only {', '.join(names)}"
        raise job.wrong(msg, *keys)
    layers = found["dense_layers"]
    if any(type(layer) is not int for layer in layers):
        raise job.wrong("is no list of whole numbers", *keys, "dense_layers")
    try:
        return Experts(**{**found, "dense_layers": tuple(layers)})
    except RecordError as error:
        raise job.wrong(error.said, *keys) from error


def _units(job: _Job, chunks: int) -> int:
    """Return how many units stages divide: embedding, a chunk's layers, head."""
    layers, rest = divmod(job.count("model", "layers"), chunks)
    if rest:
        total = layers * chunks + rest
        msg = (
            f"is {chunks}, expected a divisor of the model's {counted(total, 'layer')}"
        )
        raise job.wrong(msg, "training", "chunks")
    return layers + 2


def _pairs(job: _Job) -> int:
    """Return the units on the way down: the embedding and half of the layers."""
    layers, rest = divmod(job.count("model", "layers"), 2)
    if rest:
        msg = f"is {2 * layers + rest}, expected an even number to fold in two"
        raise job.wrong(msg, "model", "layers")
    return layers + 1


def _check_warmups(warmups: Sequence[int], file: str) -> None:
    """Raise InputError if a stage warms up longer than the stage before it."""
    for stage, (before, here) in enumerate(pairwise(warmups), start=1):
        if here > before:
            msg = (
                f"deadlocks: stage {stage} warms up with {here} forwards, stage "
                f"{stage - 1} before it with {before}"
            )
            raise InputError(msg, file=file, field=f"stages.{stage}.warmup")


def _places(folder: Path, degrees: Sequence[tuple[int, int, int]]) -> Any:
    """Return cluster and hosts of every stage.

    Raises
    ------
    InputError
        There are not as many ranks as the stages need.
    """
    devices = [dp * cp * tp for dp, cp, tp in degrees]
    ends = [0, *accumulate(devices)]
    if ends[-1] > MOST_RANKS:
        msg = f"has more than {MOST_RANKS} ranks"
        raise InputError(msg, file=str(folder / "job.json"), field="stages")
    places = rank_hosts(folder)
    if places is not None and len(places) != ends[-1]:
        msg = (
            f"names {counted(len(places), 'rank')}, expected {ends[-1]} as in job.json"
        )
        raise InputError(msg, file=str(folder))
    ranks = [range(*pair) for pair in pairwise(ends)]
    return stage_places(places, ranks, str(folder))
