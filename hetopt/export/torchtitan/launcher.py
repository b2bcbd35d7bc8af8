"""TorchTitan 0.3: a Python file with model and configuration, the schedule as a CSV.

Its pipelines run through torch.distributed.pipelining, which under FSDP gathers a
stage's weights once an iteration and keeps gradients whole until the last micro-batch:
that is ZeRO 1. Meshes are laid out pp, dp, cp, tp, the last the fastest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.launcher import Launcher, Tested
from hetopt.export.shared.losses import shard_copies
from hetopt.export.shared.one_mesh import expert_degrees, launched
from hetopt.export.shared.scripts import mixed_note, script_name, torchrun_scripts
from hetopt.export.torchtitan.losses import can_copy, losses, said
from hetopt.export.torchtitan.mixture import balances, mixture_function, mlp_arguments
from hetopt.export.torchtitan.schedule_csv import schedule_text
from hetopt.problem.layout import layout_chunks, layout_of
from hetopt.problem.training.choices import INTERLEAVED, RECOMPUTE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.export.job import Job
    from hetopt.problem.model.model import Model

TESTED = Tested(what="0.3", module="torchtitan")

_DTYPES = {
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp16": "bfloat16",
    "fp8": "bfloat16",
}

#: TorchTitan calls ``train`` for its configuration.
_PROGRAM = '''\
"""What TorchTitan trains and how, as hetopt planned it."""

from functools import partial

import torch.nn as nn
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.optimizer import default_adamw
{fp8_import}{hook_import}from torchtitan.config import ParallelismConfig, TrainingConfig
from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC
from torchtitan.distributed.pipeline_parallel import pipeline_llm
from torchtitan.hf_datasets.text_datasets import HuggingFaceTextDataLoader
from torchtitan.models.common import {rope}, Embedding, Linear, RMSNorm
from torchtitan.models.common.config_utils import (
    get_attention_config,
    make_ffn_config,
    make_gqa_config,
{moe_imports})
from torchtitan.models.common.param_init import depth_scaled_std, skip_param_init
from torchtitan.models.{module} import {family}Model, {parallelize}
from torchtitan.models.{module}.model import {family}TransformerBlock
from torchtitan.models.{module}.state_dict_adapter import {family}StateDictAdapter
from torchtitan.protocols.model_spec import ModelSpec
from torchtitan.trainer import Trainer

HIDDEN, LAYERS, VOCAB = {hidden}, {layers}, {vocab}
HEADS, KV_HEADS, HEAD_DIM = {heads}, {kv_heads}, {head_dim}
TIED = {tied}
{dense_layers}

def normal(std):
    return {{"weight": partial(nn.init.trunc_normal_, std=std)}}


def norm(size):
    return RMSNorm.Config(
        normalized_shape=size,
        eps={norm_eps!r},
        param_init={{"weight": nn.init.ones_}},
    )
{mixture}

def layer(number):
    deep = normal(depth_scaled_std(0.02, number))
    return {family}TransformerBlock.Config(
        attention_norm=norm(HIDDEN),
        ffn_norm=norm(HIDDEN),
        attention=make_gqa_config(
            dim=HIDDEN,
            n_heads=HEADS,
            n_kv_heads=KV_HEADS,
            head_dim=HEAD_DIM,
            fuse_qkv=True,
            wqkv_param_init=normal(0.02),
            wo_param_init=deep,
            inner_attention=get_attention_config("flex"),
{qk_norm}            rope={rope}.Config(
                dim=HEAD_DIM,
                max_seq_len={seq_len},
                theta={rotary_base!r},
{scaling}            ),
        ),
{mlp}    )


def model():
    first = {{"weight": skip_param_init if TIED else nn.init.normal_}}
    return {family}Model.Config(
        dim=HIDDEN,
        vocab_size=VOCAB,
        enable_weight_tying=TIED,
        tok_embeddings=Embedding.Config(
            num_embeddings=VOCAB, embedding_dim=HIDDEN, param_init=first
        ),
        layers=[layer(number) for number in range(LAYERS)],
        norm=norm(HIDDEN),
        lm_head=Linear.Config(
            in_features=HIDDEN, out_features=VOCAB, param_init=normal(HIDDEN**-0.5)
        ),
    )


def train():
    return Trainer.Config(
        model_spec=ModelSpec(
            name="{module}",
            flavor="hetopt",
            model={made},
            parallelize_fn={parallelize},
            pipelining_fn=pipeline_llm,
            post_optimizer_build_fn={hook},
            state_dict_adapter={family}StateDictAdapter,
        ),
        loss=CrossEntropyLoss.Config(global_vocab_size=VOCAB),
        optimizer=default_adamw(),
        dataloader=HuggingFaceTextDataLoader.Config(),
        training=TrainingConfig(
{training}        ),
        parallelism=ParallelismConfig(
{parallelism}        ),
        activation_checkpoint={checkpoint},
    )
'''

_FFN = """\
make_ffn_config(
            dim=HIDDEN,
            hidden_dim={ffn},
            w1_param_init=normal(0.02),
            w2w3_param_init=deep,
        )"""
_LLAMA = {
    "family": "Llama3",
    "module": "llama3",
    "parallelize": "parallelize_llama",
    "rope": "ComplexRoPE",
    "moe_imports": "",
    "dense_layers": "",
    "mixture": "",
    "qk_norm": "",
}
_QWEN = {
    "family": "Qwen3",
    "module": "qwen3",
    "parallelize": "parallelize_qwen3",
    "rope": "CosSinRoPE",
    "moe_imports": "    make_moe_config,\n    make_routed_experts_config,\n"
    "    make_router_config,\n",
}
_CHECKPOINTS = {
    "none": "None",
    "selective": "SelectiveAC.Config()",
    "full": "FullAC.Config()",
    "per-operator": "SelectiveAC.Config()",
}
_FP8_IMPORT = "from torchtitan.components.quantization import Float8LinearConverter\n"
_FP8_MODEL = (
    'Float8LinearConverter.Config(filter_fqns=["lm_head"]).build().convert(model())'
)


def files(job: Job) -> Mapping[str, str]:
    """Return the program, the schedule, and one script per node."""
    model, training = job.problem.model, job.problem.training
    trained = said(model)
    fp8 = training.precision == "fp8"
    files = {
        "hetopt_plan.py": _PROGRAM.format(
            fp8_import=_FP8_IMPORT if fp8 else "",
            made=_FP8_MODEL if fp8 else "model()",
            hidden=model.hidden,
            layers=model.layers,
            vocab=model.vocab,
            heads=model.heads,
            kv_heads=model.kv_heads,
            head_dim=model.head_dim,
            **_family(model),
            tied=model.tied and len(job.stages) == 1,
            norm_eps=trained.architecture.norm_eps,
            seq_len=training.seq_len,
            rotary_base=trained.architecture.rotary_base,
            scaling=_lines(_scaling(trained), 16),
            training=_lines(_training(job), 12),
            parallelism=_lines(_parallelism(job), 12),
            checkpoint=_CHECKPOINTS[job.stages[0].strategy.recompute],
        )
    }
    if len(job.stages) > 1 and job.plan.chunks == 1:
        files["schedule.csv"] = schedule_text(
            [stage.warmup for stage in job.stages], job.microbatches
        )
    program = ["-m", "torchtitan.train", "--module", "hetopt_plan", "--config", "train"]
    return {**files, **torchrun_scripts(job, program, tested=TESTED)}


def _family(model: Model) -> dict[str, object]:
    """Return the program's parts for a Llama or, with experts, for a Qwen3."""
    experts = model.experts
    hook = "register_moe_load_balancing_hook"
    balanced = experts is not None and balances(experts)
    found: dict[str, object] = {
        "mlp": mlp_arguments(model, _FFN.format(ffn=model.ffn)),
        "hook": hook if balanced else None,
        "hook_import": f"from torchtitan.components.optimizer import {hook}\n"
        if balanced
        else "",
    }
    if experts is None:
        return found | _LLAMA
    dense = f"DENSE = {experts.dense_layers!r}\n" if experts.dense_layers else ""
    qk_norm = model.architecture.qk_norm == "head"
    return found | {
        **_QWEN,
        "dense_layers": dense,
        "mixture": mixture_function(experts),
        "qk_norm": f"{' ' * 12}qk_norm=norm(HEAD_DIM),\n" if qk_norm else "",
    }


def commands(job: Job) -> str:
    """Say what else TorchTitan needs."""
    first = script_name(job, 0)
    family = "Llama" if job.problem.model.experts is None else "Qwen3 with experts"
    parts = [
        f"`hetopt_plan.py` holds a {family} of the plan's sizes and all that the plan "
        "decides. Tokenizer, data, steps and learning rate follow as arguments. Copy "
        "this folder to every host and run on each, where `torchtitan` can be "
        "imported, its own script; ranks meet on the first host:",
        f"    ./{first} --hf_assets_path ASSETS --dataloader.dataset c4 "
        "--training.steps 100",
    ]
    if job.problem.training.precision == "fp8":
        parts.append("Multiplications in FP8 need `torchao`.")
    return "\n\n".join(parts + mixed_note(job))


def _lines(arguments: Mapping[str, object], indent: int) -> str:
    """Return arguments of a call, a line each."""
    return "".join(
        f"{' ' * indent}{name}={value!r},\n" for name, value in arguments.items()
    )


def _scaling(model: Model) -> dict[str, object]:
    """Return the scaling of rotary frequencies as in Llama 3.1, if there is any."""
    scaling = model.architecture.rotary_scaling
    if scaling is None:
        return {}
    return {
        "scaling": "llama",
        "scaling_factor": scaling.factor,
        "low_freq_factor": scaling.low_freq_factor,
        "high_freq_factor": scaling.high_freq_factor,
        "original_max_position_embeddings": scaling.original_positions,
    }


def _training(job: Job) -> dict[str, object]:
    training, piped = job.problem.training, len(job.stages) > 1
    each = job.microbatch_size(job.stages[0])
    return {
        # Without a pipeline, micro-batches are steps that accumulate gradients.
        "local_batch_size": each * (job.microbatches if piped else 1),
        "global_batch_size": training.global_batch,
        "seq_len": training.seq_len,
        "mixed_precision_param": _DTYPES[training.precision],
        # TorchTitan refuses them in pipelines.
        "disable_cuda_graphs": True,
    }


def _parallelism(job: Job) -> dict[str, object]:
    """Return the degrees of a job with one strategy for all stages."""
    strategy = job.stages[0].strategy
    piped, copies = len(job.stages) > 1, strategy.dp
    if max(job.zero_stages) > 0:
        # Else without copies, as losses say.
        copies = max(shard_copies(job.problem, strategy)) if can_copy(job) else 1
    found: dict[str, object] = {
        "data_parallel_replicate_degree": copies,
        "data_parallel_shard_degree": strategy.dp // copies,
        "context_parallel_degree": strategy.cp,
        "tensor_parallel_degree": strategy.tp,
        "pipeline_parallel_degree": len(job.stages),
        "fsdp_reshard_after_forward": (
            "always" if max(job.zero_stages) > 2 and not piped else "never"
        ),
    }
    if job.problem.model.experts is not None:
        found["expert_parallel_degree"] = expert_degrees(job)[0]
    if piped:
        scheduled = {"pipeline_parallel_schedule": "Interleaved1F1B"}
        if job.plan.chunks == 1:
            scheduled = {
                "pipeline_parallel_schedule": "PipelineScheduleSingle",
                "pipeline_parallel_schedule_csv": "schedule.csv",
            }
        chunks = layout_chunks(layout_of(job.plan.ends, job.problem.model))
        found |= {
            **scheduled,
            "pipeline_parallel_microbatch_size": job.microbatch_size(job.stages[0]),
            "module_fqns_per_model_part": _modules([c.count("t") for c in chunks]),
        }
    return found


def _modules(layers: Sequence[int]) -> list[list[str]]:
    """Return the modules of each part of so many layers, by TorchTitan's names."""
    parts: list[list[str]] = []
    done = 0
    for count in layers:
        parts.append([f"layers.{layer}" for layer in range(done, done + count)])
        done += count
    parts[0].insert(0, "tok_embeddings")
    parts[-1] += ["norm", "lm_head"]
    return parts


LAUNCHER = Launcher(
    name="torchtitan",
    title="TorchTitan",
    losses=losses,
    launched=launched,
    files=files,
    commands=commands,
    tested=TESTED,
    # PyTorch 2.13, schedules.py: _check_torch_compile_compatibility.
    no_split="PyTorch splits no backward pass through compiled functions, and "
    "TorchTitan compiles its FlexAttention",
    schedules=(INTERLEAVED,),
    recomputes=(*RECOMPUTE, "per-operator"),
    copies=True,
    limits="its pipelines are those of torch.distributed.pipelining: use torch",
    divides_hosts=True,
)
