"""The folder of files that a job is launched from."""

from __future__ import annotations

import csv
import io
import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.words import counted, writable
from hetopt.errors import CheckError, InputError
from hetopt.export.launcher import Limits, Loss
from hetopt.export.placing import Rank, divided
from hetopt.export.readme import lossy, readme
from hetopt.export.shared.losses import (
    cut_losses,
    group_losses,
    offload_losses,
    part_losses,
)
from hetopt.problem.training.choices import RECOMPUTE
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.export.job import Job
    from hetopt.export.launcher import Launcher
    from hetopt.export.placing import Placement
    from hetopt.plans.plan import Plan

#: Flags that open a new file; on Windows, without changing line ends.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
#: Modes of files that all may read and write, and of files that they may also run.
_READ, _RUN = 0o666, 0o777


def bundle(job: Job, launcher: Launcher, *, allow_lossy: bool) -> dict[str, str]:
    """Return the files of a bundle by relative path.

    Raises
    ------
    CheckError
        The runtime cannot do what the plan says; one finding for each loss. A loss
        without a substitute is refused even if losses are allowed.
    InputError
        The plan has several pipelines, and the launcher runs one.
    """
    ensure_runs(launcher, job.plan)
    losses = losses_of(job, launcher)
    fatal = [loss for loss in losses if loss.instead is None]
    if fatal or (losses and not allow_lossy):
        told = fatal if allow_lossy else losses
        raise CheckError([f"{launcher.title} cannot do: {loss.what}" for loss in told])
    launched = (
        job.side_by_side([launcher.launched(part) for part in job.parts])
        if job.parts
        else launcher.launched(job)
    )
    files = {
        "README.md": readme(job, launcher, losses, launcher.commands(launched)),
        "ranks.csv": ranks_csv(launched.placement),
        "hostfile": hostfile(launched.placement),
        **launcher.files(launched),
    }
    if losses:
        files["LOSSY.md"] = lossy(launcher, losses)
    return files


def ensure_runs(
    launcher: Launcher, plan: Plan, field: str = "pipelines", file: str | None = None
) -> None:
    """Raise InputError if a plan has several pipelines and the launcher runs one.

    Parameters
    ----------
    field, file
        Where the pipelines stand.
    """
    if len(plan.pipelines) > 1 and launcher.side_by_side is None:
        msg = (
            f"has {counted(len(plan.pipelines), 'pipeline')}, but hetopt's files for "
            f"{launcher.title} run one: plan again with --pipelines 1"
        )
        raise InputError(msg, file=file, field=field)


def losses_of(job: Job, launcher: Launcher) -> tuple[Loss, ...]:
    """Return what a launcher cannot do of a job.

    A loss of some of several pipelines names its pipeline.
    """
    found = [
        (
            *_schedule_losses(part, launcher),
            *_limit_losses(part, launcher),
            *launcher.losses(part),
        )
        for part in job.pipelines
    ]
    shared = set(found[0]).intersection(*found)
    own = tuple(
        loss
        if loss in shared
        else replace(loss, what=f"pipeline {number}: {loss.what}")
        for number, losses in enumerate(found)
        for loss in losses
        if number == 0 or loss not in shared
    )
    own = (*own, *_host_losses(job, launcher))
    if not job.parts or launcher.side_by_side is None:
        return own
    return (*own, *launcher.side_by_side(job))


def _schedule_losses(job: Job, launcher: Launcher) -> Iterator[Loss]:
    """Yield a loss if the launcher lacks a blocking, split or interleaved schedule."""
    schedule = job.plan.schedule
    limits = launcher.limits
    if limits is None:
        # The user's program does what the plan says.
        return
    runs = launcher.schedules if isinstance(limits, str) else limits.schedules
    if rule_of(schedule).blocking and schedule not in runs:
        yield Loss(f"schedule {schedule}: it does not run blocking transfers")
    if rule_of(schedule).splits and schedule not in runs:
        yield Loss(f"schedule {schedule}: {launcher.no_split}")
    if rule_of(schedule).interleaved and schedule not in runs:
        yield Loss(
            f"schedule {schedule}: it has no virtual stages, and the plan has "
            f"{counted(job.plan.chunks, 'chunk')} on each; plan again under another "
            "schedule"
        )
    elif job.plan.cuts is not None:
        yield from cut_losses(limits)


def _limit_losses(job: Job, launcher: Launcher) -> Iterator[Loss]:
    """Yield what a launcher cannot train or offload by its limits."""
    limits, known = launcher.limits, launcher.recomputes
    copied = launcher.copies
    if isinstance(limits, Limits):
        known, copied = limits.recomputes, limits.copies
    if limits is not None:
        yield from group_losses(job, copied=copied)
    # What a launcher lacks of the usual ones is a loss of its own.
    used = {stage.strategy.recompute for stage in job.stages} - {*RECOMPUTE}
    if known is not None and not used <= {*known}:
        yield Loss(
            f"recomputation {', '.join(sorted(used))}: it knows {', '.join(known)} "
            "(plan again with one of these as training.recompute)"
        )
    if isinstance(limits, Limits):
        yield from part_losses(job.problem.model, limits.parts)
        yield from offload_losses(job.clusters, limits.no_offload(job.problem))


def _host_losses(job: Job, launcher: Launcher) -> Iterator[Loss]:
    """Yield a loss if ranks of a host do not follow each other, but have to."""
    if launcher.divides_hosts or not (hosts := divided(job.placement)):
        return
    msg = (
        f"ranks of {hosts[0]} that do not follow each other: hetopt's files start all "
        "ranks of a host at once (plan again without --relax and --pipelines)"
    )
    yield Loss(msg)


def ranks_csv(placement: Placement) -> str:
    """Return one line per rank: where it runs, and its coordinates from 0.

    If there are several pipelines, the last column is the pipeline.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    several = any(rank.pipeline for rank in placement.ranks)
    columns = len(Rank._fields) - (not several)
    writer.writerow(["global_rank", *Rank._fields[1:columns]])
    writer.writerows(rank[:columns] for rank in placement.ranks)
    return text.getvalue()


def hostfile(placement: Placement) -> str:
    """Return hosts in rank order with their slots, in DeepSpeed's format."""
    return "".join(f"{node.host} slots={node.slots}\n" for node in placement.nodes)


def ensure_free(folder: str) -> None:
    """Raise InputError unless a bundle can be written to ``folder``."""
    path = Path(folder)
    if path.is_dir():
        if any(path.iterdir()):
            msg = "is not empty: name another folder, or empty this one"
            raise InputError(msg, file=folder)
    elif path.exists():
        raise InputError("is a file, expected a folder's name", file=folder)
    elif not path.absolute().parent.is_dir():
        raise InputError("its folder does not exist", file=folder)


def write_folder(folder: str, files: Mapping[str, str]) -> None:
    """Write files under a temporary name, then rename that to ``folder``.

    Raises
    ------
    InputError
        The folder cannot be written; the temporary one is then removed.
    """
    ensure_free(folder)
    target = Path(folder).absolute()
    try:
        temporary = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
        try:
            for parent in {os.path.dirname(name) for name in files}:
                (temporary / parent).mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                mode = _RUN if name.endswith(".sh") else _READ
                content = writable(text).encode()
                _write_new(os.path.join(temporary, name), content, mode)
            temporary.chmod(0o755)
            temporary.replace(target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        reason = error.strerror or str(error)
        raise InputError(f"cannot be written: {reason}", file=folder) from error


def _write_new(path: str, content: bytes, mode: int) -> None:
    """Write a file that does not exist yet, with few system calls.

    A bundle may have a file for each of thousands of nodes.

    Parameters
    ----------
    mode
        The permission bits, of which the umask removes some.
    """
    handle = os.open(path, _NEW, mode)
    try:
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(handle, rest) :]
    finally:
        os.close(handle)
