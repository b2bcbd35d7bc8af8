"""TorchTitan gets a Llama of the plan's sizes, and what it cannot do is named."""

import ast
from dataclasses import replace
from typing import Any

import pytest

from hetopt.errors import CheckError
from hetopt.export.bundle import bundle
from hetopt.export.job import Job
from hetopt.export.torchtitan.launcher import LAUNCHER as TORCHTITAN
from hetopt.export.torchtitan.schedule_csv import schedule_text
from hetopt.problem.training.dispatch import Dispatch
from tests.export.jobs import draw_job, restaged, untied
from tests.runtimes.torch_plans import ONE, Case
from tests.runtimes.torch_plans import job_of as job_of_case
from tests.with_configs import job_of, problem_with_preset


def settings(text: str, call: str) -> dict[str, Any]:
    """Return the literals that a bundle's program calls something with."""
    (found,) = (
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == call
    )
    return {each.arg or "": ast.literal_eval(each.value) for each in found.keywords}


@pytest.mark.parametrize("seed", range(60))
def test_it_refuses_a_plan_or_keeps_its_rules(seed: int) -> None:
    job = draw_job(seed, alike=seed % 3 > 0)
    losses = list(TORCHTITAN.losses(job))
    if any(loss.instead is None for loss in losses):
        with pytest.raises(CheckError):
            bundle(job, TORCHTITAN, allow_lossy=True)
        return
    files = bundle(job, TORCHTITAN, allow_lossy=True)
    assert ("LOSSY.md" in files) == bool(losses)
    mesh = settings(files["hetopt_plan.py"], "ParallelismConfig")
    training = settings(files["hetopt_plan.py"], "TrainingConfig")
    dp = mesh["data_parallel_replicate_degree"] * mesh["data_parallel_shard_degree"]
    ranks = (
        mesh["pipeline_parallel_degree"]
        * dp
        * mesh["context_parallel_degree"]
        * mesh["tensor_parallel_degree"]
    )
    assert ranks == job.world_size
    local = training["local_batch_size"]
    steps, rest = divmod(training["global_batch_size"], local * dp)
    assert rest == 0
    names = mesh.get("module_fqns_per_model_part")
    assert (names is None) == (len(job.stages) == 1)
    if names is None:
        assert steps == job.microbatches
        return
    assert steps == 1
    assert local == job.microbatches * mesh["pipeline_parallel_microbatch_size"]
    warmups = [stage.warmup for stage in job.stages]
    assert files["schedule.csv"] == schedule_text(warmups, job.microbatches)
    flat = [name for part in names for name in part]
    assert flat[0] == "tok_embeddings"
    assert flat[-2:] == ["norm", "lm_head"]
    assert flat[1:-2] == [f"layers.{n}" for n in range(job.problem.model.layers)]


#: Two stages of three parts, with the embedding alone in one and the head in another.
PARTS = Case(
    schedule="interleaved-1f1b",
    degrees=(ONE, ONE),
    chunks=3,
    cuts=(1, 3, 4, 6, 7, 8),
    training={"precision": "bf16"},
)


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "not alike"])
def test_stages_of_several_parts_are_interleaved(alike: bool) -> None:
    case = replace(PARTS, cuts=(), layers=(1, 1)) if alike else PARTS
    job = job_of_case(case)
    assert not [loss for loss in TORCHTITAN.losses(job) if loss.instead is None]
    files = bundle(job, TORCHTITAN, allow_lossy=True)
    mesh = settings(files["hetopt_plan.py"], "ParallelismConfig")
    assert "schedule.csv" not in files
    assert "pipeline_parallel_schedule_csv" not in mesh
    assert mesh["pipeline_parallel_schedule"] == "Interleaved1F1B"
    assert mesh["module_fqns_per_model_part"] == (
        [
            ["tok_embeddings", "layers.0"],
            *([f"layers.{n}"] for n in range(1, 5)),
            ["layers.5", "norm", "lm_head"],
        ]
        if alike
        else [
            ["tok_embeddings"],
            ["layers.0", "layers.1"],
            ["layers.2"],
            ["layers.3", "layers.4"],
            ["layers.5"],
            ["norm", "lm_head"],
        ]
    )


def test_a_part_without_modules_is_refused() -> None:
    job = job_of_case(replace(PARTS, cuts=(1, 3, 3, 6, 7, 8)))
    with pytest.raises(CheckError, match="an empty chunk: its optimizer refuses"):
        bundle(job, TORCHTITAN, allow_lossy=True)


def test_a_part_without_attention_is_refused_where_sequences_are_split() -> None:
    for cuts, lost in ((PARTS.cuts, True), ((2, 3, 4, 5, 6, 8), False)):
        case = replace(PARTS, cuts=cuts, degrees=((1, 2, 1),) * 2)
        found = [loss.what for loss in TORCHTITAN.losses(job_of_case(case))]
        wanted = "a chunk without layers: cp 2 needs attention in every part"
        assert (wanted in found) == lost


def test_each_loss_is_named() -> None:
    job = untied(draw_job(4, alike=True, recompute=("none",)))

    def lost(other: Job) -> list[str]:
        return [loss.what for loss in TORCHTITAN.losses(other)]

    def of(**fields: Any) -> Job:
        model = replace(job.problem.model, **fields)
        return replace(job, problem=replace(job.problem, model=model))

    def under(**fields: Any) -> Job:
        training = replace(job.problem.training, **fields)
        return replace(job, problem=replace(job.problem, training=training))

    assert len(job.stages) > 1
    documents = ["attention across the documents of a sequence"]
    assert lost(job) == documents
    assert lost(of(head_dim=32)) == documents
    assert "ZeRO 3" in lost(under(zero=3))[0]
    assert "fp16" in lost(under(precision="fp16"))[0]
    assert "optimizer sgd" in lost(under(optimizer="sgd"))[0]
    assert "tied" in lost(of(tied=True))[0]
    assert "SwiGLU" in lost(of(gated=False))[0]
    assert "learned" in lost(of(positions=512))[0]
    assert "multiples of" in lost(under(seq_len=1))[0]


def test_each_loss_of_experts_is_named() -> None:
    job = job_of(problem_with_preset("qwen3-30b-a3b"), tp=4, ep=4)
    experts = job.problem.model.experts
    assert experts is not None

    def lost(other: Job, *, refused: bool) -> list[str]:
        found = [
            loss.what
            for loss in TORCHTITAN.losses(other)
            if (loss.instead is None) == refused
        ]
        return [what for what in found if not what.startswith("attention across")]

    def of(**fields: Any) -> Job:
        model = replace(job.problem.model, **fields)
        return replace(job, problem=replace(job.problem, model=model))

    def under(**fields: Any) -> Job:
        training = replace(job.problem.training, **fields)
        return replace(job, problem=replace(job.problem, training=training))

    def degrees(**fields: Any) -> Job:
        found = job
        for number, stage in enumerate(job.stages):
            strategy = replace(stage.strategy, **fields)
            found = restaged(found, number, strategy=strategy)
        return found

    assert lost(job, refused=True) == lost(job, refused=False) == []
    assert lost(degrees(ep=1, etp=4), refused=True) == []
    assert "pin etp: 1" in lost(degrees(ep=2, etp=2), refused=True)[0]
    assert "pin etp to tp" in lost(degrees(ep=1, etp=1), refused=True)[0]
    wide = degrees(dp=4, tp=1, ep=4)
    assert lost(wide, refused=True) == []
    training = replace(job.problem.training, zero=0)
    wide = replace(wide, problem=replace(wide.problem, training=training))
    assert "ZeRO 0 with experts over 4" in lost(wide, refused=True)[0]
    one = restaged(job, 0, strategy=replace(job.stages[0].strategy, ep=2))
    assert "different (e, x)" in lost(one, refused=True)[0]
    gated = replace(experts, shared_ffn=768, shared_gate=True)
    assert "shared_gate" in lost(of(experts=gated), refused=True)[0]
    groups = replace(experts, groups=128, groups_per_token=8)
    assert "groups 128" in lost(of(experts=groups), refused=True)[0]
    assert "further tokens" in lost(of(predictions=1), refused=True)[0]
    for moe, what in (
        (Dispatch(capacity=1.5), "capacity 1.5"),
        (Dispatch(node_dedup=True), "once to each"),
    ):
        assert what in lost(under(moe=moe), refused=False)[0]
    assert "in fp32" in lost(under(precision="fp32"), refused=False)[0]
