"""Stages whose chunks differ: read from files, made a plan, and written again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from hetopt.cost.build import build_table
from hetopt.errors import CheckError, InputError
from hetopt.export.back.explaining import explain
from hetopt.export.back.importing import Imported, import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.flagscale.launcher import LAUNCHER as FLAGSCALE
from hetopt.export.flagscale.reading import read_flagscale
from hetopt.export.job import Job
from hetopt.export.launcher import Launcher, Limits
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.megatron.reading import read_megatron
from hetopt.export.nemo.launcher import LAUNCHER as NEMO
from hetopt.export.nemo.reading import read_nemo
from hetopt.export.pipeline import PipelineReadBack, StageReadBack
from hetopt.export.planning.limits import fitted
from hetopt.export.registry import SHIPPED
from hetopt.export.registry import launcher as launcher_of
from hetopt.plans.strategy import Strategy
from hetopt.problem.layout import cuts_of, layout_of
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import INTERLEAVED
from tests.export.scripts import told

LAYOUT = "--pipeline-model-parallel-layout"
SMALL = "layers: 24, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000"
#: Model, stages, tp, words of the script, and the layout that exports have.
PUBLISHED = {
    # Megatron-Bridge, PR 5391.
    "llama-3-70b": (
        "preset: llama-3-70b",
        8,
        4,
        f"--num-layers 80 {LAYOUT} 'Et*2|(t*2|)*34,t*3|(t*2|)*3,tL'",
        "Et*2|(t*2|)*34,t*3|(t*2|)*3,tL",
    ),
    "deepseek-v3": (
        "preset: deepseek-v3",
        16,
        1,
        "--num-layers 61 --mtp-num-layers 1 --num-experts 256 "
        "--expert-model-parallel-size 8 --moe-token-dispatcher-type alltoall "
        f"{LAYOUT} 'Et*3|(tt|)*29,m|L'",
        "Et*3|(tt|)*29,m|L",
    ),
    "llama-3.1-405b": (
        "layers: 126, hidden: 16384, heads: 128, kv_heads: 8, ffn: 53248, "
        "vocab: 128256",
        8,
        8,
        "--num-layers 126 --num-virtual-stages-per-pipeline-rank 8 "
        "--account-for-embedding-in-pipeline-split "
        "--account-for-loss-in-pipeline-split",
        "Et|(tt|)*62,tL",
    ),
}

READ = {NEMO: read_nemo, MEGATRON: read_megatron, FLAGSCALE: read_flagscale}


def problem_of(model: str, nodes: int = 1, training: str = "") -> Problem:
    return read_problem_text(
        f"model: {{{model}}}\n"
        f"clusters: [{{name: a, accelerator: H100, memory: 4 TB, nodes: {nodes}, "
        "devices_per_node: 8, inter_node: {bandwidth: 400 Gbps}}]\n"
        "training: {global_batch: 256, seq_len: 2048, recompute: none, schedule: 1f1b, "
        f"zero: 0, overlap_gradients: false, cross_entropy: unfused{training}}}\n"
    )


def pinned(problem: Problem, layout: str, chunks: int) -> Problem:
    own = problem.of_plan(INTERLEAVED, chunks, cuts=cuts_of(layout, problem.model))
    return replace(own, pins=replace(own.pins, layout=layout))


def read_back(
    stages: int, layout: str | None, chunks: int = 2, layers: int = 0
) -> PipelineReadBack:
    stage = StageReadBack(
        cluster="a", hosts=(), layers=layers, strategy=Strategy(dp=2, cp=1, tp=1)
    )
    return PipelineReadBack(
        microbatches=16,
        schedule=INTERLEAVED if chunks > 1 else "1f1b",
        stages=(stage,) * stages,
        chunks=chunks,
        layout=layout,
    )


def job_of(imported: Imported) -> Job:
    return Job.of(imported.problem, imported.plan)


def layout_in(job: Job, launcher: Launcher = MEGATRON) -> str:
    files = bundle(job, launcher, allow_lossy=False)
    if launcher is FLAGSCALE:
        train = yaml.safe_load(files["conf/train/plan.yaml"])
        return str(train["system"]["pipeline_model_parallel_layout"])
    if launcher is NEMO:
        recipe = yaml.safe_load(files["recipe.yaml"])
        return str(recipe["model"]["pipeline_model_parallel_layout"])
    return told(next(t for n, t in files.items() if n.endswith(".sh")))[LAYOUT]


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_layouts_are_read_priced_and_written_again(
    name: str, tmp_path: Path
) -> None:
    model, stages, tp, words, layout = PUBLISHED[name]
    problem = problem_of(model, nodes=16)
    (tmp_path / "run.sh").write_text(
        "torchrun --nnodes 16 --nproc_per_node 8 pretrain_gpt.py --bf16 "
        f"--pipeline-model-parallel-size {stages} --tensor-model-parallel-size {tp} "
        "--micro-batch-size 1 --global-batch-size 256 --sequence-parallel "
        f"{words}\n"
    )
    imported = import_plan(read_megatron(tmp_path), problem)
    assert imported.findings == ()
    assert imported.plan.cuts == cuts_of(layout, problem.model)
    assert imported.plan.ends == imported.plan.cuts
    job = job_of(imported)
    for launcher, read in READ.items():
        if launcher is FLAGSCALE and problem.model.predictions:
            with pytest.raises(CheckError, match="predict further tokens"):
                bundle(job, launcher, allow_lossy=True)
            continue
        assert layout_in(job, launcher) == layout
        folder = tmp_path / launcher.name
        write_folder(str(folder), bundle(job, launcher, allow_lossy=False))
        found = read(folder)
        assert found.layout == layout
        again = import_plan(found, problem)
        assert (again.plan, again.findings) == (imported.plan, ())
    # Without the files' words, it is written as hetopt writes layouts.
    bare = replace(job.problem, pins=replace(job.problem.pins, layout=None))
    text = layout_in(replace(job, problem=bare))
    assert text == layout_of(imported.plan.cuts, problem.model)


def test_stages_count_the_units_of_all_their_chunks() -> None:
    problem = problem_of(SMALL)
    imported = import_plan(read_back(2, "Et*5|t*7|t*6|t*6L"), problem)
    held = [(s.first_unit, s.end_unit) for s in imported.plan.pipeline.stages]
    assert held == [(0, 12), (12, 26)]
    assert imported.plan.cuts == (6, 13, 19, 26)
    job = job_of(imported)
    assert job.layers == job.whole_layers == (11, 13)
    assert job.whole_units() == held
    assert job.kinds_of(job.stages[1])[-1] == problem.model.units[-1]
    assert list(MEGATRON.losses(job)) == []


def test_chunks_that_are_alike_have_no_cuts_unless_the_layers_differ() -> None:
    alike = read_back(2, None, layers=6)
    assert import_plan(alike, problem_of(SMALL)).plan.cuts is None
    experts = "experts: {number: 8, per_token: 2, ffn: 1024, dense_layers: 1}"
    imported = import_plan(alike, problem_of(f"{SMALL}, {experts}"))
    assert imported.findings == ()
    assert imported.plan.cuts == (7, 13, 19, 26)
    assert layout_in(job_of(imported)) == "Et*6|t*6|t*6|t*6L"
    # Further tokens are predicted in the last chunk alone.
    imported = import_plan(alike, problem_of(f"{SMALL}, predictions: 1"))
    assert imported.plan.cuts == (7, 13, 19, 27)


def test_pins_are_of_the_files() -> None:
    """Equal chunks are compared with a pinned layout; equal cuts keep its words."""
    problem = problem_of(SMALL)
    layout = "Et*5,|t*7|(t*6|)*1,t*6L"
    own = pinned(problem, layout, 2)
    imported = import_plan(read_back(2, "Et*5|t*7|t*6|t*6L"), own)
    assert layout_in(job_of(imported)) == layout
    imported = import_plan(read_back(2, None, layers=6), own)
    assert imported.plan.cuts == (7, 13, 19, 26)
    assert imported.problem.pins.layout is None
    single = import_plan(read_back(2, None, chunks=1, layers=12), own)
    assert (single.plan.chunks, single.plan.cuts) == (1, None)


def test_one_chunk_a_stage_may_be_an_end_alone() -> None:
    """It is priced, though no plan of hetopt has such stages."""
    problem = problem_of(SMALL)
    imported = import_plan(read_back(2, "Et*24|L", chunks=1), problem)
    assert imported.plan.cuts is None
    assert [stage.units for stage in imported.plan.pipeline.stages] == [25, 1]
    assert imported.price.iteration_time_s > 0
    assert ["no transformer layer" in each for each in imported.findings] == [True]
    further = problem_of(f"{SMALL}, predictions: 1")
    imported = import_plan(read_back(3, "Et*12|t*12,m|L", chunks=1), further)
    assert [stage.units for stage in imported.plan.pipeline.stages] == [13, 13, 1]
    assert layout_in(job_of(imported)) == "Et*12|t*12m|L"


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ("Et*5|t*7|t*6|t*5L", "layers: the files' layout has 23 layers, expected 24"),
        ("Et*5|t*7|t*6|t*6mL", "has 1 layer of multi-token prediction, expected 0"),
    ],
)
def test_layouts_of_another_model_are_refused(layout: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        import_plan(read_back(2, layout), problem_of(SMALL))


def test_further_tokens_in_an_early_chunk_are_refused() -> None:
    problem = problem_of(f"{SMALL}, predictions: 1")
    layout = "Et*12|t*12m||L"
    imported = import_plan(read_back(2, layout), problem)
    said = r"prediction \(m\) in chunk 0 of stage 1, expected it in the last chunk of"
    for launcher in (MEGATRON, NEMO):
        with pytest.raises(CheckError, match=said):
            bundle(job_of(imported), launcher, allow_lossy=True)
        assert isinstance(launcher.limits, Limits)
        with pytest.raises(InputError, match=said):
            fitted(launcher.limits, pinned(problem, layout, 2))
        fitted(launcher.limits, pinned(problem, "Et*12|t*12|m|L", 2))


def test_cuts_inside_layers_are_refused() -> None:
    problem = problem_of(f"{SMALL}, granularity: block")
    imported = import_plan(read_back(2, "Et*5|t*7|t*6|t*6L"), problem)
    job = job_of(imported)
    assert layout_in(job) == "Et*5|t*7|t*6|t*6L"
    first, *others = imported.plan.cuts or ()
    cut = replace(job, plan=replace(imported.plan, cuts=(first + 1, *others)))
    (loss,) = MEGATRON.losses(cut)
    assert "inside a layer" in loss.what
    assert loss.instead is None


def test_empty_chunks_at_the_ends_are_refused() -> None:
    """Megatron-LM has the embedding in the first chunk, whatever a layout says."""
    imported = import_plan(read_back(2, "Et*5|t*7|t*6|t*6L"), problem_of(SMALL))
    plan = replace(imported.plan, cuts=(0, 12, 19, 26))
    (loss,) = MEGATRON.losses(replace(job_of(imported), plan=plan))
    assert loss.what.startswith("a layout that has an empty chunk before the embeddi")
    assert loss.instead is None


def test_launchers_run_cuts_or_refuse_them_in_one_line() -> None:
    problem = problem_of(SMALL)
    job = job_of(import_plan(read_back(2, "Et*5|t*7|t*6|t*6L"), problem))
    own = pinned(problem, "Et*5|t*7|t*6|t*6L", 2)
    for name in SHIPPED:
        launcher = launcher_of(name)
        limits = launcher.limits
        interleaves = isinstance(limits, Limits) and INTERLEAVED in limits.schedules
        if isinstance(limits, Limits) and limits.cuts:
            bundle(job, launcher, allow_lossy=False)
            fitted(limits, own)
            continue
        if limits is None or INTERLEAVED in launcher.schedules:
            bundle(job, launcher, allow_lossy=True)
            continue
        with pytest.raises(CheckError) as caught:
            bundle(job, launcher, allow_lossy=True)
        said = "chunks that differ" if interleaves else "it has no virtual stages"
        assert sum(said in line for line in caught.value.findings) == 1, name
        if isinstance(limits, Limits):
            with pytest.raises(
                InputError, match=r"chunks that differ|is of stages of several chunks"
            ):
                fitted(limits, own)


def test_unequal_chunks_are_not_explained() -> None:
    problem = problem_of(SMALL)
    imported = import_plan(read_back(2, "Et*5|t*7|t*6|t*6L"), problem)
    table = build_table(imported.problem)
    with pytest.raises(InputError, match="plan: has unequal chunks, which cannot be"):
        explain(imported, imported.plan, table, imported.problem)
