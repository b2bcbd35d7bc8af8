"""What each launcher makes of the models of configs: settings, or losses by name."""

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from hetopt.errors import CheckError, InputError
from hetopt.export.bundle import bundle
from hetopt.export.flagscale.launcher import LAUNCHER as FLAGSCALE
from hetopt.export.hetu.launcher import LAUNCHER as HETU
from hetopt.export.hexiscale.launcher import LAUNCHER as HEXISCALE
from hetopt.export.launcher import Launcher
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.nemo.launcher import LAUNCHER as NEMO
from hetopt.export.planning.limits import fitted
from hetopt.export.registry import limits_of
from hetopt.export.torch.launcher import LAUNCHER as TORCH
from hetopt.export.torchtitan.launcher import LAUNCHER as TORCHTITAN
from hetopt.problem.model.architecture import ARCHITECTURE_FIELDS, Architecture
from tests.export.jobs import as_llama, draw_job
from tests.with_configs import NAMES, job_of, problem_of


def lost(launcher: Launcher, name: str, **model: Any) -> set[str]:
    """Return the fields of an architecture that a launcher loses, and their texts."""
    found = set()
    for loss in launcher.losses(job_of(problem_of(name, **model))):
        match = re.match(r"model\.(\w+) ", loss.what)
        if match:
            assert loss.instead is not None
            found.add(match[1])
    assert found <= set(ARCHITECTURE_FIELDS)
    return found


@pytest.mark.parametrize(
    ("launcher", "name", "fields"),
    [
        (NEMO, "qwen2.5-7b", ""),
        (
            NEMO,
            "gemma-2-27b",
            "norm_place attention_softcap logit_softcap embedding_scale",
        ),
        (NEMO, "gemma-3-1b", "norm_place rotary_local_base embedding_scale"),
        (NEMO, "smollm3-3b", ""),
        (FLAGSCALE, "smollm3-3b", "rotary_full_layers"),
        (TORCH, "smollm3-3b", "rotary_full_layers"),
        (FLAGSCALE, "llama-3.1-8b", ""),
        (FLAGSCALE, "qwen3-8b", ""),
        (FLAGSCALE, "mistral-7b-windowed", "sliding_window"),
        (TORCHTITAN, "llama-3.1-8b", ""),
        (TORCHTITAN, "mistral-7b-v0.3", ""),
        (TORCHTITAN, "qwen2.5-7b", "qkv_bias"),
        (TORCHTITAN, "glm-4-9b", "qkv_bias rotary_fraction"),
        (TORCHTITAN, "olmo-2-7b", "norm_place qk_norm"),
        (TORCH, "phi-3-mini", ""),
        (TORCH, "phi-4", ""),
        (TORCH, "qwen3-8b", "qk_norm"),
        (HETU, "llama-3.1-8b", "rotary_base rotary_scaling"),
        (HEXISCALE, "mistral-7b-v0.3", "rotary_base"),
    ],
)
def test_losses_by_name(launcher: Launcher, name: str, fields: str) -> None:
    assert lost(launcher, name) == set(fields.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_lossy_recipe_says_what_is_left(name: str) -> None:
    problem = problem_of(name)
    files = bundle(job_of(problem), NEMO, allow_lossy=True)
    recipe = yaml.safe_load(files["recipe.yaml"])["model"]
    own = problem.model.architecture
    assert recipe["layernorm_epsilon"] == own.norm_eps
    assert recipe["rotary_base"] == own.rotary_base
    assert recipe["rotary_percent"] == own.rotary_fraction
    assert recipe["rotary_interleaved"] == own.rotary_interleaved
    assert recipe.get("softmax_scale") == own.attention_scale
    assert recipe["hidden_dropout"] == recipe["attention_dropout"] == 0
    if own.sliding_window is not None:
        assert recipe["window_size"] == [own.sliding_window - 1, 0]
    assert ("rope_scaling" in recipe) == (own.rotary_scaling is not None)
    gelu = own.activation == "gelu-tanh"
    function = "fast_gelu" if gelu else "torch.nn.functional.silu"
    assert f"activation_func={function}," in files["pretrain.py"]
    imported = "from megatron.core.activations import fast_gelu"
    assert (imported in files["pretrain.py"]) == gelu


def test_torchtitan_stretches_only_what_is_meant() -> None:
    def program(name: str) -> str:
        files = bundle(job_of(problem_of(name)), TORCHTITAN, allow_lossy=True)
        return files["hetopt_plan.py"]

    llama, mistral = program("llama-3.1-8b"), program("mistral-7b-v0.3")
    assert "scaling='llama'" in llama
    assert "scaling_factor=8.0" in llama
    assert "scaling" not in mistral
    assert "theta=500000.0" in llama
    assert "theta=1000000.0" in mistral
    assert "eps=1e-05" in llama


def test_flagscale_has_the_same_settings() -> None:
    files = bundle(job_of(problem_of("qwen2.5-7b")), FLAGSCALE, allow_lossy=True)
    model = yaml.safe_load(files["conf/train/plan.yaml"])["model"]
    assert model["add_qkv_bias"] is True
    assert model["norm_epsilon"] == 1e-6
    assert model["rotary_base"] == 1000000
    assert model["hidden_dropout"] == model["attention_dropout"] == 0


def test_a_model_of_hexiscales_sizes_may_still_be_another() -> None:
    job = as_llama(draw_job(3, alike=True, cp=False, schedules=("gpipe",)))
    model = job.problem.model
    other = replace(model, architecture=Architecture(rotary_base=5e5))
    found = [
        [
            loss.what
            for loss in HEXISCALE.losses(
                replace(job, problem=replace(job.problem, model=each))
            )
        ]
        for each in (model, other)
    ]
    assert len(found[1]) == len(found[0]) + 1
    assert any(what.startswith("model.rotary_base 500000") for what in found[1])


def test_losses_are_refused_and_listed() -> None:
    job = job_of(problem_of("olmo-2-7b"))
    with pytest.raises(CheckError) as caught:
        bundle(job, MEGATRON, allow_lossy=False)
    assert caught.value.findings == [
        "Megatron-LM cannot do: model.norm_place after: it has no setting for it",
        "Megatron-LM cannot do: model.qk_norm all: it has no setting for it",
    ]
    lossy = bundle(job, MEGATRON, allow_lossy=True)["LOSSY.md"]
    assert "model.norm_place after: it has no setting for it. Instead: norm_place " in (
        lossy
    )


def test_planning_for_a_launcher_names_all_that_it_lacks() -> None:
    with pytest.raises(InputError) as caught:
        fitted(limits_of("megatron"), problem_of("olmo-2-7b"))
    assert "model.norm_place after" in str(caught.value)
    assert "model.qk_norm all" in str(caught.value)
    assert "--allow-lossy" in str(caught.value)


def test_plans_for_megatron_keep_windows_in_one_piece() -> None:
    limits = limits_of("megatron")
    assert limits.fits is not None
    strategy = job_of(problem_of("phi-4"), cp=2).stages[0].strategy
    assert limits.fits(strategy, problem_of("phi-4"))
    assert not limits.fits(strategy, problem_of("mistral-7b-windowed"))
    assert limits.fits(replace(strategy, cp=1), problem_of("mistral-7b-windowed"))


def test_a_precision_that_devices_lack_is_said() -> None:
    problem = problem_of("phi-3-mini")
    training = replace(problem.training, emulate="fp32")
    (cluster,) = problem.clusters
    rates = replace(cluster.accelerator.peak_flops, bf16=None)
    device = replace(cluster.accelerator, name="old", peak_flops=rates)
    other = replace(
        problem, training=training, clusters=(replace(cluster, accelerator=device),)
    )
    text = bundle(job_of(other), MEGATRON, allow_lossy=False)["README.md"]
    assert "**These accelerators have no bf16: old.**" in text
    plain = bundle(job_of(problem), MEGATRON, allow_lossy=False)["README.md"]
    assert "have no bf16" not in plain
