"""Schedules, cuts and degrees for PyTorch are the plan's, and can be read back."""

import json
import subprocess
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.errors import CheckError, InputError
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.planning.limits import fitted
from hetopt.export.registry import limits_of, readers, recognises
from hetopt.export.shared.schedule_csv import read_schedule, schedule_text
from hetopt.export.torch.launcher import LAUNCHER as TORCH
from hetopt.export.torch.reading import read_torch
from hetopt.export.torchtitan.launcher import LAUNCHER as TORCHTITAN
from hetopt.schedule.simulator import simulate
from hetopt.schedule.times import PipelineTimes
from tests.export.jobs import draw_job


def exact(seed: int, **settings: Any) -> Job:
    return draw_job(seed, alike=True, **settings)


def of_llama(job: Job, zero: int = 1) -> Job:
    """Return the job with a model that TorchTitan has."""
    model = replace(job.problem.model, tied=False)
    training = replace(job.problem.training, zero=zero)
    return replace(job, problem=replace(job.problem, model=model, training=training))


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


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 8))
def test_rows_are_in_the_order_in_which_the_simulator_runs(
    counts: list[int], q: int
) -> None:
    warmups = tuple(sorted(counts, reverse=True))
    times = PipelineTimes(
        schedule="auto",
        microbatches=q,
        warmups=warmups,
        forward_ns=(3,) * len(warmups),
        backward_ns=(5,) * len(warmups),
        transfer_ns=(1,) * (len(warmups) - 1),
        occupancy_ns=(0,) * (len(warmups) - 1),
        sync_ns=(0,) * len(warmups),
    )
    run = simulate(times)
    for stage, row in enumerate(schedule_text(warmups, q).splitlines()):
        starts = {f"{stage}F{n}": run.forward_start_ns[stage, n] for n in range(q)}
        starts |= {f"{stage}B{n}": run.backward_start_ns[stage, n] for n in range(q)}
        assert row.split(",") == sorted(starts, key=lambda cell: starts[cell])


def test_known_schedule() -> None:
    assert schedule_text((3, 1), 2) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no passes"),
        ("0F0,0B0\n1F0,1B0,1F1,1B1\n", "cell 3 of row 1 is out of order"),
        ("0F0,0B1,0F1,0B0\n", "cell 2 of row 0"),
        ("0F0,0I0,0W0\n", "'0I0' in row 0"),
        ("0F0,1F0,1B0,0B0\n", "'1F0' in row 0"),
        ("0F0,0F1,0B0,0B1\n1F0,1F1\n", "row 1 is out of order, expected 1B0"),
        ("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", "deadlocks: stage 1"),
    ],
)
def test_other_schedules_are_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "schedule.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_schedule(path)


def test_idle_cells_change_nothing(tmp_path: Path) -> None:
    path = tmp_path / "schedule.csv"
    path.write_text("0F0,0F1,,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n")
    assert read_schedule(path) == (2, (2, 1))


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
    job = of_llama(exact(4, recompute=("none",)))

    def lost(launcher: Any, other: Job) -> list[str]:
        return [loss.what for loss in launcher.losses(other)]

    def of(**fields: Any) -> Job:
        model = replace(job.problem.model, **fields)
        return replace(job, problem=replace(job.problem, model=model))

    def under(**fields: Any) -> Job:
        training = replace(job.problem.training, **fields)
        return replace(job, problem=replace(job.problem, training=training))

    assert len(job.stages) > 1
    assert lost(TORCH, job) == lost(TORCHTITAN, job) == []
    assert "ZeRO 3" in lost(TORCH, under(zero=3))[0]
    assert "ZeRO 3" in lost(TORCHTITAN, under(zero=3))[0]
    assert "fp16" in lost(TORCH, under(precision="fp16"))[0]
    assert "fp16" in lost(TORCHTITAN, under(precision="fp16"))[0]
    assert "positions" in lost(TORCH, of(positions=7))[0]
    assert "pairs" in lost(TORCH, of(head_dim=7))[0]
    assert "optimizer sgd" in lost(TORCHTITAN, under(optimizer="sgd"))[0]
    assert "tied" in lost(TORCHTITAN, of(tied=True))[0]
    assert "SwiGLU" in lost(TORCHTITAN, of(gated=False))[0]
    assert "hidden size" in lost(TORCHTITAN, of(head_dim=32))[0]
    assert "learned" in lost(TORCHTITAN, of(positions=512))[0]
    assert "multiples of" in lost(TORCHTITAN, under(seq_len=1))[0]


@pytest.mark.parametrize("seed", range(12))
def test_torchtitans_model_is_the_plans(seed: int) -> None:
    """Its inner width is what TorchTitan's rule makes of the file's numbers."""
    job = of_llama(exact(seed, recompute=("none",), cp=False))
    files = bundle(job, TORCHTITAN, allow_lossy=True)
    given: dict[str, Any] = {}
    code = files["hetopt_flavor.py"].replace("from torchtitan", "# from torchtitan")

    class Spec:
        model_args = given

    names = {"get_train_spec": lambda _: Spec, "TransformerModelArgs": dict}
    exec(compile(code, "hetopt_flavor.py", "exec"), names)
    made, model = given["hetopt"], job.problem.model
    hidden = int(2 * (4 * made["dim"]) / 3)
    hidden = int(made["ffn_dim_multiplier"] * hidden)
    multiple = made["multiple_of"]
    assert multiple * ((hidden + multiple - 1) // multiple) == model.ffn
    assert (made["dim"], made["n_layers"]) == (model.hidden, model.layers)


@pytest.mark.parametrize("launcher", [TORCH, TORCHTITAN], ids=lambda each: each.name)
def test_scripts_are_ones_that_bash_reads(launcher: Any, tmp_path: Path) -> None:
    job = of_llama(exact(4, recompute=("none",)))
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
