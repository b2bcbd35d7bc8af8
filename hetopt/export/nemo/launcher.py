"""NeMo's Megatron-Bridge: Megatron-LM's runtime, configured in YAML and Python.

The fields of ``recipe.yaml`` are those of Megatron-Bridge's ConfigContainer, under the
names of its own override files; the layout is Megatron-LM's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import yaml

from hetopt.export.launcher import Launcher, Loss, Tested
from hetopt.export.shared.kernels import (
    BLOCK_SCALED,
    FP8,
    GRADIENTS_BF16,
    NO_SEQUENCE_PARALLEL,
    OVERLAP_TENSOR,
    UNFUSED_LOSS,
    choice_losses,
)
from hetopt.export.shared.megatron.architecture import (
    bridge_model,
    rotary_frequency,
    sinks_and_clamp,
    window_frequency,
    window_size,
)
from hetopt.export.shared.megatron.common import (
    LIMITS,
    layout_said,
    limit_losses,
    megatron_losses,
    optimizer_shards,
    shards_optimizer,
)
from hetopt.export.shared.megatron.experts import (
    dispatcher_settings,
    expert_settings,
    latent_settings,
)
from hetopt.export.shared.megatron.model import stored_precision
from hetopt.export.shared.megatron.offload import offload_settings
from hetopt.export.shared.megatron.overlap import environment, overlap_settings
from hetopt.export.shared.megatron.recompute import recompute_settings
from hetopt.export.shared.one_mesh import expert_degrees, launched
from hetopt.export.shared.scripts import mixed_note, script_name, torchrun_scripts
from hetopt.problem.model.stated import stated

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.export.job import Job
    from hetopt.problem.model.model import Model
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Recompute

TESTED = Tested(what="0.3", module="megatron.bridge")

_DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}

#: Megatron-Bridge's names of mixed precisions; none for FP32.
_MIXED = {
    "bf16": "bf16_mixed",
    "fp16": "fp16_mixed",
    "fp8": "bf16_with_fp8_delayed_scaling_mixed",
    "mxfp8": "bf16_with_mxfp8_mixed",
    "nvfp4": "bf16_with_nvfp4_mixed",
}

#: What it is told if tensor parallelism's collectives run beside multiplications.
_OVERLAP = {"tp_comm_overlap": True}

_HAS = (
    FP8,
    BLOCK_SCALED,
    NO_SEQUENCE_PARALLEL,
    UNFUSED_LOSS,
    GRADIENTS_BF16,
    OVERLAP_TENSOR,
)

#: PyTorch Lightning's names of precisions, which Megatron-Bridge's optimizers use too.
_TRAINERS = {"bf16": "bf16-mixed", "fp16": "16-mixed", "fp32": "32-true"}

#: A model's activation -> the function in the program; None is GELU in either form.
_ACTIVATIONS = {
    None: "torch.nn.functional.gelu",
    "silu": "torch.nn.functional.silu",
    "gelu": "torch.nn.functional.gelu",
    "gelu-tanh": "fast_gelu",
    "quick-gelu": "quick_gelu",
    "relu": "torch.nn.functional.relu",
    "squared-relu": "squared_relu",
}

#: Module and class of a model, without and with latent attention.
_PROVIDERS = (
    ("gpt_provider", "GPTModelProvider"),
    ("mla_provider", "MLAModelProvider"),
)

_IMPORTED = "from megatron.core.activations import {}\n"

#: A mixed precision by name, and what changes it, where gradients are not in 32 bits.
_BY_NAME = 'recipe.pop("mixed_precision")'
_GRADIENTS = (
    "from megatron.bridge.training.mixed_precision import get_mixed_precision_config\n",
    f"get_mixed_precision_config({_BY_NAME})",
    "config.mixed_precision.grad_reduce_in_fp32 = False\n",
)

_PROGRAM = '''\
"""Pretrain with Megatron-Bridge what recipe.yaml says, on made-up data.

Set your own data, tokenizer, learning rate, iterations and checkpoints below.
"""

import torch
import yaml
from megatron.bridge.models.{module} import {provider}
from megatron.bridge.recipes.utils.optimizer_utils import (
    distributed_fused_adam_with_cosine_annealing,
)
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    GPTDatasetConfig,
    LoggerConfig,
    TokenizerConfig,
    TrainingConfig,
)
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.pretrain import pretrain
{imported}
with open("recipe.yaml", encoding="utf-8") as file:
    recipe = yaml.safe_load(file)
optimizer, scheduler = distributed_fused_adam_with_cosine_annealing(
    precision="{precision}", max_lr=1e-4, lr_warmup_iters=0
)
config = ConfigContainer(
    model={provider}(
        **recipe.pop("model"),
        pipeline_dtype=torch.{dtype},
        activation_func={activation},
    ),
    train=TrainingConfig(**recipe.pop("train"), train_iters=10, eval_iters=0),
    optimizer=optimizer,
    scheduler=scheduler,
    dataset=GPTDatasetConfig(
        **recipe.pop("dataset"),
        random_seed=1234,
        reset_attention_mask=False,
        reset_position_ids=False,
        eod_mask_loss=False,
        blend=None,
        split="9999,8,2",
        dataloader_type="single",
    ),
    tokenizer=TokenizerConfig(
        **recipe.pop("tokenizer"), tokenizer_type="NullTokenizer"
    ),
    checkpoint=CheckpointConfig(),
    logger=LoggerConfig(log_interval=1),
    mixed_precision={mixed},
)
{gradients}for section, fields in recipe.items():
    for name, value in fields.items():
        setattr(getattr(config, section), name, value)
pretrain(config=config, forward_step_func=forward_step)
'''


def losses(job: Job) -> Iterator[Loss]:
    """Yield what Megatron-Bridge cannot do of a plan."""
    yield from megatron_losses(job, bridge_model)
    yield from _own_losses(job.problem)


def _problem_losses(problem: Problem) -> Iterator[Loss]:
    """Yield what Megatron-Bridge cannot do of a problem under any plan."""
    yield from limit_losses(problem, bridge_model)
    yield from _own_losses(problem)


def _own_losses(problem: Problem) -> Iterator[Loss]:
    yield from choice_losses(problem.training, _HAS)
    model, seq_len = problem.model, problem.training.seq_len
    if model.positions > seq_len:
        yield Loss(
            f"a table of {model.positions} positions for sequences of {seq_len}: "
            "it is as long as a sequence",
            instead=f"{seq_len} positions",
        )


def files(job: Job) -> Mapping[str, str]:
    """Return the recipe, a program that reads it, and one script per node."""
    precision = stored_precision(job.problem.training)
    activation = _ACTIVATIONS[stated(job.problem.model, "activation")]
    module, provider = _PROVIDERS[job.problem.model.latent is not None]
    narrow = job.problem.training.gradients == "bf16" and precision != "fp32"
    of_gradients, mixed, gradients = _GRADIENTS if narrow else ("", _BY_NAME, "")
    imported = "" if "." in activation else _IMPORTED.format(activation)
    return {
        "recipe.yaml": yaml.safe_dump(
            recipe(job), sort_keys=False, default_flow_style=False, width=4096
        ),
        "pretrain.py": _PROGRAM.format(
            dtype=_DTYPES[precision],
            module=module,
            provider=provider,
            precision=_TRAINERS[precision],
            activation=activation,
            imported=of_gradients + imported,
            mixed=mixed,
            gradients=gradients,
        ),
        **torchrun_scripts(job, ["pretrain.py"], environment(job), TESTED),
    }


def commands(job: Job) -> str:
    """Say where to run the scripts."""
    first = script_name(job, 0)
    parts = [
        "`recipe.yaml` holds what the plan decides and the model whole (norms, "
        "positions, biases, dropout), under the names that override "
        "files of Megatron-Bridge have. `pretrain.py` reads it; set your "
        "data, tokenizer, learning rate, iterations and checkpoints there. Copy "
        "this folder to every host and run on each, where `megatron.bridge` can "
        "be imported (as in NeMo's container), its own script; ranks meet on the "
        "first host:",
        f"    ./{first}",
    ]
    return "\n\n".join(parts + mixed_note(job))


def _recompute(policy: Recompute) -> dict[str, Any]:
    """Return Megatron-core's settings, absent ones as None, modules in a list."""
    names = "recompute_granularity", "recompute_method", "recompute_num_layers"
    said = {**dict.fromkeys(names), **recompute_settings(policy)}
    if "recompute_modules" in said:
        said["recompute_modules"] = [said["recompute_modules"]]
    return said


def recipe(job: Job) -> dict[str, Any]:
    """Return the fields of Megatron-Bridge's configuration that a plan decides."""
    model, training = job.problem.model, job.problem.training
    strategy = job.stages[0].strategy
    sharded = shards_optimizer(job)
    overlaps = training.overlap_tensor and strategy.tp > 1
    return {
        "model": {
            **_sizes(model),
            "seq_length": training.seq_len,
            **_architecture(bridge_model(model)),
            "tensor_model_parallel_size": strategy.tp,
            "pipeline_model_parallel_size": len(job.stages),
            "context_parallel_size": strategy.cp,
            "sequence_parallel": strategy.tp > 1 and training.sequence_parallel,
            "cross_entropy_loss_fusion": training.cross_entropy == "fused",
            "pipeline_model_parallel_layout": layout_said(job),
            # Megatron-core overlaps nothing by default; Megatron-LM's parser sets it.
            **(
                {"overlap_p2p_comm": True, "batch_p2p_comm": False}
                if job.plan.chunks > 1
                else {}
            ),
            **_experts(job),
            **_recompute(strategy.recompute),
        },
        "train": {
            "micro_batch_size": job.microbatch_size(job.stages[0]),
            "global_batch_size": training.global_batch,
        },
        "dataset": {"sequence_length": training.seq_len},
        # The tokenizer for made-up data adds one token.
        "tokenizer": {"vocab_size": model.vocab - 1},
        "optimizer": {
            "optimizer": training.optimizer,
            "use_distributed_optimizer": sharded,
            **offload_settings(job),
        },
        "ddp": {
            **optimizer_shards(job),
            "overlap_grad_reduce": training.overlap_gradients,
        },
        "mixed_precision": _MIXED.get(training.precision),
        **({"comm_overlap": _OVERLAP} if overlaps else {}),
    }


def _sizes(model: Model) -> dict[str, Any]:
    return {
        "num_layers": model.layers,
        "hidden_size": model.hidden,
        "ffn_hidden_size": model.ffn,
        "num_attention_heads": model.heads,
        "num_query_groups": model.kv_heads,
        "kv_channels": model.head_dim,
        "vocab_size": model.vocab,
        "should_pad_vocab": True,
        "share_embeddings_and_output_weights": model.tied,
    }


def _experts(job: Job) -> dict[str, Any]:
    """Return the fields of experts, latent attention and further tokens."""
    model, moe = bridge_model(job.problem.model), job.problem.training.moe
    fields = expert_settings(model, moe) | latent_settings(model)
    if model.experts is not None:
        ep, etp = expert_degrees(job)
        fields = dispatcher_settings(fields, ep, etp)
        fields |= {
            "num_moe_experts": model.experts.number,
            "expert_model_parallel_size": ep,
            "expert_tensor_parallel_size": etp,
            **overlap_settings(job),
        }
        if model.experts.shared_ffn:
            fields["moe_shared_expert_gate"] = model.experts.shared_gate
    if model.predictions:
        fields["mtp_num_layers"] = model.predictions
    return fields


def _architecture(model: Model) -> dict[str, Any]:
    """Return the fields of a model as ``bridge_model`` returns it."""
    own, (qkv, _, mlp) = model.architecture, model.biases
    fields: dict[str, Any] = {
        "normalization": "RMSNorm" if model.norm == "rms" else "LayerNorm",
        "layernorm_epsilon": own.norm_eps,
        "layernorm_zero_centered_gamma": own.norm_zero_centred,
        "qk_layernorm": own.qk_norm == "head" or model.latent is not None,
        "add_bias_linear": mlp,
        "add_qkv_bias": qkv and not mlp,
        "gated_linear_unit": model.gated,
        "hidden_dropout": own.hidden_dropout,
        "attention_dropout": own.attention_dropout,
        "position_embedding_type": "learned_absolute" if model.positions else "rope",
    }
    fields |= sinks_and_clamp(model)
    if own.attention_scale is not None:
        fields["softmax_scale"] = own.attention_scale
    window = window_size(model)
    if window is not None:
        fields |= {
            "window_size": list(window),
            "window_attn_skip_freq": window_frequency(model),
        }
    skipped = rotary_frequency(model)
    if skipped is not None:
        fields["no_rope_freq"] = skipped
    if model.positions:
        return fields
    fields |= {
        "rotary_base": int(own.rotary_base),
        "rotary_percent": own.rotary_fraction,
        "rotary_interleaved": own.rotary_interleaved and model.latent is None,
    }
    scaling = own.rotary_scaling
    if scaling is None:
        return fields
    if scaling.kind == "linear":
        return fields | {"seq_len_interpolation_factor": scaling.factor}
    return fields | {"rope_scaling": True, "rope_scaling_factor": scaling.factor}


LAUNCHER = Launcher(
    name="nemo",
    title="NeMo Megatron-Bridge",
    losses=losses,
    launched=launched,
    files=files,
    commands=commands,
    limits=replace(LIMITS, losses=_problem_losses),
    tested=TESTED,
    divides_hosts=True,
)
