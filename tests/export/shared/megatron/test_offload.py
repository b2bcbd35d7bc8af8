"""An offloaded optimizer in scripts and recipes, and in launchers that have none."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml

from hetopt.errors import CheckError, InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.planning.limits import fitted
from hetopt.export.registry import launcher, launcher_names, limits_of, reader
from hetopt.planning.plan import plan
from tests.export.jobs import as_llama, draw_job
from tests.export.scripts import told

if TYPE_CHECKING:
    from pathlib import Path


def offloading(job: Job, *names: str, **training: object) -> Job:
    """Return the job with some clusters, or all, that offload the optimizer."""
    clusters = tuple(
        replace(each, offload="optimizer") if each.name in names or not names else each
        for each in job.problem.clusters
    )
    return replace(
        job,
        problem=replace(
            job.problem,
            clusters=clusters,
            training=replace(job.problem.training, zero=1, **training),  # type: ignore[arg-type]
        ),
    )


def on_two_clusters() -> Job:
    """Draw a job that Megatron-LM and Megatron-Bridge run as it is."""
    seed = 0
    while True:
        job = as_llama(draw_job(seed, alike=True, schedules=("1f1b",)))
        if len({stage.cluster for stage in job.stages}) > 1:
            return job
        seed += 1


JOB = on_two_clusters()
USED = sorted({stage.cluster for stage in JOB.stages})


@pytest.mark.parametrize("name", ["megatron", "nemo"])
def test_what_all_stages_offload_is_told_and_read_back(
    name: str, tmp_path: Path
) -> None:
    job = offloading(JOB)
    files = bundle(job, launcher(name), allow_lossy=False)
    write_folder(str(tmp_path / "out"), files)
    found = reader(tmp_path / "out", name).read(tmp_path / "out")
    assert found.offload == "optimizer"
    assert not [each for each in found.reported if "offload" in each.argument]
    if name == "megatron":
        script = next(text for file, text in files.items() if file.endswith(".sh"))
        assert told(script)["--optimizer-offload-fraction"] == "1.0"
        assert "--use-precision-aware-optimizer" in script
    else:
        optimizer = yaml.safe_load(files["recipe.yaml"])["optimizer"]
        assert optimizer["optimizer_cpu_offload"] is True
        assert optimizer["optimizer_offload_fraction"] == 1.0
    assert import_plan(found, job.problem).plan.pipeline.microbatches
    with pytest.raises(InputError, match="say optimizer, the problem none"):
        import_plan(found, replace(JOB.problem, training=job.problem.training))
    none = replace(found, offload=None)
    with pytest.raises(InputError, match="say none, the problem optimizer"):
        import_plan(none, job.problem)


@pytest.mark.parametrize("name", ["megatron", "nemo"])
def test_what_some_stages_offload_is_a_loss(name: str) -> None:
    job = offloading(JOB, USED[0])
    with pytest.raises(CheckError, match=f"optimizer of {USED[0]}: it offloads all"):
        bundle(job, launcher(name), allow_lossy=False)
    files = bundle(job, launcher(name), allow_lossy=True)
    assert "optimizer states on the devices" in files["LOSSY.md"]
    assert not any("cpu" in text and "offload" in text for text in files.values())


@pytest.mark.parametrize("name", ["megatron", "nemo"])
def test_only_a_sharded_adam_is_offloaded(name: str) -> None:
    job = offloading(JOB, optimizer="sgd")
    with pytest.raises(CheckError, match="it offloads Adam with sharded states alone"):
        bundle(job, launcher(name), allow_lossy=False)


@pytest.mark.parametrize(
    "name", ["flagscale", "hetu", "hexiscale", "torch", "torchtitan"]
)
def test_others_keep_the_optimizer_on_the_devices(name: str) -> None:
    with pytest.raises(CheckError, match=r"offload: optimizer of .*: it keeps its"):
        bundle(offloading(JOB), launcher(name), allow_lossy=False)


@pytest.mark.parametrize("name", ["slurm", "torchrun"])
def test_programs_of_the_user_read_it_from_the_plan(name: str) -> None:
    assert bundle(offloading(JOB), launcher(name), allow_lossy=False)


def test_every_launcher_is_in_one_of_these() -> None:
    known = {"megatron", "nemo", "flagscale", "hetu", "hexiscale", "torch"}
    assert known | {"torchtitan", "slurm", "torchrun"} == set(launcher_names())


def test_plans_for_a_launcher_that_does_not_offload_are_refused() -> None:
    with pytest.raises(InputError, match="offload: optimizer of"):
        fitted(limits_of("torch"), offloading(JOB).problem)
    assert fitted(limits_of("megatron"), offloading(JOB).problem)


@pytest.mark.parametrize("name", ["megatron", "torch"])
def test_plans_keep_to_clusters_that_are_alike(name: str) -> None:
    """Either all of a plan's clusters offload, or none; some launchers never do."""
    given = offloading(JOB, USED[0]).problem
    best = plan(given, launcher=name, solver="dp", jobs=1).best
    assert best is not None
    used = {stage.cluster for stage in best.plan.pipeline.stages}
    assert used == {USED[0]} or USED[0] not in used
    assert name == "megatron" or USED[0] not in used
