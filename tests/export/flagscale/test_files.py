"""FlagScale bundles are the plan, and come back as it; what is lost is listed."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetopt.errors import CheckError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.flagscale.launcher import LAUNCHER
from hetopt.export.flagscale.reading import read_flagscale
from hetopt.export.job import Job
from hetopt.export.registry import readers, recognises
from hetopt.plans.plan import Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.cluster.links import ClusterLink, ClusterLinks
from hetopt.problem.problem import Problem
from hetopt.problem.training.choices import Recompute, Resharding
from tests.export.jobs import LINK, draw_job

NAMED: tuple[Recompute, ...] = ("none", "full")


def told(job: Job) -> list[str]:
    return [loss.what for loss in LAUNCHER.losses(job)]


def executed(plan: Plan) -> list[Stage]:
    """Leave out the table's resharding, and warm-ups beyond the micro-batches."""
    most = plan.pipeline.microbatches
    return [
        replace(stage, resharding=None, warmup=min(stage.warmup, most))
        for stage in plan.pipeline.stages
    ]


@pytest.mark.parametrize("seed", range(24))
def test_what_loses_nothing_comes_back_as_it_was(seed: int, tmp_path: Path) -> None:
    job = draw_job(
        seed,
        cp=False,
        recompute=NAMED if seed % 4 else ("selective",),
        schedules=("1f1b",),
        granularity="layer" if seed % 3 else "block",
    )
    lost = told(job)
    if job.problem.model.tied and lost:
        assert all("tied embeddings" in what for what in lost)
        return
    assert not lost
    write_folder(str(tmp_path / "out"), bundle(job, LAUNCHER, allow_lossy=False))
    assert recognises(readers()["flagscale"], tmp_path / "out")
    read_back = read_flagscale(tmp_path / "out")
    imported = import_plan(read_back, job.problem)
    assert imported.plan.schedule == job.plan.schedule
    assert imported.plan.pipeline.microbatches == job.microbatches
    assert executed(imported.plan) == executed(job.plan)
    hosts = [[r.host for r in job.placement.ranks if r.stage == n] for n in
             range(len(job.stages))]  # fmt: skip
    assert [list(stage.hosts) for stage in read_back.stages] == hosts


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_written_can_be_read(seed: int, tmp_path: Path) -> None:
    job = draw_job(seed)
    losses = list(LAUNCHER.losses(job))
    if any(loss.instead is None for loss in losses):
        with pytest.raises(CheckError):
            bundle(job, LAUNCHER, allow_lossy=True)
        return
    files = bundle(job, LAUNCHER, allow_lossy=True)
    assert ("LOSSY.md" in files) == bool(losses)
    write_folder(str(tmp_path / "out"), files)
    read_back = read_flagscale(tmp_path / "out")
    assert [stage.cluster for stage in read_back.stages] == [
        stage.cluster for stage in job.stages
    ]
    assert all(stage.strategy.cp == 1 for stage in read_back.stages)
    devices = [stage.strategy.devices for stage in read_back.stages]
    assert devices == [stage.strategy.devices for stage in job.stages]


def example(
    *strategies: Strategy,
    layers: tuple[int, ...] = (),
    clusters: tuple[int, ...] = (),
    nodes: int = 16,
    resharding: Resharding | None = "p2p",
    **training: Any,
) -> Job:
    """Return a job of two clusters, ``left`` and ``right``, of 8 devices a node."""
    drawn = next(
        job
        for job in map(draw_job, range(100))
        if len(job.problem.clusters) == 2 and not job.problem.model.tied
    )
    names = ("left", "right")
    settings: dict[str, Any] = {"global_batch": 32, "schedule": "1f1b", "zero": 1}
    settings |= training
    layers = layers or (2,) * len(strategies)
    clusters = clusters or tuple(range(len(strategies)))
    problem = replace(
        drawn.problem,
        clusters=tuple(
            replace(c, name=n, nodes=nodes, devices_per_node=8, max_tp=8, hosts=None)
            for c, n in zip(drawn.problem.clusters, names, strict=True)
        ),
        model=replace(drawn.problem.model, layers=sum(layers), kv_heads=8),
        training=replace(drawn.problem.training, **settings),
    )
    ends = [1 + sum(layers[: i + 1]) for i in range(len(layers))]
    ends[-1] += 1
    stages = tuple(
        Stage(
            cluster=names[clusters[i]],
            first_unit=ends[i - 1] if i else 0,
            end_unit=ends[i],
            strategy=strategy,
            warmup=len(layers) - i,
            resharding=resharding if i + 1 < len(layers) else None,
        )
        for i, strategy in enumerate(strategies)
    )
    pipeline = replace(drawn.plan.pipeline, microbatches=4, stages=stages)
    plan = replace(drawn.plan, schedule="1f1b", pipelines=(pipeline,))
    return Job.of(problem, plan)


def s(dp: int, tp: int, recompute: Recompute = "none", cp: int = 1) -> Strategy:
    return Strategy(dp=dp, cp=cp, tp=tp, recompute=recompute)


def changed(job: Job, **model: Any) -> Job:
    of = replace(job.problem, model=replace(job.problem.model, **model))
    return Job.of(of, job.plan)


def linked(job: Job, staged: str) -> Job:
    link = ClusterLink(
        latency_s=LINK.latency_s,
        connection_bytes_per_s=LINK.bandwidth_bytes_per_s,
        staged="host" if staged == "host" else "device",
    )
    return Job.of(replace(job.problem, links=ClusterLinks(default=link)), job.plan)


def test_files_say_the_plan() -> None:
    job = example(s(4, 2, "full"), s(4, 2, "full"), s(8, 1), clusters=(0, 0, 1))
    files = bundle(job, LAUNCHER, allow_lossy=False)
    train = yaml.safe_load(files["conf/train/plan.yaml"])
    system = train["system"]
    assert system["hetero"]["hetero_process_meshes"] == [2, 1, 1, 4, 2, 1, 1, 1, 8, 1]
    assert system["hetero"]["hetero_device_types"] == ["left", "right"]
    assert system["hetero"]["hetero_pipeline_layer_split"] == [2, 2, 2]
    assert system["pipeline_model_parallel_size"] == 3
    assert system["tensor_model_parallel_size"] == 2
    assert system["sequence_parallel"] is True
    assert train["model"]["micro_batch_size"] == 2
    assert system["recompute"]["recompute_granularity"] == "full"
    rows = system["recompute"]["recompute_granularity_per_stage_micro_batch"]
    assert rows == [[2, 4, 1], [1, 4, 0]]
    assert files["hostfile"].splitlines() == [
        "left-node-1 slots=8 type=left",
        "left-node-2 slots=8 type=left",
        "right-node-1 slots=8 type=right",
    ]
    experiment = yaml.safe_load(files["conf/experiment.yaml"])
    assert experiment["defaults"] == ["_self_", {"train": "plan"}]
    assert experiment["experiment"]["runner"]["nnodes"] == 3
    # A null would reach Megatron-LM as the text None.
    assert "null" not in files["conf/train/plan.yaml"] + files["conf/experiment.yaml"]


def test_recomputation_alike_on_all_stages_needs_no_rows() -> None:
    for policy, expected in (("full", "full"), ("selective", "selective"), ("none", 0)):
        strategy = s(4, 2, policy)  # type: ignore[arg-type]
        files = LAUNCHER.files(example(strategy, strategy))
        system = yaml.safe_load(files["conf/train/plan.yaml"])["system"]
        recompute = system.get("recompute", {})
        assert recompute.get("recompute_granularity", 0) == expected
        assert "recompute_granularity_per_stage_micro_batch" not in recompute


def test_partly_used_nodes_have_the_slots_that_are_used() -> None:
    job = example(s(2, 2), s(2, 1))
    hosts = LAUNCHER.files(job)["hostfile"].splitlines()
    assert hosts == ["left-node-1 slots=4 type=left", "right-node-1 slots=2 type=right"]


def test_meshes_of_a_cluster_share_a_type_only_as_neighbours(tmp_path: Path) -> None:
    neighbours = example(s(2, 2), s(2, 1), s(2, 1), clusters=(0, 0, 1))
    system = yaml.safe_load(LAUNCHER.files(neighbours)["conf/train/plan.yaml"])
    assert system["system"]["hetero"]["hetero_device_types"] == [
        "left",
        "left",
        "right",
    ]
    assert "left-node-1 slots=6 type=left" in LAUNCHER.files(neighbours)["hostfile"]
    again = example(s(2, 2), s(2, 1), s(2, 1), clusters=(0, 1, 0))
    assert not told(again)
    write_folder(str(tmp_path / "out"), bundle(again, LAUNCHER, allow_lossy=False))
    assert "type=left.2" in (tmp_path / "out/hostfile").read_text()
    # The rank map tells whose they are.
    read_back = read_flagscale(tmp_path / "out")
    assert [stage.cluster for stage in read_back.stages] == ["left", "right", "left"]
    relaxed = import_plan(read_back, again.problem).principles.relaxed
    assert relaxed == ("p3", "p4-falling-tp")


def test_host_staged_links_use_the_cpu() -> None:
    for staged in ("host", "device"):
        job = linked(example(s(4, 2), s(4, 2)), staged)
        system = yaml.safe_load(LAUNCHER.files(job)["conf/train/plan.yaml"])["system"]
        assert system["hetero"]["hetero_use_cpu_communication"] is (staged == "host")
        assert ("FlagCX" in LAUNCHER.commands(job)) is (staged == "host")


def test_names_with_spaces_become_labels(tmp_path: Path) -> None:
    job = example(s(4, 2), s(4, 2))
    clusters = tuple(
        replace(cluster, name=f"our {cluster.name}") for cluster in job.problem.clusters
    )
    stages = tuple(
        replace(stage, cluster=f"our {stage.cluster}") for stage in job.stages
    )
    problem: Problem = replace(job.problem, clusters=clusters)
    pipeline = replace(job.plan.pipeline, stages=stages)
    job = Job.of(problem, replace(job.plan, pipelines=(pipeline,)))
    files = bundle(job, LAUNCHER, allow_lossy=False)
    assert "our-left-node-1 slots=8 type=our-left\n" in files["hostfile"]
    write_folder(str(tmp_path / "out"), files)
    (tmp_path / "out/ranks.csv").unlink()
    imported = import_plan(read_flagscale(tmp_path / "out"), problem)
    assert executed(imported.plan) == executed(job.plan)


@pytest.mark.parametrize(
    ("job", "what", "instead"),
    [
        (example(s(2, 2, cp=2), s(4, 2)), "cp 2 on stage 0", "dp 4, cp 1, tp 2 there"),
        (
            example(s(8, 1, cp=2), s(8, 2), global_batch=32),
            "cp 2 on stage 0",
            "dp 8, cp 1, tp 2 there",
        ),
        (example(s(8, 4, cp=4), s(8, 2)), "cp 4 on stage 0", None),
        (
            example(s(4, 2, "selective"), s(4, 2, "full")),
            "selective recomputation on stage 0",
            "full recomputation on stage 0",
        ),
        (example(s(4, 2), s(4, 2), zero=2), "ZeRO stage 2", "ZeRO stage 1"),
        (
            example(s(4, 2), s(4, 2), optimizer="sgd"),
            "ZeRO with optimizer sgd",
            "ZeRO 0, which needs more memory",
        ),
        (
            example(s(4, 2), s(8, 1), resharding="leader"),
            "resharding by leader behind stage 0",
            "p2p there",
        ),
        (
            changed(example(s(4, 2), s(8, 1)), tied=True),
            "tied embeddings with tp",
            None,
        ),
        (
            changed(
                example(s(2, 1), s(8, 1), s(4, 1), clusters=(0, 0, 1)), norm="layer"
            ),
            None,
            None,
        ),
        (
            changed(example(s(4, 2), s(4, 2)), attention="bidirectional"),
            "no decoder-only model",
            None,
        ),
        (
            changed(example(s(4, 2), s(4, 2)), positions=256),
            "a table of 256 positions for sequences of 512",
            "512 positions",
        ),
        (example(s(4, 2), s(4, 2), seq_len=511), "tp 2 on stage 0", None),
    ],
)
def test_losses_are_listed(job: Job, what: str | None, instead: str | None) -> None:
    losses = list(LAUNCHER.losses(job))
    if what is None:
        assert not losses
        return
    assert [loss for loss in losses if loss.what.startswith(what) or what in loss.what]
    assert instead in [loss.instead for loss in losses]


def test_a_cut_layer_stays_with_its_attention() -> None:
    job = next(
        job
        for job in (draw_job(seed, granularity="block") for seed in range(100))
        if len(job.stages) > 1 and not job.problem.model.tied
    )
    first, second, *others = job.stages
    stages = (
        replace(first, end_unit=first.end_unit + 1),
        replace(second, first_unit=second.first_unit + 1),
        *others,
    )
    whole = job.layers
    pipeline = replace(job.plan.pipeline, stages=stages)
    cut = Job.of(job.problem, replace(job.plan, pipelines=(pipeline,)))
    assert whole is not None
    assert cut.layers is None
    expected = ", ".join(map(str, (whole[0] + 1, whole[1] - 1, *whole[2:])))
    instead = [loss.instead for loss in LAUNCHER.losses(cut)]
    if whole[1] == 1:
        assert None in instead
    else:
        assert (
            f"layers per stage {expected}, each cut one with its attention" in instead
        )


def test_equal_layouts_need_no_resharding() -> None:
    assert not told(example(s(4, 2), s(4, 2), resharding="leader"))


def test_tied_tables_of_ends_that_do_not_divide_are_not_sharded() -> None:
    job = changed(example(s(4, 1), s(6, 1), global_batch=48, zero=1), tied=True)
    (loss,) = LAUNCHER.losses(job)
    assert loss.instead == "states that are not sharded"
    system = yaml.safe_load(LAUNCHER.files(job)["conf/train/plan.yaml"])["system"]
    assert system["use_distributed_optimizer"] is False


def test_tied_tables_of_other_dp_are_reduced_shard_by_shard() -> None:
    job = changed(example(s(4, 2), s(8, 2), zero=1), tied=True)
    assert not told(job)
    train = yaml.safe_load(LAUNCHER.files(job)["conf/train/plan.yaml"])
    assert train["system"]["hetero"]["use_partial_reduce_for_shared_embedding"] is True
    assert train["data"]["tokenizer"]["make_vocab_size_divisible_by"] == 8


def test_warm_ups_matter_as_far_as_there_are_micro_batches() -> None:
    job = example(s(4, 2), s(4, 2))
    early = tuple(replace(stage, warmup=stage.warmup * 2) for stage in job.stages)
    pipeline = replace(job.plan.pipeline, stages=early)
    plan = replace(job.plan, schedule="eager-1f1b", pipelines=(pipeline,))
    (what,) = told(Job.of(job.problem, plan))
    assert what.startswith("schedule eager-1f1b with warm-ups 4, 2: 1F1B warms up")
    once = replace(pipeline, microbatches=1)
    assert not told(Job.of(job.problem, replace(plan, pipelines=(once,))))


@pytest.mark.parametrize("name", ["plain", "it's ours", "'"])
def test_the_script_is_valid_shell(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    script = folder / "launch.sh"
    script.write_text(LAUNCHER.files(example(s(4, 2), s(4, 2)))["launch.sh"])
    subprocess.run(["bash", "-n", str(script)], check=True)
    # Without FlagScale's folder it says so; with it, run.py gets absolute paths.
    home = tmp_path / "with space"
    home.mkdir()
    (home / "run.py").write_text("import sys; print('\\n'.join(sys.argv[1:]))")
    done = subprocess.run(
        ["bash", str(script)], capture_output=True, text=True, check=False, env={}
    )
    assert done.returncode != 0
    assert "FLAGSCALE" in done.stderr
    done = subprocess.run(
        ["bash", str(script), "run"],
        capture_output=True,
        text=True,
        check=True,
        env={"FLAGSCALE": str(home), "PATH": _path_with_python(tmp_path)},
    )
    # Between Hydra's quotes an apostrophe has a backslash before it.
    quoted = str(folder).replace("'", "\\'")
    assert done.stdout.splitlines() == [
        f"--config-path={folder}/conf",
        "--config-name=experiment",
        f"experiment.runner.hostfile='{quoted}/hostfile'",
        f"experiment.exp_dir='{quoted}/outputs'",
        "action=run",
    ]


def _path_with_python(folder: Path) -> str:
    import os
    import sys

    (folder / "bin").mkdir()
    (folder / "bin/python").symlink_to(sys.executable)
    return f"{folder / 'bin'}:{os.environ['PATH']}"
