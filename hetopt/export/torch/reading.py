"""Reads back the plan in the ``job.json`` of hetopt's training program."""

from __future__ import annotations

from fractions import Fraction
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import named, read_json
from hetopt.base.words import counted
from hetopt.errors import InputError, RecordError
from hetopt.export.launcher import Reader
from hetopt.export.pipeline import PipelineReadBack, StageReadBack
from hetopt.export.shared.hosts import MOST_RANKS, rank_hosts, stage_places
from hetopt.export.torch.job_file import JobFile
from hetopt.plans.strategy import Strategy
from hetopt.problem.model.experts import Experts
from hetopt.problem.training.choices import FOLDED, INTERLEAVED, RESHARDING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hetopt.export.pipeline import StagePlace
    from hetopt.export.torch.job_file import JobModel, JobStage
    from hetopt.problem.training.choices import ScheduleName

#: What the job says of the model, by the field names of ``Model``.
_SAYS = ("hidden", "heads", "kv_heads", "ffn", "vocab", "tied")
#: What it says of model and training unless it was written before it could.
_MAY_SAY = {
    "model": ("head_dim", "gated", "norm", "norm_eps", "rotary_base"),
    "training": (
        *("precision", "optimizer", "gradients"),
        *("sequence_parallel", "overlap_gradients"),
    ),
}
_MICROBATCHES = "training.microbatches"


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
    data = read_json(path, "a job of hetopt's program")
    with named(str(path)):
        job = _read(data)
        experts = _experts(job.model)
        layers = _layers(job)
    training, chunks = job.training, job.training.chunks
    microbatches = training.microbatches
    assert microbatches is not None
    warmups = [each.warmup for each in job.stages]
    if training.zero_bubble is None:
        warmups = [min(count, microbatches * chunks) for count in warmups]
    zeros = [each.zero for each in job.stages]
    alike = len(set(zeros)) == 1
    schedule: ScheduleName = "gpipe" if min(warmups) == microbatches > 1 else "1f1b"
    if chunks > 1 or training.zero_bubble is not None:
        schedule = training.zero_bubble or INTERLEAVED
    says = _said(job, data, experts)
    places = _places(folder, job.stages)
    return PipelineReadBack(
        microbatches=microbatches,
        schedule=schedule,
        chunks=chunks,
        cuts=training.cuts,
        stages=tuple(
            StageReadBack(
                cluster=cluster,
                hosts=hosts,
                layers=held,
                warmup=warmup,
                strategy=Strategy(
                    dp=each.dp,
                    cp=each.cp,
                    tp=each.tp,
                    ep=each.ep if experts else 1,
                    etp=each.etp if experts else 1,
                    recompute=each.recompute,
                    zero=None if alike else each.zero,
                ),
            )
            for each, (cluster, hosts), held, warmup in zip(
                job.stages, places, layers, warmups, strict=True
            )
        ),
        says={**says, "zero": zeros[0]} if alike else says,
    )


def _said(job: JobFile, data: Any, experts: Experts | None) -> dict[str, Any]:
    """Return what the job says of model and training."""
    says = {name: getattr(job.model, name) for name in _SAYS} | {"experts": experts}
    says |= {name: getattr(job.training, name) for name in ("seq_len", "global_batch")}
    for part, names in _MAY_SAY.items():
        own = getattr(job, part)
        says |= {name: getattr(own, name) for name in names if name in data[part]}
    if experts:
        # The program drops no token and waits for all-to-alls of all copies.
        says |= {"capacity": None, "node_dedup": False, "overlaps": False}
        says["sent_by"] = "alltoall"
    return says


def _read(data: object) -> JobFile:
    """Return a job that the program can run; the error's field is its first fault."""
    job = JobFile.from_json(data)
    if job.pipelines:
        msg = f"are {len(job.pipelines)}, and plans of one pipeline alone are read back"
        raise InputError(msg, field="pipelines")
    stages, training, chunks = job.stages, job.training, job.training.chunks
    for value, field in ((stages, "stages"), (training.microbatches, _MICROBATCHES)):
        if not value:
            raise InputError("is missing", field=field)
    count, microbatches = len(stages), training.microbatches or 0
    if chunks > 1 and (count == 1 or microbatches % count):
        msg = (
            f"is {chunks}, which needs at least 2 stages, and micro-batches that they "
            f"divide, not {count} and {microbatches}"
        )
        raise InputError(msg, field="training.chunks")
    if training.zero_bubble is not None and chunks > 1:
        msg = f"is {chunks}, expected 1 with {training.zero_bubble}"
        raise InputError(msg, field="training.chunks")
    limit = None if training.zero_bubble else microbatches * chunks
    before = stages[0]
    for n, here in enumerate(stages):
        longest, own = (min(x.warmup, limit or x.warmup) for x in (before, here))
        if own > longest:
            msg = (
                f"deadlocks: stage {n} warms up with {own} forwards, stage {n - 1} "
                f"before it with {longest}"
            )
            raise InputError(msg, field=f"stages.{n}.warmup")
        if here.resharding is None and (chunks > 1 or n + 1 < count):
            msg = f"is empty, expected one of {', '.join(RESHARDING)}"
            raise InputError(msg, field=f"stages.{n}.resharding")
        devices = here.dp * here.cp * here.tp
        if job.model.experts is not None and devices % (here.ep * here.etp):
            msg = (
                f"is {here.ep}: ep * etp = {here.ep} * {here.etp} does not divide dp * "
                f"cp * tp = {devices}"
            )
            raise InputError(msg, field=f"stages.{n}.ep")
        before = here
    return job


def _layers(job: JobFile) -> Sequence[int | Fraction]:
    """Return the layers of every stage, of one chunk; thirds if stages cut layers.

    Where chunks differ, those of all chunks.

    Raises
    ------
    InputError
        The stages do not hold all units in order, at least one of a layer each.
    """
    if job.training.cuts is not None:
        return _uneven_layers(job, job.training.cuts)
    folded = job.training.zero_bubble in FOLDED
    units, each = _pairs(job) if folded else _units(job), 1
    last = len(job.stages) - 1
    # Before stages could cut layers, bundles counted whole layers in any case.
    if job.model.granularity == "block":
        whole = job.stages[last].end == units
        units, each = (units, 1) if whole else (units * 3 - 4, 3)
    end = 0
    found: list[int | Fraction] = []
    for n, stage in enumerate(job.stages):
        if stage.first != end:
            msg = f"is {stage.first}, expected {end}, where the stage before ends"
            raise InputError(msg, field=f"stages.{n}.first")
        end = stage.end
        held = end - stage.first - (n == 0) - (n == last and not folded)
        if held < 1:
            msg = f"is {end}, which leaves no layer to stage {n}, expected at least one"
            raise InputError(msg, field=f"stages.{n}.end")
        found.append(Fraction(held, each) if held % each else held // each)
    if end != units:
        what = "half of all layers" if folded else "all layers and the head"
        msg = f"is {end}, expected {units}: the embedding, {what}"
        raise InputError(msg, field=f"stages.{last}.end")
    return found


def _uneven_layers(job: JobFile, cuts: tuple[int, ...]) -> list[Fraction]:
    """Return the layers of all chunks of every stage.

    Raises
    ------
    InputError
        The chunks do not hold all units in order, or a stage holds none.
    """
    each = 3 if job.model.granularity == "block" else 1
    chunks, stages = job.training.chunks, len(job.stages)
    units = job.model.layers * each + 2
    sizes = [end - first for first, end in pairwise((0, *cuts))]
    held = [sum(sizes[n::stages]) for n in range(stages)]
    whole = len(cuts) == stages * chunks > stages and cuts[-1] == units
    if not whole or min(*sizes, sizes[0] - 1, sizes[-1] - 1) < 0 or not all(held):
        msg = (
            f"is {', '.join(map(str, cuts))}, expected the ends of {chunks} chunks for "
            f"each of {stages} stages, ascending to {units}: the embedding in the "
            "first, the head in the last, and at least one unit on every stage"
        )
        raise InputError(msg, field="training.cuts")
    held[0], held[-1] = held[0] - 1, held[-1] - 1
    return [Fraction(count, each) for count in held]


def _experts(model: JobModel) -> Experts | None:
    """Return the routed experts of the model; None if it has none."""
    if model.experts is None:
        return None
    try:
        return Experts(**model.experts)
    except RecordError as error:
        raise InputError(error.said, field="model.experts") from error


def _units(job: JobFile) -> int:
    """Return how many units stages divide: embedding, a chunk's layers, head."""
    chunks, total = job.training.chunks, job.model.layers
    if total % chunks:
        msg = (
            f"is {chunks}, expected a divisor of the model's {counted(total, 'layer')}"
        )
        raise InputError(msg, field="training.chunks")
    return total // chunks + 2


def _pairs(job: JobFile) -> int:
    """Return the units on the way down: the embedding and half of the layers."""
    if (total := job.model.layers) % 2:
        msg = f"is {total}, expected an even number to fold in two"
        raise InputError(msg, field="model.layers")
    return total // 2 + 1


def _places(folder: Path, stages: Sequence[JobStage]) -> list[StagePlace]:
    """Return cluster and hosts of every stage.

    Raises
    ------
    InputError
        There are not as many ranks as the stages need, or they are of other clusters.
    """
    ends = [0, *accumulate(each.dp * each.cp * each.tp for each in stages)]
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
    found = []
    for n, (stage, (cluster, hosts)) in enumerate(
        zip(stages, stage_places(places, ranks, str(folder)), strict=True)
    ):
        said = stage.cluster or cluster
        if cluster is not None and cluster != said:
            msg = f"is {said!r}, the hosts of its ranks are of {cluster!r}"
            file, field = str(folder / "job.json"), f"stages.{n}.cluster"
            raise InputError(msg, file=file, field=field)
        found.append((said, hosts))
    return found


READER = Reader(looks_like=is_torch, read=read_torch)
