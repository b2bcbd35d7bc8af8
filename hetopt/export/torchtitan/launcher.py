"""TorchTitan 0.2.2: a TOML file, the schedule as a CSV, and a model of the plan's size.

Its pipelines run through torch.distributed.pipelining, which under FSDP gathers a
stage's weights once an iteration and keeps gradients whole until the last micro-batch:
that is ZeRO 1. Meshes are laid out pp, dp, cp, tp, the last the fastest.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hetopt.export.launcher import Launcher, Loss
from hetopt.export.shared.architecture import architecture_losses, as_said
from hetopt.export.shared.kernels import FP8, UNFUSED_LOSS, choice_losses
from hetopt.export.shared.one_mesh import (
    launched,
    one_mesh_losses,
    recompute_loss,
    shared_head_losses,
)
from hetopt.export.shared.schedule_csv import schedule_text
from hetopt.export.shared.scripts import mixed_note, script_name, torchrun_scripts
from hetopt.export.shared.torch_modules import module_names
from hetopt.problem.architecture import RotaryScaling

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.export.job import Job
    from hetopt.problem.model import Model

_DTYPES = {
    "bf16": "bfloat16",
    "fp32": "float32",
    "fp16": "bfloat16",
    "fp8": "bfloat16",
}

#: Makes every linear layer but the head multiply in FP8.
_FLOAT8 = "quantize.linear.float8"

_FLAVOR = '''\
"""Adds the plan's model to TorchTitan's Llama 3 models."""

from torchtitan.models.llama3.model.args import RoPEScalingArgs, TransformerModelArgs
from torchtitan.protocols.train_spec import get_train_spec

get_train_spec("llama3").model_args["hetopt"] = TransformerModelArgs(
    dim={hidden},
    n_layers={layers},
    n_heads={heads},
    n_kv_heads={kv_heads},
    vocab_size={vocab},
    # The inner width is rounded up to a multiple: of {ffn}, to {ffn} itself.
    multiple_of={ffn},
    ffn_dim_multiplier={multiplier!r},
    max_seq_len={seq_len},
    norm_eps={norm_eps!r},
    rope_theta={rotary_base!r},
    # Its default stretches frequencies as Llama 3.1 does; a factor of 1 does not.
    rope_scaling_args=RoPEScalingArgs(
        scaling_factor={factor!r},
        low_freq_factor={low!r},
        high_freq_factor={high!r},
        original_max_position_embeddings={original},
    ),
)
'''


def files(job: Job) -> Mapping[str, str]:
    """Return configuration, model, schedule, and one script per node."""
    model, training = _said(job.problem.model), job.problem.training
    scaling = model.architecture.rotary_scaling or RotaryScaling(
        kind="llama3", factor=1.0
    )
    flavor = _FLAVOR.format(
        hidden=model.hidden,
        layers=model.layers,
        heads=model.heads,
        kv_heads=model.kv_heads,
        vocab=model.vocab,
        ffn=model.ffn,
        # Llama multiplies 8/3 of the hidden size by it, to about ffn / 3.
        multiplier=model.ffn / (8 * model.hidden),
        seq_len=training.seq_len,
        norm_eps=model.architecture.norm_eps,
        rotary_base=model.architecture.rotary_base,
        factor=scaling.factor,
        low=scaling.low_freq_factor,
        high=scaling.high_freq_factor,
        original=scaling.original_positions,
    )
    files = {
        "train.toml": _toml(job),
        "hetopt_flavor.py": flavor,
    }
    if len(job.stages) > 1:
        files["schedule.csv"] = schedule_text(
            [stage.warmup for stage in job.stages], job.microbatches
        )
    program = ["-m", "torchtitan.train", "--job.config_file", "train.toml"]
    return {**files, **torchrun_scripts(job, program)}


def commands(job: Job) -> str:
    """Say what else TorchTitan needs."""
    first = script_name(job, 0)
    parts = [
        "For TorchTitan 0.2.2. `train.toml` holds what the plan decides, "
        "`hetopt_flavor.py` adds a Llama of the plan's size, norm epsilon and "
        "rotary frequencies. Tokenizer, data, "
        "steps and learning rate follow as arguments. Copy this folder to every "
        "host and run on each, where `torchtitan` can be imported, its own "
        "script; ranks meet on the first host:",
        f"    ./{first} --model.hf_assets_path ASSETS --training.dataset c4 "
        "--training.steps 100",
    ]
    return "\n\n".join(parts + mixed_note(job))


def _toml(job: Job) -> str:
    """Return TorchTitan's configuration of a job with one strategy for all stages."""
    training, strategy, layers = (
        job.problem.training,
        job.stages[0].strategy,
        job.layers,
    )
    assert layers is not None
    each = job.microbatch_size(job.stages[0])
    piped = len(job.stages) > 1
    sharded = _is_sharded(job)
    parallelism: dict[str, object] = {
        "data_parallel_replicate_degree": 1 if sharded else strategy.dp,
        "data_parallel_shard_degree": strategy.dp if sharded else 1,
        "context_parallel_degree": strategy.cp,
        "tensor_parallel_degree": strategy.tp,
        "pipeline_parallel_degree": len(job.stages),
        "fsdp_reshard_after_forward": (
            "always" if max(job.zero_stages) > 2 and not piped else "never"
        ),
    }
    if piped:
        parallelism |= {
            "pipeline_parallel_schedule": "PipelineScheduleSingle",
            "pipeline_parallel_schedule_csv": "schedule.csv",
            "pipeline_parallel_microbatch_size": each,
            "module_fqns_per_model_part": module_names(layers),
        }
    sections: dict[str, dict[str, object]] = {
        "job": {"description": f"{job.problem.model.name}, planned by hetopt"},
        "experimental": {"custom_import": "hetopt_flavor"},
        "model": {"name": "llama3", "flavor": "hetopt"},
        "training": {
            # Without a pipeline, micro-batches are steps that accumulate gradients.
            "local_batch_size": each * (job.microbatches if piped else 1),
            "global_batch_size": training.global_batch,
            "seq_len": training.seq_len,
            "mixed_precision_param": _DTYPES[training.precision],
        },
        "parallelism": parallelism,
        "activation_checkpoint": _checkpointing(strategy.recompute),
    }
    if training.precision == "fp8":
        sections["model"]["converters"] = [_FLOAT8]
        sections[_FLOAT8] = {"filter_fqns": ["output"]}
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {_value(v)}\n" for key, v in fields.items())
        for name, fields in sections.items()
    )


def _checkpointing(recompute: str) -> dict[str, object]:
    if recompute == "selective":
        return {"mode": "selective", "selective_ac_option": "op"}
    return {"mode": recompute}


def _value(value: object) -> str:
    """Return a value in TOML; strings, numbers and lists of them are JSON there."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        rows = "".join(f"  {json.dumps(row)},\n" for row in value)
        return f"[\n{rows}]"
    return json.dumps(value)


def losses(job: Job) -> Iterator[Loss]:
    """Yield what TorchTitan cannot do of a plan."""
    yield from one_mesh_losses(job)
    yield from shared_head_losses(job)
    yield from recompute_loss(job)
    model, training = job.problem.model, job.problem.training
    strategies = [stage.strategy for stage in job.stages]
    if any(each.recompute == "selective" for each in strategies) and not any(
        each.recompute == "full" for each in strategies
    ):
        yield Loss(
            what="selective recomputation of the attention core",
            instead="TorchTitan's selective checkpointing, which keeps every other "
            "matrix multiplication's result",
        )
    if len(job.stages) == 1 and min(job.stages[0].warmup, job.microbatches) > 1:
        yield Loss(
            what="all forward passes first in a pipeline of one stage",
            instead="each micro-batch's backward pass after its forward pass",
        )
    yield from _zero_losses(job)
    yield from _model_losses(job)
    for cp, tp in sorted({(each.cp, each.tp) for each in strategies}):
        if training.seq_len % (2 * cp * tp):
            yield Loss(
                what=f"sequences of {training.seq_len} tokens with cp {cp}, tp {tp}: "
                f"they must be multiples of 2 * cp * tp = {2 * cp * tp}",
                instead=None,
            )
    if training.optimizer != "adam":
        yield Loss(what=f"optimizer {training.optimizer}", instead="AdamW")
    yield from choice_losses(training, (FP8, UNFUSED_LOSS))
    if training.precision == "fp16":
        yield Loss(what="fp16: the loss is not scaled", instead="bf16")
    if model.tied:
        yield Loss(
            what="tied embeddings: its Llama has a head of its own",
            instead="an embedding and a head, which need more memory",
        )


def _zero_losses(job: Job) -> Iterator[Loss]:
    """Yield what FSDP or DDP does otherwise."""
    zero, strategy = max(job.zero_stages), job.stages[0].strategy
    piped, replicas = len(job.stages) > 1, strategy.dp * strategy.cp
    if zero == 0 and replicas > 1 and _is_sharded(job):
        yield Loss(
            what="ZeRO 0 beside other parallelism: its DDP stands alone",
            instead="ZeRO 1",
        )
    if zero > 1 and piped:
        yield Loss(
            what=f"ZeRO {zero} in a pipeline: weights are gathered once an iteration, "
            "gradients scattered after the last micro-batch",
            instead="ZeRO 1, which needs more memory",
        )
    if zero in (1, 2) and replicas > 1 and job.microbatches > 1 and not piped:
        yield Loss(
            what=f"ZeRO {zero} without a pipeline: weights are gathered, and gradients "
            "scattered, for every micro-batch",
            instead="that, which takes longer",
        )


def _is_sharded(job: Job) -> bool:
    """Whether FSDP shards: always, except data parallelism alone under ZeRO 0."""
    return max(job.zero_stages) > 0 or job.world_size > job.stages[0].strategy.dp


def _said(model: Model) -> Model:
    """Return the model that its Llama trains: SwiGLU, RMSNorm, no biases."""
    scaling = model.architecture.rotary_scaling
    llama3 = scaling if scaling is not None and scaling.kind == "llama3" else None
    return as_said(
        model,
        # It turns pairs of neighbours; of halves that is another order of weights.
        ("norm_eps", "rotary_base", "rotary_interleaved"),
        rotary_scaling=None if model.positions else llama3,
    )


def _model_losses(job: Job) -> Iterator[Loss]:
    """Yield how the model differs from a Llama, which has no substitute."""
    model = job.problem.model
    yield from architecture_losses(model, _said(model))
    if not model.gated or model.norm != "rms":
        yield Loss(
            what=f"model {model.name}: its Llama has SwiGLU and RMSNorm", instead=None
        )
    if model.positions:
        yield Loss(what="learned positions: its Llama turns heads", instead=None)
    if model.head_dim * model.heads != model.hidden:
        yield Loss(
            what=f"{model.heads} heads of width {model.head_dim} at hidden size "
            f"{model.hidden}: its Llama divides the hidden size among heads",
            instead=None,
        )


LAUNCHER = Launcher(
    name="torchtitan",
    title="TorchTitan",
    losses=losses,
    launched=launched,
    files=files,
    commands=commands,
    limits="its pipelines are those of torch.distributed.pipelining: use --for torch",
)
