"""Choices of memory and precision: each launcher has a setting, or says it has none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hetopt.export.job import Job
from hetopt.export.registry import launcher
from tests.export.jobs import draw_job, untied

CHOICES: dict[str, Any] = {
    "precision: fp8": {"precision": "fp8"},
    "sequence_parallel: false": {"sequence_parallel": False},
    "attention: unfused": {"attention": "unfused"},
    "cross_entropy: unfused": {"cross_entropy": "unfused"},
    "gradients: bf16": {"gradients": "bf16"},
}
#: What of these a launcher's files say, and how.
SAID = {
    ("megatron", "precision: fp8"): "--fp8-format hybrid",
    ("megatron", "attention: unfused"): "--attention-backend unfused",
    ("megatron", "gradients: bf16"): "--grad-reduce-in-bf16",
    ("flagscale", "precision: fp8"): "fp8_format: hybrid",
    ("flagscale", "attention: unfused"): "attention_backend: unfused",
    ("flagscale", "gradients: bf16"): "grad_reduce_in_bf16: true",
    ("nemo", "precision: fp8"): "bf16_with_fp8_delayed_scaling_mixed",
    ("nemo", "gradients: bf16"): "mixed_precision.grad_reduce_in_fp32 = False",
    ("torch", "sequence_parallel: false"): '"sequence_parallel": false',
    ("torch", "gradients: bf16"): '"gradients": "bf16"',
    ("torchtitan", "precision: fp8"): "Float8LinearConverter",
}
#: What of these a launcher leaves out of its files.
LEFT_OUT = {
    ("megatron", "sequence_parallel: false"): "--sequence-parallel",
    ("megatron", "cross_entropy: unfused"): "--cross-entropy-loss-fusion",
    ("flagscale", "sequence_parallel: false"): "sequence_parallel: true",
    ("flagscale", "cross_entropy: unfused"): "cross_entropy_loss_fusion: true",
    ("nemo", "sequence_parallel: false"): "sequence_parallel: true",
    ("nemo", "cross_entropy: unfused"): "cross_entropy_loss_fusion: true",
    ("hexiscale", "sequence_parallel: false"): "--seq-parallel",
    ("hexiscale", "attention: unfused"): "--use-flash-attn",
}
#: As the launcher comes, whatever the plan counts on.
AS_IT_COMES = {
    (name, "cross_entropy: unfused") for name in ("torch", "torchtitan", "hexiscale")
}


def job_with_tensor_parallelism() -> Job:
    """Draw a job with one mesh for all stages, of tp above 1."""
    for seed in range(100):
        job = draw_job(seed, alike=True, cp=False, schedules=("1f1b",))
        if job.stages[0].strategy.tp > 1:
            return untied(job)
    raise AssertionError


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize(
    "name",
    ["megatron", "flagscale", "nemo", "torchtitan", "torch", "hetu", "hexiscale"],
)
def test_a_choice_is_in_the_files_or_refused(name: str, choice: str) -> None:
    job = job_with_tensor_parallelism()
    training = replace(job.problem.training, **CHOICES[choice])
    asked = replace(job, problem=replace(job.problem, training=training))
    own = launcher(name)
    refused = [loss for loss in own.losses(asked) if choice in loss.what]
    before, after = ("".join(own.files(each).values()) for each in (job, asked))
    key = (name, choice)
    if key in SAID:
        assert SAID[key] in after
        assert SAID[key] not in before
    elif key in LEFT_OUT:
        assert LEFT_OUT[key] in before
        assert LEFT_OUT[key] not in after
    elif key not in AS_IT_COMES:
        assert [loss.instead for loss in refused] == [None]
        return
    assert not refused
