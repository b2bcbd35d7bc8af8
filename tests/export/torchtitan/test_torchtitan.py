"""TorchTitan gets a Llama of the plan's sizes, and what it cannot do is named."""

from dataclasses import replace
from typing import Any

import pytest

from hetopt.export.bundle import bundle
from hetopt.export.job import Job
from hetopt.export.torchtitan.launcher import LAUNCHER as TORCHTITAN
from tests.export.jobs import draw_job, untied


@pytest.mark.parametrize("seed", range(12))
def test_torchtitans_model_is_the_plans(seed: int) -> None:
    """Its inner width is what TorchTitan's rule makes of the file's numbers."""
    job = untied(draw_job(seed, alike=True, recompute=("none",), cp=False))
    files = bundle(job, TORCHTITAN, allow_lossy=True)
    given: dict[str, Any] = {}
    code = files["hetopt_flavor.py"].replace("from torchtitan", "# from torchtitan")

    class Spec:
        model_args = given

    names = {
        "get_train_spec": lambda _: Spec,
        "TransformerModelArgs": dict,
        "RoPEScalingArgs": dict,
    }
    exec(compile(code, "hetopt_flavor.py", "exec"), names)
    made, model = given["hetopt"], job.problem.model
    hidden = int(2 * (4 * made["dim"]) / 3)
    hidden = int(made["ffn_dim_multiplier"] * hidden)
    multiple = made["multiple_of"]
    assert multiple * ((hidden + multiple - 1) // multiple) == model.ffn
    assert (made["dim"], made["n_layers"]) == (model.hidden, model.layers)


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
    assert lost(job) == []
    assert "ZeRO 3" in lost(under(zero=3))[0]
    assert "fp16" in lost(under(precision="fp16"))[0]
    assert "optimizer sgd" in lost(under(optimizer="sgd"))[0]
    assert "tied" in lost(of(tied=True))[0]
    assert "SwiGLU" in lost(of(gated=False))[0]
    assert "hidden size" in lost(of(head_dim=32))[0]
    assert "learned" in lost(of(positions=512))[0]
    assert "multiples of" in lost(under(seq_len=1))[0]
