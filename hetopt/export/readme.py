"""The README and the list of losses in a bundle."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.export.placing import divided
from hetopt.export.shared.losses import listed
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.export.job import Job
    from hetopt.export.launcher import Launcher, Loss, Tested


def readme(job: Job, launcher: Launcher, losses: Sequence[Loss], commands: str) -> str:
    """Return the README: the folder's files, the plan as a table, how to launch it."""
    parts = [
        f"# {job.problem.model.name} on {_fleet(job)}, for {launcher.title}",
        f"Written by hetopt {__version__} from the plan of problem "
        f"`{job.problem.name}`: {_size(job)}, {counted(job.world_size, 'device')}, "
        f"schedule `{job.plan.schedule}`.",
        *_pipelines(job),
        "`ranks.csv` says where every rank runs and its coordinates; `hostfile` lists "
        "the hosts in rank order.",
    ]
    if hosts := divided(job.placement):
        parts.append(
            f"Ranks of {', '.join(hosts)} are in several groups, each with a line in "
            "`hostfile` and devices of its own: start all of them."
        )
    if losses:
        parts.append(
            "**These files differ from the plan**: `LOSSY.md` lists what is lost, and "
            "the iteration time that hetopt proved is not that of these files."
        )
    lacking = _lacking(job)
    if lacking:
        training = job.problem.training
        parts.append(
            f"**These accelerators have no {training.precision}: {listed(lacking)}.** "
            f"The files still request it: the plan counts its {training.emulate} rate, "
            "as the problem's `emulate` says. Check that your PyTorch supports it "
            "there."
        )
    if job.placement.invented:
        names = ", ".join(job.placement.invented)
        parts.append(
            f"**Hosts are placeholders** for {names}: the problem file names none. Put "
            "the real names into every file here, or list `hosts` of these "
            "clusters in the problem file and export again."
        )
    parts += ["## Launch", commands.strip()]
    if launcher.tested is not None:
        parts.append(_tested(launcher.title, launcher.tested))
    return "\n\n".join(parts) + "\n"


def _tested(title: str, tested: Tested) -> str:
    if tested.module is None:
        return (
            f"Written for {title} at {tested.what}; it has no version that scripts can "
            "check."
        )
    return (
        f"Tested with {title}, `{tested.module}` {tested.what}: the scripts stop if "
        "they find another version, unless `ANY_VERSION` is set in the environment."
    )


def _lacking(job: Job) -> list[str]:
    """Return the accelerators in use that lack the precision of the training."""
    stages = [stage for part in job.pipelines for stage in part.stages]
    used = (job.cluster_of(stage).accelerator for stage in stages)
    wanted = job.problem.training.precision
    return sorted({device.name for device in used if device.lacks(wanted)})


def lossy(launcher: Launcher, losses: Sequence[Loss]) -> str:
    """Return ``LOSSY.md``: what the plan asks for, and what the files do instead."""
    lines = [f"# What {launcher.title} cannot do of this plan", ""]
    lines += [f"- {loss.what}. Instead: {loss.instead}." for loss in losses]
    return "\n".join(lines) + "\n"


def _fleet(job: Job) -> str:
    """Return the clusters in pipeline order with the devices used of each."""
    return " and ".join(
        ", ".join(
            f"{sum(stage.strategy.devices for stage in stages)} x {cluster}"
            for cluster, stages in groupby(part.stages, key=lambda stage: stage.cluster)
        )
        for part in job.pipelines
    )


def _size(job: Job) -> str:
    """Say how many stages and micro-batches there are."""
    if job.parts:
        return f"{counted(len(job.parts), 'pipeline')} side by side"
    return (
        f"{counted(len(job.stages), 'pipeline stage')}, "
        f"{counted(job.microbatches, 'micro-batch', 'es')}"
    )


def _pipelines(job: Job) -> Iterator[str]:
    """Yield the table of every pipeline's stages; of several, each after its batch."""
    for number, part in enumerate(job.pipelines):
        if job.parts:
            batch = part.problem.training.global_batch
            yield (
                f"Pipeline {number}: {counted(batch, 'sequence')} an iteration in "
                f"{counted(part.microbatches, 'micro-batch', 'es')}."
            )
        yield _stages(part)


def _stages(job: Job) -> str:
    """Return the stages as a Markdown table, equal neighbours in one row."""
    head = ("stages", "cluster", "units", "dp", "cp", "tp", "recompute", "warm-up")
    rows = [head, ("---",) * len(head)]
    for first, end in job.runs:
        stages = job.stages[first:end]
        strategy = stages[0].strategy
        rows.append(
            (
                str(first) if end == first + 1 else f"{first}-{end - 1}",
                stages[0].cluster,
                listed(stage.units for stage in stages),
                str(strategy.dp),
                str(strategy.cp),
                str(strategy.tp),
                strategy.recompute,
                listed(stage.warmup for stage in stages),
            )
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
