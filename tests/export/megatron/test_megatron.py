"""What Megatron-LM is told is the plan, and can be read back."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.errors import CheckError, InputError
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.megatron.reading import read_megatron
from hetopt.export.planning.limits import fitted
from hetopt.export.registry import limits_of
from hetopt.problem.layout import layout_chunks
from hetopt.problem.training.choices import Recompute
from tests.export.jobs import draw_job, restaged
from tests.export.scripts import told


def changed(job: Job, **training: object) -> Job:
    """Return the job with other training settings."""
    other = replace(job.problem.training, **training)  # type: ignore[arg-type]
    return replace(job, problem=replace(job.problem, training=other))


def long_job() -> Job:
    """Draw an exact job of some stages and micro-batches."""
    seed = 0
    while True:
        job = draw_job(seed, alike=True, schedules=("1f1b",), recompute=("none",))
        if len(job.stages) > 2 and job.microbatches > 3:
            return job
        seed += 1


def write(job: Job, folder: Path) -> Path:
    write_folder(str(folder), bundle(job, MEGATRON, allow_lossy=False))
    return folder


@pytest.mark.parametrize("seed", range(60))
def test_exact_plans_are_read_back_as_they_were(seed: int, tmp_path: Path) -> None:
    job = draw_job(seed, alike=True, schedules=("1f1b",))
    assert not list(MEGATRON.losses(job))
    read_back = read_megatron(write(job, tmp_path / "out"))
    assert read_back.microbatches == job.microbatches
    assert tuple(stage.layers for stage in read_back.stages) == job.layers
    for number, (read, stage) in enumerate(
        zip(read_back.stages, job.stages, strict=True)
    ):
        assert read.strategy == stage.strategy
        assert read.cluster == stage.cluster
        ranks = [r for r in job.placement.ranks if r.stage == number]
        assert read.hosts == tuple(rank.host for rank in ranks)


@pytest.mark.parametrize("seed", range(60))
def test_any_plan_is_refused_or_keeps_the_runtimes_rules(
    seed: int, tmp_path: Path
) -> None:
    """As Megatron-LM's argument checks; a lossy bundle keeps them too."""
    job = draw_job(seed, alike=seed % 3 == 0)
    losses = list(MEGATRON.losses(job))
    if any(loss.instead is None for loss in losses):
        with pytest.raises(CheckError):
            bundle(job, MEGATRON, allow_lossy=True)
        return
    files = bundle(job, MEGATRON, allow_lossy=True)
    assert ("LOSSY.md" in files) == bool(losses)
    scripts = [text for name, text in files.items() if name.endswith(".sh")]
    assert len(scripts) == len(job.placement.nodes)
    arguments = [told(text) for text in scripts]
    world = sum(int(each["--nproc_per_node"]) for each in arguments)
    assert world == job.world_size
    first = arguments[0]
    tp, pp, cp = (
        int(first[f"--{name}-parallel-size"])
        for name in ("tensor-model", "pipeline-model", "context")
    )
    dp, rest = divmod(world, tp * pp * cp)
    assert rest == 0
    micro, batch = int(first["--micro-batch-size"]), int(first["--global-batch-size"])
    assert batch == micro * dp * job.microbatches
    chunks = layout_chunks(first["--pipeline-model-parallel-layout"])
    assert len(chunks) == pp
    assert "".join(chunks).count("t") == int(first["--num-layers"])
    assert ("--sequence-parallel" in first) == (tp > 1)
    assert ("--recompute-method" in first) == (
        first.get("--recompute-granularity") == "full"
    )
    # Ranks are Megatron-LM's: pipeline stages of dp * cp * tp consecutive ones.
    rows = files["ranks.csv"].splitlines()[1:]
    for number, row in enumerate(rows):
        assert [int(word) for word in row.split(",")[4:]] == [
            number // (dp * cp * tp),
            number // (cp * tp) % dp,
            number // tp % cp,
            number % tp,
        ]


@pytest.mark.parametrize("seed", range(20))
def test_layers_cut_in_two_are_lost(seed: int) -> None:
    job = draw_job(seed, alike=True, schedules=("1f1b",), granularity="block")
    if len(job.stages) == 1:
        pytest.skip("one stage cuts nothing")
    assert not list(MEGATRON.losses(job))
    last = job.stages[-1]
    cut = restaged(job, -1, first_unit=last.first_unit + 1)
    cut = restaged(cut, -2, end_unit=last.first_unit + 1)
    (loss,) = MEGATRON.losses(cut)
    assert "inside a layer" in loss.what
    script = bundle(cut, MEGATRON, allow_lossy=loss.instead is not None)
    layout = told(next(t for n, t in script.items() if n.endswith(".sh")))[
        "--pipeline-model-parallel-layout"
    ]
    assert "".join(layout_chunks(layout)).count("t") == job.problem.model.layers


def test_each_loss_is_named() -> None:
    job = long_job()
    stage = job.stages[0]
    strategy = stage.strategy

    def lost(other: Job) -> list[str]:
        return [loss.what for loss in MEGATRON.losses(other)]

    assert lost(job) == []
    other = replace(strategy, recompute="full")
    assert "recomputation" in lost(restaged(job, 0, strategy=other))[0]
    other = replace(strategy, dp=2 * strategy.dp)
    assert "(d, c, t)" in lost(restaged(job, 0, strategy=other))[0]
    assert "warm-up" in lost(restaged(job, 0, warmup=1))[0]
    assert "resharding" in lost(restaged(job, 0, resharding="leader"))[0]
    units = (strategy,) * stage.units
    assert "each layer" in lost(restaged(job, 0, unit_strategies=units))[0]
    assert "ZeRO 3" in lost(changed(job, zero=3))[0]
    assert "ZeRO with optimizer" in lost(changed(job, zero=1, optimizer="sgd"))[0]
    other = replace(strategy, zero=2)
    assert any("ZeRO stages" in what for what in lost(restaged(job, 0, strategy=other)))
    model = replace(job.problem.model, positions=100)
    problem = replace(job.problem, model=model)
    assert "positions" in lost(replace(job, problem=problem))[0]
    model = replace(job.problem.model, attention="bidirectional")
    problem = replace(job.problem, model=model)
    (loss,) = MEGATRON.losses(replace(job, problem=problem))
    assert loss.instead is None


@pytest.mark.parametrize("recompute", ["none", "selective", "full"])
def test_flags_follow_the_problem(recompute: Recompute) -> None:
    job = draw_job(5, alike=True, schedules=("1f1b",), recompute=(recompute,))
    for precision, zero in (("bf16", 1), ("fp16", 0), ("fp32", 1)):
        other = changed(
            job, precision=precision, zero=zero, overlap_gradients=bool(zero)
        )
        files = MEGATRON.files(other)
        first = told(next(t for n, t in files.items() if n.endswith(".sh")))
        assert [flag for flag in ("--bf16", "--fp16") if flag in first] == (
            [] if precision == "fp32" else [f"--{precision}"]
        )
        assert ("--use-distributed-optimizer" in first) == bool(zero)
        assert ("--overlap-grad-reduce" in first) == bool(zero)
        assert first.get("--recompute-granularity", "none") == recompute
        assert ("--untie-embeddings-and-output-weights" in first) != (
            job.problem.model.tied
        )


@pytest.mark.parametrize("seed", range(4))
def test_scripts_are_ones_that_bash_reads(seed: int, tmp_path: Path) -> None:
    folder = write(draw_job(seed, alike=True, schedules=("1f1b",)), tmp_path / "out")
    paths = [str(path) for path in folder.glob("nodes/*.sh")]
    for path in paths:
        subprocess.run(["bash", "-n", path], check=True)
    assert paths


HAND = """\
#!/bin/bash
# What I've always run. \\
GPUS=8
DIST=(
    --nproc_per_node $GPUS
    --nnodes ${NNODES:-4}   # all of them
)
SIZES="--num-layers 30 \\
  --recompute-activations"
PARALLEL=(--tensor-model-parallel-size 4 --pipeline-model-parallel-size=4)
PARALLEL+=("--pipeline-model-parallel-layout" 'Et*9|(t*7|)*2,t*7L')
torchrun ${DIST[@]} pretrain_gpt.py $SIZES \\
    ${PARALLEL[@]} --micro-batch-size 2 --global-batch-size 128 --bf16
"""


def hand_made(folder: Path, text: str) -> Path:
    (folder / "train.sh").write_text(text)
    return folder


def test_a_hand_made_script_is_read(tmp_path: Path) -> None:
    read_back = read_megatron(hand_made(tmp_path, HAND))
    assert [stage.layers for stage in read_back.stages] == [9, 7, 7, 7]
    assert read_back.microbatches == 32
    strategy = read_back.stages[0].strategy
    assert (strategy.dp, strategy.cp, strategy.tp) == (2, 1, 4)
    assert strategy.recompute == "selective"


def test_options_in_one_word_of_an_array_are_split(tmp_path: Path) -> None:
    text = HAND.replace(
        "--micro-batch-size 2 --global-batch-size 128", "${BATCH[@]}"
    ).replace(
        "GPUS=8\n",
        "GPUS=8\nexport BATCH=(\n"
        '  "--micro-batch-size 2"  # each\n'
        '  "--global-batch-size $((GPUS * 48 / 3))"\n)\n',
    )
    read_back = read_megatron(hand_made(tmp_path, text))
    assert read_back.microbatches == 32
    assert read_back.says["global_batch"] == 128


def test_layers_without_a_layout_are_even_but_at_the_ends(tmp_path: Path) -> None:
    text = HAND.replace("'Et*9|(t*7|)*2,t*7L'", "6").replace(
        "pipeline-model-parallel-layout", "decoder-last-pipeline-num-layers"
    )
    read_back = read_megatron(hand_made(tmp_path, text))
    assert [stage.layers for stage in read_back.stages] == [8, 8, 8, 6]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("layers 30", "layers 31", "has 30 layers, expected 31"),
        ("size=4", "size=3", "has 4 stages, expected a multiple of .*, 3"),
        ("Et*9|", "E|t*9|", "has 5 stages, expected a multiple of .*, 4"),
        ("Et*9|(t*7|)*2,t*7L", "Et*16||t*7|t*7L", "leaves stage 1 with nothing"),
        ("t*9|", "t*9|m|", "is not one embedding"),
        ("batch-size 128", "batch-size 127", "no multiple of micro-batch"),
        ("NNODES:-4", "NNODES:-3", "24 ranks, which is no multiple"),
        ("GPUS=8", "GPUS=eight", "is 'eight', expected a whole number"),
        ("--bf16", "--num-layers-per-virtual-pipeline-stage 2", "is given beside"),
        ("--bf16", "--virtual-pipeline-model-parallel-size 2", "is not the 1 on each"),
        ("--bf16", "--num-experts 9 --expert-model-parallel-size 3", "does not divide"),
        (
            "--bf16",
            "--recompute-modules mlp moe",
            "price one of core_attn, layernorm",
        ),
        ("--bf16", "--recompute-granularity full", "expected uniform or block"),
        ("--micro-batch-size 2", "", "micro-batch-size: is missing"),
        ("GPUS=8", "GPUS='8", "cannot be read as a shell script"),
        ("pretrain_gpt.py $SIZES", "ls", "30 layers"),
    ],
)
def test_wrong_scripts_are_refused_with_the_reason(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    text = HAND.replace(old, new)
    assert text != HAND
    if message == "30 layers":
        # --num-layers may be left out beside a layout: it says the same.
        assert len(read_megatron(hand_made(tmp_path, text)).stages) == 4
        return
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        read_megatron(hand_made(tmp_path, text))


def test_scripts_that_differ_are_refused(tmp_path: Path) -> None:
    folder = write(draw_job(11, alike=True, schedules=("1f1b",)), tmp_path / "out")
    (folder / "other.sh").write_text("x --num-layers 3 --micro-batch-size 1\n")
    with pytest.raises(InputError, match="expected the same in both"):
        read_megatron(folder)
    with pytest.raises(InputError, match="holds no script"):
        read_megatron(tmp_path)


def test_a_search_for_them_refuses_what_no_plan_can_help() -> None:
    problem = changed(long_job(), zero=1, optimizer="sgd").problem
    for name in ("megatron", "nemo"):
        with pytest.raises(InputError, match=r"launcher: .*optimizer sgd"):
            fitted(limits_of(name), problem)
    problem = changed(long_job(), zero=1).problem
    problem = replace(problem, model=replace(problem.model, positions=4096))
    fitted(limits_of("megatron"), problem)
    with pytest.raises(InputError, match=r"launcher: .*4096 positions"):
        fitted(limits_of("nemo"), problem)
