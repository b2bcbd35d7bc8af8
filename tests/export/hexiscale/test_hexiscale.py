"""What HexiScale is told is the plan, and can be read back."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.errors import CheckError, InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.hexiscale.launcher import CONFIGS, LAUNCHER
from hetopt.export.hexiscale.reading import READER, read_hexiscale
from hetopt.export.job import Job
from hetopt.export.registry import reader
from hetopt.problem.training.choices import Recompute
from tests.export.jobs import as_llama, draw_job, restaged

#: Stands in for python3: writes down its rank, its device and the arguments.
PYTHON = (
    '#!/bin/bash\necho "$RANK $LOCAL_RANK $WORLD_SIZE '
    "${CUDA_VISIBLE_DEVICES:-$HIP_VISIBLE_DEVICES$ASCEND_RT_VISIBLE_DEVICES} "
    '$MASTER_ADDR $*" >>"$LOG"\n'
)


def with_dp(job: Job, dp: int) -> Job | None:
    """Return a job of the same stages with one dp; None where devices do not allow."""
    per_node = {c.name: c.devices_per_node for c in job.problem.clusters}
    stages = tuple(
        replace(
            stage,
            strategy=replace(
                stage.strategy, dp=dp, tp=max(1, per_node[stage.cluster] // dp // 2)
            ),
        )
        for stage in job.stages
    )
    pipeline = replace(job.plan.pipeline, stages=stages)
    batch = 2 * dp * job.microbatches
    training = replace(job.problem.training, global_batch=batch)
    problem = replace(job.problem, training=training)
    try:
        return Job.of(problem, replace(job.plan, pipelines=(pipeline,)))
    except InputError:
        return None


def exact(seed: int) -> Job:
    """Draw a job that loses nothing, tp differing between clusters of unlike nodes."""
    dp = (1, 2, 4)[seed % 3]
    recompute: Recompute = "full" if seed % 2 else "none"
    for again in range(100):
        drawn = draw_job(
            seed + 1000 * again, cp=False, recompute=(recompute,), schedules=("gpipe",)
        )
        job = with_dp(as_llama(drawn), dp)
        if job is not None:
            return job
    raise AssertionError(seed)


def write(job: Job, folder: Path) -> Path:
    write_folder(str(folder), bundle(job, LAUNCHER, allow_lossy=False))
    return folder


@pytest.mark.parametrize("seed", range(30))
def test_exact_plans_are_read_back_as_they_were(seed: int, tmp_path: Path) -> None:
    job = exact(seed)
    folder = write(job, tmp_path / "out")
    assert reader(folder, None) is READER
    read_back = read_hexiscale(folder)
    assert read_back.microbatches == job.microbatches
    for number, (read, stage) in enumerate(
        zip(read_back.stages, job.stages, strict=True)
    ):
        assert read.strategy == stage.strategy
        assert read.cluster == stage.cluster
        ranks = [r for r in job.placement.ranks if r.stage == number]
        assert read.hosts == tuple(rank.host for rank in ranks)
    zero = 2 if job.stages[0].strategy.dp > 1 else job.problem.training.zero
    assert read_back.says.get("zero", zero) == zero
    if seed < 8:
        imported = import_plan(read_back, job.problem)
        assert [
            replace(stage, resharding=None) for stage in imported.plan.pipeline.stages
        ] == [replace(stage, resharding=None) for stage in job.stages]


def test_degrees_differ_in_some_of_them() -> None:
    jobs = [exact(seed) for seed in range(30)]
    tps = [{stage.strategy.tp for stage in job.stages} for job in jobs]
    assert sum(len(tp) > 1 for tp in tps) > 3


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_scripts_start_every_rank_on_its_device(seed: int, tmp_path: Path) -> None:
    job = exact(seed)
    folder = write(job, tmp_path / "out")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(PYTHON)
    (tmp_path / "bin" / "python3").chmod(0o755)
    content = json.loads((folder / CONFIGS).read_text())
    where = {}
    for node in job.placement.nodes:
        (script,) = folder.glob(f"nodes/*-{node.host}.sh")
        log = tmp_path / "log"
        subprocess.run(
            [str(script), "--run-iter", "3"],
            env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "LOG": str(log)},
            check=True,
        )
        for line in log.read_text().splitlines():
            rank, local, world, device, master, *words = line.split()
            assert (local, int(world)) == ("0", job.world_size)
            assert master == job.placement.nodes[0].host
            assert words[0] == "llama_train.py"
            assert words[-2:] == ["--run-iter", "3"]
            assert Path(words[words.index("--all_hetero_configs_path") + 1]) == (
                folder / CONFIGS
            )
            where[int(rank)] = (node.host, int(device))
        log.unlink()
    # Rank numbers as HexiScale gives them out: pipeline, stage, tp.
    number = 0
    of_plan = {(r.dp, r.stage, r.tp): r for r in job.placement.ranks}
    for dp, pipeline in enumerate(content["hetero_configs"]):
        for stage, tp in enumerate(pipeline):
            for each in range(tp):
                planned = of_plan.pop((dp, stage, each))
                assert where[number] == (planned.host, planned.local_device)
                number += 1
    assert not of_plan
    assert all(
        sum(row) == job.problem.model.layers for row in content["layer_partitions"]
    )


@pytest.mark.parametrize("seed", range(40))
def test_any_plan_is_refused_or_keeps_the_runtimes_rules(
    seed: int, tmp_path: Path
) -> None:
    job = draw_job(seed, alike=seed % 2 == 0, cp=seed % 5 == 0)
    job = as_llama(job, zero=seed % 4, seq_len=4096 if seed % 3 else 2048)
    losses = list(LAUNCHER.losses(job))
    if any(loss.instead is None for loss in losses):
        with pytest.raises(CheckError):
            bundle(job, LAUNCHER, allow_lossy=True)
        return
    files = bundle(job, LAUNCHER, allow_lossy=True)
    assert ("LOSSY.md" in files) == bool(losses)
    content = json.loads(files[CONFIGS])
    degrees, layers = content["hetero_configs"], content["layer_partitions"]
    # The runtime's own checks of its arguments.
    assert sum(map(sum, degrees)) == job.world_size
    assert all(sum(row) == job.problem.model.layers for row in layers)
    assert [len(row) for row in degrees] == [len(row) for row in layers]
    assert all(job.problem.model.heads % tp == 0 for row in degrees for tp in row)
    write_folder(str(tmp_path / "out"), files)
    read_back = read_hexiscale(tmp_path / "out")
    assert [stage.strategy.devices for stage in read_back.stages] == [
        stage.strategy.devices for stage in job.stages
    ]


def test_each_loss_is_named() -> None:
    job = next(
        job
        for job in map(exact, range(1, 99, 3))
        if len(job.stages) > 2 and job.microbatches > 2
    )
    strategy = job.stages[0].strategy

    def lost(other: Job) -> list[tuple[str, str | None]]:
        return [(loss.what, loss.instead) for loss in LAUNCHER.losses(other)]

    def stage0(**fields: object) -> Job:
        return restaged(job, 0, strategy=replace(strategy, **fields))  # type: ignore[arg-type]

    assert lost(job) == []
    assert [(what[:3], instead) for what, instead in lost(stage0(dp=8))] == [
        ("dp ", None)
    ]
    assert ("cp 2", None) in [(what[:4], i) for what, i in lost(stage0(cp=2))]
    other = "none" if strategy.recompute == "full" else "full"
    ((what, instead),) = lost(stage0(recompute=other))
    assert "recomputation" in what
    assert instead == "full recomputation on all stages"
    ((what, instead),) = lost(restaged(job, 0, warmup=1))
    assert "GPipe" in what
    units = (strategy,) * job.stages[0].units
    assert "each layer" in lost(restaged(job, 0, unit_strategies=units))[0][0]
    ((what, instead),) = lost(as_llama(job, zero=1, global_batch=16 * job.microbatches))
    assert (what[:12], instead) == ("ZeRO stage 1", "ZeRO stage 2")
    assert lost(as_llama(with_dp(job, 1) or job, zero=1)) == []
    ((what, instead),) = lost(as_llama(job, seq_len=2048))
    assert instead == "4096 tokens"
    model = replace(job.problem.model, ffn=11009)
    ((what, instead),) = lost(replace(job, problem=replace(job.problem, model=model)))
    assert "llama-7b" in what
    assert instead is None
    wide = stage0(tp=2 * strategy.tp)
    assert lost(restaged(wide, 0, resharding="p2p")) == []
    assert "leader" in lost(restaged(wide, 0, resharding="leader"))[0][0]


HAND = """\
torchrun --nproc_per_node 6 llama_train.py --model_size llama-7b --fp16 \\
  --all_hetero_configs_path ./configs/f.json --total-layer-num 8 \\
  --global_bsz_size 4 4 --chunks 2 2 --checkpoint-layers
"""
CONTENT = {"hetero_configs": [[2, 1], [2, 1]], "layer_partitions": [[5, 3], [5, 3]]}


def hand_made(folder: Path, script: str = HAND, **content: object) -> Path:
    (folder / "run.sh").write_text(script)
    (folder / "f.json").write_text(json.dumps(CONTENT | content))
    return folder


def test_scripts_that_differ_are_refused(tmp_path: Path) -> None:
    hand_made(tmp_path)
    (tmp_path / "second.sh").write_text(HAND.replace("--chunks 2 2", "--chunks 2 1"))
    with pytest.raises(InputError, match="--chunks: differs"):
        read_hexiscale(tmp_path)


def test_hand_made_files_are_read(tmp_path: Path) -> None:
    read_back = read_hexiscale(hand_made(tmp_path))
    assert read_back.microbatches == 2
    assert read_back.says["global_batch"] == 8
    assert [(s.layers, s.strategy.dp, s.strategy.tp) for s in read_back.stages] == [
        (5, 2, 2),
        (3, 2, 1),
    ]
    assert {stage.strategy.recompute for stage in read_back.stages} == {"full"}


@pytest.mark.parametrize(
    ("edit", "content", "field"),
    [
        (("", ""), {"hetero_configs": [[2, 1], [1, 2]]}, "hetero_configs"),
        (("", ""), {"hetero_configs": [[2, 0], [2, 0]]}, "hetero_configs"),
        (("", ""), {"layer_partitions": [[5, 3]]}, "layer_partitions"),
        (("", ""), {"layer_partitions": [[8], [8]]}, "layer_partitions"),
        (("", ""), {"layer_partitions": [[4, 3], [4, 3]]}, "layer_partitions"),
        (("", ""), {"pp_layouts": [[[0, 1], [2]], [[3, 4], [5]]]}, "pp_layouts"),
        (("--chunks 2 2", "--chunks 2 4"), {}, "--chunks"),
        (("--chunks 2 2", "--chunks 2 2 2"), {}, "--chunks"),
        (("size 4 4", "size 5 5"), {}, "--global-bsz-size"),
        (("--fp16", "--pipeline-type 1F1B"), {}, "--pipeline-type"),
    ],
)
def test_what_it_refuses_names_the_field(
    edit: tuple[str, str], content: dict[str, object], field: str, tmp_path: Path
) -> None:
    folder = hand_made(tmp_path, HAND.replace(*edit), **content)
    with pytest.raises(InputError) as caught:
        read_hexiscale(folder)
    assert field in str(caught.value)
