"""TorchTitan's files become the plans that they were written for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.registry import reader
from hetopt.export.torchtitan.launcher import LAUNCHER as TORCHTITAN
from hetopt.problem.training import Precision
from tests.export.jobs import draw_job, untied

#: What every bundle loses, which importing says again.
DOCUMENTS = "attention across the documents of a sequence"


def exact_jobs() -> list[Job]:
    """Return jobs whose bundles lose nothing else."""
    found = []
    for seed in range(16):
        for zero in (0, 1, 3):
            drawn = draw_job(seed, alike=True, recompute=("none", "full"))
            job = untied(drawn, zero)
            if [loss.what for loss in TORCHTITAN.losses(job)] == [DOCUMENTS]:
                found.append(job)
    return found


def test_a_bundle_is_read_as_its_plan(tmp_path: Path) -> None:
    jobs = exact_jobs()
    assert len(jobs) > 20
    assert {len(job.stages) > 1 for job in jobs} == {True, False}
    assert any(job.stages[0].strategy.cp > 1 for job in jobs)
    for number, job in enumerate(jobs):
        out = tmp_path / str(number)
        write_folder(str(out), bundle(job, TORCHTITAN, allow_lossy=True))
        found = reader(out, None).read(out)
        assert [each.argument for each in found.reported] == ["model_spec"]
        imported = import_plan(found, job.problem)
        for given, meant in zip(imported.plan.pipeline.stages, job.stages, strict=True):
            assert replace(given, resharding=None) == replace(meant, resharding=None)
        assert imported.plan.pipeline.microbatches == job.microbatches


@pytest.mark.parametrize("precision", ["fp8", "fp32"])
def test_a_bundle_keeps_its_precision(precision: Precision, tmp_path: Path) -> None:
    job = exact_jobs()[0]
    training = replace(job.problem.training, precision=precision)
    job = replace(job, problem=replace(job.problem, training=training))
    out = tmp_path / "out"
    write_folder(str(out), bundle(job, TORCHTITAN, allow_lossy=True))
    found = reader(out, None).read(out)
    assert found.says["precision"] == precision
    assert [each.argument for each in found.reported] == ["model_spec"]
