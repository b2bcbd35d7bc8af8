"""Schedules, cuts and degrees for PyTorch are the plan's, and can be read back."""

import json
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetopt.errors import CheckError, InputError
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.planning.limits import fitted
from hetopt.export.registry import limits_of, readers, recognises
from hetopt.export.shared.schedule_csv import read_schedule
from hetopt.export.torch.launcher import LAUNCHER as TORCH
from hetopt.export.torch.reading import read_torch
from hetopt.export.torchtitan.launcher import LAUNCHER as TORCHTITAN
from tests.export.jobs import draw_job, untied


def exact(seed: int, **settings: Any) -> Job:
    return draw_job(seed, alike=True, **settings)


def write(job: Job, folder: Path) -> Path:
    write_folder(str(folder), bundle(job, TORCH, allow_lossy=False))
    return folder


@pytest.mark.parametrize("seed", range(60))
def test_exact_plans_are_read_back_as_they_were(seed: int, tmp_path: Path) -> None:
    job = exact(seed)
    assert not list(TORCH.losses(job))
    folder = write(job, tmp_path / "out")
    assert recognises(readers()["torch"], folder)
    read_back = read_torch(folder)
    assert read_back.microbatches == job.microbatches
    assert tuple(stage.layers for stage in read_back.stages) == job.layers
    for number, (read, stage) in enumerate(
        zip(read_back.stages, job.stages, strict=True)
    ):
        assert read.strategy == stage.strategy
        assert read.warmup == min(stage.warmup, job.microbatches)
        assert read.cluster == stage.cluster
        ranks = [rank for rank in job.placement.ranks if rank.stage == number]
        assert read.hosts == tuple(rank.host for rank in ranks)
    for name, value in read_back.says.items():
        training = job.problem.training
        of = training if hasattr(training, name) else job.problem.model
        assert getattr(of, name) == value


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("launcher", [TORCH, TORCHTITAN], ids=lambda each: each.name)
def test_any_plan_is_refused_or_keeps_the_runtimes_rules(
    launcher: Any, seed: int, tmp_path: Path
) -> None:
    job = draw_job(seed, alike=seed % 3 > 0)
    losses = list(launcher.losses(job))
    if any(loss.instead is None for loss in losses):
        with pytest.raises(CheckError):
            bundle(job, launcher, allow_lossy=True)
        return
    files = bundle(job, launcher, allow_lossy=True)
    assert ("LOSSY.md" in files) == bool(losses)
    names: list[list[str]] | None = None
    if launcher is TORCH:
        content = json.loads(files["job.json"])
        mesh, names = content["mesh"], content["modules"]
        ranks = mesh["pp"] * mesh["dp"] * mesh["cp"] * mesh["tp"]
    else:
        content = tomllib.loads(files["train.toml"])
        mesh = content["parallelism"]
        dp = mesh["data_parallel_replicate_degree"] * mesh["data_parallel_shard_degree"]
        ranks = (
            mesh["pipeline_parallel_degree"]
            * dp
            * mesh["context_parallel_degree"]
            * mesh["tensor_parallel_degree"]
        )
        local = content["training"]["local_batch_size"]
        steps, rest = divmod(content["training"]["global_batch_size"], local * dp)
        assert rest == 0
        names = mesh.get("module_fqns_per_model_part")
        assert (names is None) == (len(job.stages) == 1)
        if names is None:
            assert steps == job.microbatches
        else:
            assert steps == 1
            assert local == job.microbatches * mesh["pipeline_parallel_microbatch_size"]
    assert ranks == job.world_size
    if names is not None:
        (tmp_path / "schedule.csv").write_text(files["schedule.csv"])
        q, warmups = read_schedule(tmp_path / "schedule.csv")
        assert q == job.microbatches
        assert list(warmups) == [min(stage.warmup, q) for stage in job.stages]
        flat = [name for part in names for name in part]
        assert flat[0] == "tok_embeddings"
        assert flat[-2:] == ["norm", "output"]
        assert flat[1:-2] == [f"layers.{n}" for n in range(job.problem.model.layers)]


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("modules",), [["tok_embeddings", "layers.1"]], "'layers.1' where 'layers.0'"),
        (("modules",), "all", "no list"),
        (("mesh", "pp"), 77, r"mesh\.pp: is 77"),
        (("mesh", "tp"), 0, r"mesh\.tp: is 0"),
        (("training", "microbatches"), 99, "is 99, but schedule.csv"),
        (("recompute",), ["some"], "recompute: expected one of"),
        (("model",), {}, r"model\.layers: is missing"),
    ],
)
def test_wrong_jobs_are_refused_with_the_reason(
    keys: tuple[str, ...], value: object, message: str, tmp_path: Path
) -> None:
    folder = write(exact(4), tmp_path / "out")
    content = json.loads((folder / "job.json").read_text())
    place = content
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    (folder / "job.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=message):
        read_torch(folder)


def test_each_loss_is_named() -> None:
    job = untied(exact(4, recompute=("none",)))

    def lost(other: Job) -> list[str]:
        return [loss.what for loss in TORCH.losses(other)]

    def of(**fields: Any) -> Job:
        model = replace(job.problem.model, **fields)
        return replace(job, problem=replace(job.problem, model=model))

    def under(**fields: Any) -> Job:
        training = replace(job.problem.training, **fields)
        return replace(job, problem=replace(job.problem, training=training))

    assert len(job.stages) > 1
    assert lost(job) == []
    assert "ZeRO 3" in lost(under(zero=3))[0]
    assert "fp16" in lost(under(precision="fp16"))[0]
    assert "positions" in lost(of(positions=7))[0]
    assert "pairs" in lost(of(head_dim=7))[0]


@pytest.mark.parametrize("launcher", [TORCH, TORCHTITAN], ids=lambda each: each.name)
def test_scripts_are_ones_that_bash_reads(launcher: Any, tmp_path: Path) -> None:
    job = untied(exact(4, recompute=("none",)))
    write_folder(str(tmp_path / "out"), bundle(job, launcher, allow_lossy=False))
    for path in (tmp_path / "out/nodes").glob("*.sh"):
        subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.parametrize(
    ("training", "model", "message"),
    [({"precision": "fp16"}, {}, "fp16"), ({}, {"positions": 7}, "table of 7")],
)
def test_a_search_for_it_refuses_what_no_plan_can_help(
    training: dict[str, Any], model: dict[str, Any], message: str
) -> None:
    problem = exact(4).problem
    problem = replace(
        problem,
        training=replace(problem.training, **training),
        model=replace(problem.model, **model),
    )
    with pytest.raises(InputError, match=f"--for: the launcher cannot do: .*{message}"):
        fitted(limits_of("torch"), problem, None)
