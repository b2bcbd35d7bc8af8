"""Precisions below 16 bits, and overlap, in scripts and recipes and back."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hetopt.errors import CheckError, InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.registry import launcher, reader
from hetopt.problem.cluster.accelerator import PeakFlops
from tests.export.jobs import as_llama, draw_job

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.export.job import Job
    from hetopt.problem.training.choices import Precision


def job_in(precision: Precision, **training: object) -> Job:
    """Draw a job of several tensor ranks, and train it in a precision."""
    seed = 0
    while True:
        job = as_llama(draw_job(seed, alike=True, schedules=("1f1b",)))
        if job.stages[0].strategy.tp > 1:
            break
        seed += 1
    rates = PeakFlops(bf16=1e15, fp16=1e15, fp8=2e15, fp4=4e15)
    clusters = tuple(
        replace(each, accelerator=replace(each.accelerator, peak_flops=rates))
        for each in job.problem.clusters
    )
    settings = replace(
        job.problem.training,
        precision=precision,
        zero=1,
        **training,  # type: ignore[arg-type]
    )
    return replace(
        job, problem=replace(job.problem, clusters=clusters, training=settings)
    )


@pytest.mark.parametrize("name", ["megatron", "nemo"])
@pytest.mark.parametrize("precision", ["fp8", "mxfp8", "nvfp4"])
def test_precisions_are_written_and_read_back(
    name: str, precision: Precision, tmp_path: Path
) -> None:
    job = job_in(precision, overlap_tensor=True)
    write_folder(str(tmp_path / "out"), bundle(job, launcher(name), allow_lossy=False))
    found = reader(tmp_path / "out", name).read(tmp_path / "out")
    assert found.says["precision"] == precision
    assert found.says["overlap_tensor"] is True
    plain = job_in(precision)
    write_folder(
        str(tmp_path / "plain"), bundle(plain, launcher(name), allow_lossy=False)
    )
    without = reader(tmp_path / "plain", name).read(tmp_path / "plain")
    with pytest.raises(InputError, match="overlap_tensor"):
        import_plan(without, job.problem)
    told = ("fp8", "fp4", "precision", "tp_comm")
    assert not [x for x in found.reported if any(t in x.argument for t in told)]


@pytest.mark.parametrize("name", ["torchtitan", "hetu", "torch"])
def test_launchers_without_them_say_so(name: str) -> None:
    for job, choice in (
        (job_in("mxfp8"), "precision: mxfp8 or nvfp4"),
        (job_in("bf16", overlap_tensor=True), "overlap_tensor: true"),
    ):
        with pytest.raises(CheckError, match=choice):
            bundle(job, launcher(name), allow_lossy=False)
