"""Arguments of experts that we export are what megatron-core's own checks accept."""

import json
import re
import shlex
import warnings
from dataclasses import replace
from typing import Any

import pytest
import yaml

with warnings.catch_warnings():
    # Of what is not installed beside it.
    warnings.simplefilter("ignore")
    configs = pytest.importorskip("megatron.core.transformer.transformer_config")
    layouts = pytest.importorskip(
        "megatron.core.transformer.pipeline_parallel_layer_layout"
    )
    import torch

from hetopt.export.bundle import bundle
from hetopt.export.job import Job
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.nemo.launcher import LAUNCHER as NEMO
from hetopt.problem.model.model import Model
from hetopt.problem.training.dispatch import Dispatch
from tests.with_configs import job_of, problem_with_preset

pytestmark = pytest.mark.runtimes

#: Model -> whether Megatron-LM has settings for all of it.
MODELS = {
    "deepseek-v3": True,
    "deepseek-v2": True,
    "deepseek-v2-lite": True,
    "qwen3-235b-a22b": True,
    "qwen3-30b-a3b": True,
    "mixtral-8x7b": True,
    "llama-4-maverick": True,
    # Its YaRN is lost.
    "gpt-oss-120b": False,
}
#: Argument -> field, where they have different names.
RENAMED = {
    "num_experts": "num_moe_experts",
    "norm_epsilon": "layernorm_epsilon",
}


def job(name: str) -> Job:
    return job_of(problem_with_preset(name), tp=4, ep=4)


def arguments(name: str) -> dict[str, str]:
    """Return what a script of a model tells pretrain_gpt.py."""
    return told_by(job(name), allow_lossy=not MODELS[name])


def told_by(given: Job, *, allow_lossy: bool = False) -> dict[str, str]:
    """Return what a job's script tells pretrain_gpt.py."""
    files = bundle(given, MEGATRON, allow_lossy=allow_lossy)
    text = next(text for path, text in files.items() if path.endswith(".sh"))
    (command,) = re.findall(r"^exec .*", text.replace("\\\n", " "), re.MULTILINE)
    words = shlex.split(command)
    pairs = zip(words, [*words[1:], "--"], strict=True)
    return {
        a[2:].replace("-", "_"): "" if b.startswith("--") else b
        for a, b in pairs
        if a[:2] == "--" and "=" not in a
    }


def typed(name: str, text: str) -> Any:
    """Return an argument as the value of its field in the configuration."""
    if not text:
        return True
    if name == "moe_layer_freq":
        runs = re.findall(r"\[([01,]+)\](?:\*(\d+))?", text)
        return [int(d) for row, n in runs for d in row.split(",") * int(n or 1)]
    if name == "window_attn_skip_freq":
        return json.loads(text)
    return int(text) if re.fullmatch("[0-9]+", text) else _number(text)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def configuration(given: dict[str, str]) -> Any:
    """Return the configuration that pretrain_gpt.py would make of its arguments."""
    latent = "multi_latent_attention" in given
    cls = configs.MLATransformerConfig if latent else configs.TransformerConfig
    known = cls.__dataclass_fields__
    fields = {
        field: typed(field, text)
        for name, text in given.items()
        for field in [RENAMED.get(name, name)]
        if field in known
    }
    if latent:
        # The parser's default is none; the class's is 512.
        fields.setdefault("q_lora_rank", None)
    if "window_size" in given:
        before, behind = map(int, given["window_size"].split(","))
        fields["window_size"] = (before, behind)
    if "quick_geglu" in given:
        from megatron.core.activations import quick_gelu

        fields["activation_func"] = quick_gelu
    fields["sequence_parallel"] = "sequence_parallel" in given
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cls(
            gated_linear_unit="swiglu" in given or "quick_geglu" in given,
            add_bias_linear="disable_bias_linear" not in given,
            apply_rope_fusion=False,
            bias_activation_fusion=False,
            pipeline_dtype=torch.bfloat16,
            **fields,
        )


def same_model(config: Any, model: Model) -> None:
    """Assert that a configuration has a model's experts and latent attention."""
    experts = model.experts
    assert experts is not None
    assert config.num_moe_experts == experts.number
    assert config.moe_router_topk == experts.per_token
    assert config.moe_ffn_hidden_size == experts.ffn
    assert (config.moe_shared_expert_intermediate_size or 0) == experts.shared_ffn
    assert tuple(map(bool, config.moe_layer_freq)) == model.routed
    assert config.moe_router_num_groups == (experts.groups or None)
    if model.latent is not None:
        assert config.kv_lora_rank == model.latent.kv_lora
        assert (config.q_lora_rank or 0) == model.latent.q_lora
        assert config.qk_head_dim == model.latent.qk_dim
        assert config.qk_pos_emb_head_dim == model.latent.rope_dim
        assert config.v_head_dim == model.latent.v_dim
    assert (config.mtp_num_layers or 0) == model.predictions


@pytest.mark.parametrize("name", MODELS)
def test_the_parser_takes_what_megatron_lm_is_told(name: str) -> None:
    given, model = arguments(name), problem_with_preset(name).model
    config = configuration(given)
    same_model(config, model)
    assert config.expert_model_parallel_size == 4
    assert config.expert_tensor_parallel_size == 1
    layout = config.pipeline_model_parallel_layout
    kinds = layouts.LayerType
    assert layout.flatten_layout.count(kinds.decoder) == model.layers
    assert layout.flatten_layout.count(kinds.mtp) == model.predictions


@pytest.mark.parametrize("recompute", ["none", "selective"])
def test_the_parser_takes_all_to_alls_that_are_hidden(recompute: Any) -> None:
    given = job("qwen3-30b-a3b")
    training = replace(given.problem.training, moe=Dispatch(overlap=0.9))
    problem = replace(given.problem, training=training)
    first, last = given.stages
    whole = replace(
        first,
        end_unit=last.end_unit,
        resharding=None,
        warmup=1,
        strategy=replace(first.strategy, recompute=recompute),
    )
    pipeline = replace(given.plan.pipeline, stages=(whole,))
    one = Job.of(problem, replace(given.plan, pipelines=(pipeline,)))
    assert configuration(told_by(one)).overlap_moe_expert_parallel_comm


@pytest.mark.parametrize("name", MODELS)
def test_the_recipe_is_one_of_megatron_core(name: str) -> None:
    files = bundle(job(name), NEMO, allow_lossy=not MODELS[name])
    recipe = yaml.safe_load(files["recipe.yaml"])["model"]
    latent = "kv_lora_rank" in recipe
    cls = configs.MLATransformerConfig if latent else configs.TransformerConfig
    known = cls.__dataclass_fields__
    model = problem_with_preset(name).model
    fields = {field: value for field, value in recipe.items() if field in known}
    # What the program sets, and what is no configuration of a layer.
    fields["pipeline_dtype"] = torch.bfloat16
    if model.architecture.activation == "quick-gelu":
        from megatron.core.activations import quick_gelu

        fields["activation_func"] = quick_gelu
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = cls(apply_rope_fusion=False, bias_activation_fusion=False, **fields)
    same_model(config, model)
