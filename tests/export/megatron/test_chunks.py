"""Stages of several chunks: Megatron's virtual stages, as written and as read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import hetopt
from hetopt.cli import main
from hetopt.errors import CheckError, InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.back.warm_ups import scheduled
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.launcher import Limits
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.megatron.reading import read_megatron
from hetopt.export.nemo.launcher import LAUNCHER as NEMO
from hetopt.export.nemo.reading import read_nemo
from hetopt.export.registry import SHIPPED
from hetopt.export.registry import launcher as launcher_of
from hetopt.planning.plan import plan
from hetopt.problem.layout import layout_chunks
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import INTERLEAVED
from tests.export.jobs import restaged
from tests.export.scripts import told

TEXT = """\
model: {layers: 24, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000}
clusters:
  - {name: near, accelerator: H100, nodes: 1, devices_per_node: 4, inter_node:
      {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: far, accelerator: A100-80GB, nodes: 1, devices_per_node: 4, inter_node:
      {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 100 Gbps, latency: 5 us}}
training: {global_batch: 32, seq_len: 2048, recompute: none,
  schedule: interleaved-1f1b, chunks: 2}
pin: {stages: 4, clusters: {near: {dp: 1, tp: 2}, far: {dp: 1, tp: 2}}}
"""
LAYOUT = "--pipeline-model-parallel-layout"
BOTH = "--account-for-embedding-in-pipeline-split --account-for-loss-in-pipeline-split"
#: Launchers that run virtual stages, and what reads them back.
RUNS = {"megatron": (MEGATRON, read_megatron), "nemo": (NEMO, read_nemo)}


@pytest.fixture(scope="module")
def problem() -> Problem:
    return read_problem_text(TEXT)


@pytest.fixture(scope="module")
def job(problem: Problem) -> Job:
    best = plan(problem, solver="dp", jobs=1).best
    assert best is not None
    assert len(best.plan.pipeline.stages) == 4
    return Job.of(problem, best.plan)


@pytest.mark.parametrize("name", RUNS)
def test_plans_are_read_back_as_they_were(
    name: str, job: Job, problem: Problem, tmp_path: Path
) -> None:
    launcher, read = RUNS[name]
    folder = tmp_path / "out"
    write_folder(str(folder), bundle(job, launcher, allow_lossy=False))
    found = read(folder)
    assert (found.schedule, found.chunks) == (INTERLEAVED, 2)
    assert tuple(stage.layers for stage in found.stages) == job.layers
    # A problem of one chunk gets the files'.
    training = problem.training.under("1f1b")
    imported = import_plan(found, replace(problem, training=training))
    assert imported.plan == job.plan
    assert imported.findings == ()
    # Pinned units that are of the problem's own schedule are broken, not in the way.
    pins = replace(problem.pins, units=(len(problem.model.units),))
    pinned = replace(problem, training=training, pins=pins)
    assert any("pin units" in each for each in import_plan(found, pinned).findings)


def test_a_layout_names_every_chunk(job: Job) -> None:
    files = bundle(job, MEGATRON, allow_lossy=False)
    script = next(text for name, text in files.items() if name.endswith(".sh"))
    chunks = layout_chunks(told(script)["--pipeline-model-parallel-layout"])
    layers = tuple(chunk.count("t") for chunk in chunks)
    assert job.layers is not None
    assert layers == job.layers * 2
    assert sum(layers) == 24


def test_warm_ups_are_told_from_those_of_virtual_stages(job: Job) -> None:
    own = [stage.warmup for stage in job.stages]
    assert job.warms_up_as_1f1b
    assert own != [4, 3, 2, 1]
    other = restaged(job, 0, warmup=own[0] - 1)
    (found,) = (loss.what for loss in MEGATRON.losses(other) if "warm-ups" in loss.what)
    assert found.endswith(f"1F1B warms up with {', '.join(map(str, own))}")


def test_other_launchers_refuse_chunks_by_name(job: Job) -> None:
    for launcher in map(launcher_of, SHIPPED):
        limits = launcher.limits
        if isinstance(limits, Limits) and INTERLEAVED in limits.schedules:
            continue
        if limits is None or INTERLEAVED in launcher.schedules:
            bundle(job, launcher, allow_lossy=True)
            continue
        with pytest.raises(CheckError) as told_of:
            bundle(job, launcher, allow_lossy=True)
        said = f"schedule {INTERLEAVED}: it has no virtual stages"
        assert any(said in line for line in told_of.value.findings), launcher.name


@pytest.mark.parametrize(
    ("words", "layers", "chunks"),
    [
        ("--num-virtual-stages-per-pipeline-rank 3", 4, 3),
        ("--num-layers-per-virtual-pipeline-stage 4", 4, 3),
        ("--num-layers-per-virtual-pipeline-stage 12", 12, 1),
        (f"{LAYOUT} 'Et*6|t*6|t*6|t*6L'", 6, 2),
        (f"{BOTH} --num-layers-per-virtual-pipeline-stage 13", 12, 1),
    ],
)
def test_arguments_of_people_are_read(
    words: str, layers: int, chunks: int, tmp_path: Path
) -> None:
    found = read_megatron(script(tmp_path, words))
    assert [stage.layers for stage in found.stages] == [layers] * 2
    assert found.chunks == chunks
    assert (found.schedule == INTERLEAVED) == (chunks > 1)


@pytest.mark.parametrize(
    ("words", "chunks", "layers", "layout"),
    [
        (f"{LAYOUT} 'Et*5|t*7|t*6|t*6L'", 2, (11, 13), "Et*5|t*7|t*6|t*6L"),
        (f"{LAYOUT} 'E|t*9||t*9||t*6L'", 3, (0, 24), "E|t*9||t*9||t*6L"),
        (f"{LAYOUT} 'Et*24|L'", 1, (24, 0), "Et*24|L"),
        (f"{LAYOUT} 'Et*12|t*12mL' --mtp-num-layers 1", 1, (12, 12), None),
        (
            f"{LAYOUT} 'Et*6|t*6|t*6|t*6mL' --mtp-num-layers 1",
            2,
            (12, 12),
            "Et*6|t*6|t*6|t*6mL",
        ),
        (
            "--num-virtual-stages-per-pipeline-rank 2 --mtp-num-layers 2",
            2,
            (12, 12),
            "Et*6|t*6|t*6|t*6mmL",
        ),
        (f"{BOTH}", 1, (12, 12), None),
        (f"{BOTH} --mtp-num-layers 1", 1, (12, 12), None),
        (
            f"{BOTH} --num-virtual-stages-per-pipeline-rank 13",
            13,
            (12, 12),
            "E|(t|)*24,L",
        ),
        (
            f"{BOTH} --num-layers-per-virtual-pipeline-stage 1",
            13,
            (12, 12),
            "E|(t|)*24,L",
        ),
        (
            "--num-virtual-stages-per-pipeline-rank 2 "
            "--decoder-first-pipeline-num-layers 8",
            2,
            (4, 8),
            None,
        ),
        (
            "--num-virtual-stages-per-pipeline-rank 4 "
            "--decoder-last-pipeline-num-layers 4",
            4,
            (5, 1),
            None,
        ),
    ],
)
def test_chunks_that_differ_are_read(
    words: str, chunks: int, layers: tuple[int, ...], layout: str | None, tmp_path: Path
) -> None:
    """Layers of a stage are those of all its chunks if they have a layout."""
    found = read_megatron(script(tmp_path, words))
    assert found.chunks == chunks
    assert tuple(stage.layers for stage in found.stages) == layers
    assert found.layout == layout
    assert found.schedule == (INTERLEAVED if chunks > 1 else "1f1b")


@pytest.mark.parametrize("ends", [(True, False), (False, True)])
def test_one_end_may_count_as_a_layer(ends: tuple[bool, bool], tmp_path: Path) -> None:
    named = [name for name, end in zip(BOTH.split(), ends, strict=True) if end]
    folder = script(tmp_path, f"{named[0]} --num-virtual-stages-per-pipeline-rank 5")
    path = folder / "run.sh"
    path.write_text(path.read_text().replace("--num-layers 24", "--num-layers 39"))
    first, last = (f"t*{4 - end}" for end in ends)
    assert read_megatron(folder).layout == f"E{first}|(t*4|)*8,{last}L"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--num-virtual-stages-per-pipeline-rank 5", "of 5 virtual ones"),
        ("--num-layers-per-virtual-pipeline-stage 5", "no multiple of it times 2"),
        (
            "--num-virtual-stages-per-pipeline-rank 3 "
            "--decoder-first-pipeline-num-layers 4",
            "first-pipeline-num-layers: is 4, expected a multiple of the 3 virtual",
        ),
        (
            "--num-layers-per-virtual-pipeline-stage 4 "
            "--decoder-last-pipeline-num-layers 8",
            "last-.*: is given beside --num-layers-per-virtual-pipeline-stage, exp",
        ),
        (
            "--account-for-loss-in-pipeline-split --decoder-first-pipeline-num-layers "
            "4",
            "--account-for-loss-in-pipeline-split: is given beside --decoder-first-",
        ),
        (
            "--account-for-loss-in-pipeline-split",
            "is 24, which with loss does not leave the same for each of 2 stages",
        ),
        (
            f"{BOTH} --num-virtual-stages-per-pipeline-rank 3",
            "is 24, which with embedding and loss does not .* of 3 virtual ones",
        ),
        (
            f"{BOTH} --num-layers-per-virtual-pipeline-stage 5",
            "is 5, and 24 layers with embedding and loss are no multiple of it times",
        ),
        (f"{BOTH} {LAYOUT} 'Et*12|t*12L'", "is given beside .*-layout, expected one"),
        (f"{LAYOUT} 'Et*12||t*12L|'", "has an empty chunk before .* or after the los"),
        (
            f"{LAYOUT} 'Et*12|t*12,m||L' --mtp-num-layers 1",
            r"prediction \(m\) in chunk 0 of stage 1, expected it in the last chunk",
        ),
        (f"{LAYOUT} 'Et*12|t*12,m||L'", "has 1 layer of multi-token prediction, not"),
        (f"{LAYOUT} 'Et*24(|)*20001,L'", "makes 20002 virtual stages, expected at mo"),
    ],
)
def test_what_cannot_be_priced_is_refused(
    words: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        read_megatron(script(tmp_path, words))


GROUPS = "--microbatch-group-size-per-virtual-pipeline-stage"


@pytest.mark.parametrize(
    ("chunks", "group", "said"),
    [
        (3, 2, None),
        (
            3,
            4,
            "is 4: hetopt models the order of groups of 2, one micro-batch for each "
            "stage; with 4 stages run their chunks in another order, and hold the "
            "activations of up to 4 more passes",
        ),
        (1, 4, "has no effect on what the script says"),
    ],
)
def test_another_order_is_reported_as_one(
    chunks: int, group: int, said: str | None, tmp_path: Path
) -> None:
    words = f"{GROUPS} {group}"
    if chunks > 1:
        words += f" --num-virtual-stages-per-pipeline-rank {chunks}"
    found = read_megatron(script(tmp_path, words))
    told = {each.argument: each.why for each in found.reported}
    assert told.get(GROUPS) == said


@pytest.mark.parametrize(
    ("group", "message"),
    [
        (1, r"is 1, expected 2 \(the stages\) to 16 \(the micro-batches\)"),
        (17, r"is 17, expected 2 \(the stages\) to 16"),
        (5, "is 5, which leaves a last group of 1 of the 16 micro-batches, expected"),
    ],
)
def test_orders_that_the_runtime_refuses_are_refused(
    group: int, message: str, tmp_path: Path
) -> None:
    words = f"--num-virtual-stages-per-pipeline-rank 3 {GROUPS} {group}"
    with pytest.raises(InputError, match=f"{GROUPS}: {message}"):
        read_megatron(script(tmp_path, words))


def test_microbatches_have_to_fill_rounds(job: Job, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write_folder(str(folder), bundle(job, MEGATRON, allow_lossy=False))
    found = replace(read_megatron(folder), microbatches=2)
    with pytest.raises(InputError, match="is 2, expected a multiple of the 4 stages"):
        import_plan(found, job.problem)
    alone = replace(found, stages=found.stages[:1], chunks=8)
    with pytest.raises(InputError, match="chunks: is 8, expected 1 where there is one"):
        scheduled(alone, job.problem, ["a100"])


def test_explain_asks_for_as_many_chunks(
    job: Job, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, path = tmp_path / "out", tmp_path / "problem.yaml"
    write_folder(str(folder), bundle(job, MEGATRON, allow_lossy=False))
    path.write_text(TEXT)
    asked = ["--mine", str(folder), "--from", "megatron", "--jobs", "1"]
    assert main(["explain", str(path), *asked]) == 0
    assert "interleaved-1f1b of 2 chunks a stage" in capsys.readouterr().out
    path.write_text(TEXT.replace("chunks: 2", "chunks: 3"))
    assert main(["explain", str(path), *asked]) == 2
    assert "the files have 2 chunks per stage" in capsys.readouterr().err


def test_the_least_time_for_megatron(problem: Problem) -> None:
    found = hetopt.plan(problem, solver="dp", jobs=1)
    assert found.best is not None
    assert found.best.plan.chunks == 2


def script(folder: Path, words: str, batch: int = 16) -> Path:
    """Write a launch script of 24 layers on two stages."""
    (folder / "run.sh").write_text(
        "torchrun --nproc_per_node 2 pretrain_gpt.py --num-layers 24 --hidden-size "
        "1024 --num-attention-heads 16 --seq-length 2048 --max-position-embeddings "
        f"2048 --micro-batch-size 1 --global-batch-size {batch} "
        f"--pipeline-model-parallel-size 2 --bf16 {words}\n"
    )
    return folder
