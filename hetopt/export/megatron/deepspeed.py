"""Reads the DeepSpeed configuration of a script of Megatron-DeepSpeed.

Keys are those of DeepSpeed's ``runtime/config.py`` and ``runtime/zero/config.py``;
keys of nested mappings are joined with dots.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import is_there, parse_json, read_json
from hetopt.base.words import counted, describe
from hetopt.errors import InputError
from hetopt.export.shared.megatron.numbers import whole
from hetopt.export.understood import Read, not_priced, table
from hetopt.results.reported import Reported

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from hetopt.export.shared.shell.arguments import ShellArguments
    from hetopt.problem.cluster.cluster import Offload

_CONFIG = "--deepspeed-config"
_STAGE = "--zero-stage"
_BATCHES = {
    "train_batch_size": "--global-batch-size",
    "train_micro_batch_size_per_gpu": "--micro-batch-size",
}
_GRADIENTS = {"fp32": "fp32", "float32": "fp32", "bf16": "bf16", "bfloat16": "bf16"}
_PRECISIONS = {
    "bf16.enabled": "bf16",
    "bfloat16.enabled": "bf16",
    "fp16.enabled": "fp16",
}

_KEYS = table(
    """
    steps_per_print wall_clock_breakdown gradient_clipping prescale_gradients dump_state
    gradient_predivide_factor zero_allow_untested_optimizer memory_breakdown
    zero_force_ds_cpu_optimizer fp16.auto_cast fp16.loss_scale fp16.initial_scale_power
    fp16.loss_scale_window fp16.hysteresis fp16.min_loss_scale
    fp16.consecutive_hysteresis bf16.loss_scale bf16.loss_scale_window bf16.hysteresis
    bf16.initial_scale_power
    bf16.min_loss_scale bf16.check_grad_overflow
    optimizer.params.lr optimizer.params.betas optimizer.params.eps
    optimizer.params.weight_decay optimizer.params.torch_adam scheduler.type
    scheduler.params.warmup_min_lr scheduler.params.warmup_max_lr
    scheduler.params.warmup_num_steps scheduler.params.total_num_steps
    scheduler.params.warmup_type activation_checkpointing.profile
    activation_checkpointing.number_checkpoints
    activation_checkpointing.synchronize_checkpoint_boundary
    activation_checkpointing.contiguous_memory_optimization
    aio.block_size aio.queue_depth aio.single_submit aio.overlap_events aio.thread_count
    tensorboard.enabled tensorboard.output_path tensorboard.job_name
    wandb.enabled wandb.group wandb.team wandb.project csv_monitor.enabled
    csv_monitor.output_path csv_monitor.job_name comms_logger.enabled
    comms_logger.verbose comms_logger.prof_all comms_logger.debug flops_profiler.enabled
    flops_profiler.profile_step flops_profiler.module_depth flops_profiler.top_modules
    flops_profiler.detailed flops_profiler.output_file checkpoint.tag_validation
    checkpoint.use_node_local_storage checkpoint.load_universal
    zero_optimization.ignore_unused_parameters zero_optimization.load_from_fp32_weights
    zero_optimization.elastic_checkpoint zero_optimization.legacy_stage1
    zero_optimization.stage3_gather_fp16_weights_on_model_save
    zero_optimization.stage3_gather_16bit_weights_on_model_save
    zero_optimization.offload_optimizer.buffer_count
    zero_optimization.offload_optimizer.pin_memory
    zero_optimization.offload_optimizer.pipeline_read
    zero_optimization.offload_optimizer.pipeline_write
    zero_optimization.offload_optimizer.fast_init
    zero_optimization.offload_optimizer.nvme_path
    zero_optimization.offload_param.buffer_count
    zero_optimization.offload_param.buffer_size
    zero_optimization.offload_param.max_in_cpu
    zero_optimization.offload_param.nvme_path
    zero_optimization.offload_param.pin_memory
    """,
    {
        "hetopt prices optimizer, weights and activations in device memory": (
            "zero_optimization.offload_optimizer.device=none "
            "zero_optimization.offload_param.device=none zero_optimization.cpu_offload "
            "zero_optimization.offload_optimizer.ratio "
            "zero_optimization.cpu_offload_params "
            "activation_checkpointing.cpu_checkpointing"
        ),
        "hetopt prices activations kept whole on each tensor rank": (
            "activation_checkpointing.partition_activations"
        ),
        "hetopt prices the reduction of gradients in a runtime's usual buckets": (
            "zero_optimization.allgather_bucket_size zero_optimization.reduce_scatter "
            "zero_optimization.reduce_bucket_size zero_optimization.sub_group_size "
            "zero_optimization.allgather_partitions zero_optimization.round_robin_"
            "gradients zero_optimization.contiguous_gradients"
        ),
        "hetopt prices ZeRO 3 as it gathers by default": (
            "zero_optimization.stage3_max_live_parameters "
            "zero_optimization.stage3_max_reuse_distance "
            "zero_optimization.stage3_param_persistence_threshold "
            "zero_optimization.stage3_prefetch_bucket_size "
            "zero_optimization.stage3_module_granularity_threshold "
            "zero_optimization.zero_hpz_partition_size=1 "
            "zero_optimization.mics_shard_size=-1"
        ),
        "hetopt prices messages in the training's precision": (
            "zero_optimization.zero_quantized_weights communication_data_type "
            "zero_optimization.zero_quantized_gradients seq_parallel_communication_"
            "data_type zero_optimization.zero_quantized_nontrainable_weights"
        ),
        "hetopt prices whole sequences, without packing and dropping tokens": (
            "curriculum_learning.enabled data_efficiency.enabled sparse_attention.mode"
        ),
        "hetopt prices master weights and gradients in 32 bits": (
            "fp16.fp16_master_weights_and_grads bf16.immediate_grad_update"
        ),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeepSpeed:
    """What DeepSpeed's configuration says besides a script's arguments.

    Attributes
    ----------
    says
        Fields of a training.
    reported
        What hetopt cannot price of it.
    offload
        The state that is kept in host memory.
    """

    says: dict[str, Any]
    reported: tuple[Reported, ...]
    offload: Offload | None = None


def deepspeed_says(
    folder: Path, arguments: ShellArguments, sizes: tuple[int, int, int]
) -> DeepSpeed | None:
    """Read DeepSpeed's configuration; None if the script does not use DeepSpeed.

    Parameters
    ----------
    sizes
        Sequences of an iteration and of a micro-batch, and replicas; the configuration
        must agree with them.

    Raises
    ------
    InputError
        The configuration is malformed, contradicts the arguments, or asks for what
        DeepSpeed refuses.
    """
    if not any(name in arguments for name in ("--deepspeed", _CONFIG)):
        return None
    stage = whole(arguments.values, "zero_stage", arguments.wrong, 1, least=0)
    name = arguments.get(_CONFIG)
    found = None if name is None else _read(folder, arguments, name)
    says: dict[str, Any] = {}
    reported: tuple[Reported, ...] = ()
    offloads = False
    if found is None:
        file = arguments.file
        why = f"names {describe(name)}, which is not here" if name else "is not given"
        told = f"{why}: hetopt prices what the arguments say, and DeepSpeed's defaults"
        reported = (not_priced(_CONFIG, told),)
        says["overlap_gradients"] = stage == 3
    else:
        file, keys = found

        def wrong(key: str, message: str) -> InputError:
            return InputError(message, file=file, field=key)

        given = whole(keys, "zero_optimization.stage", wrong, 0, least=0)
        if _STAGE in arguments and given != stage:
            msg = f"is {given}, expected {stage} as in {_STAGE}"
            raise wrong("zero_optimization.stage", msg)
        stage = given
        _check_batches(keys, wrong, sizes)
        says |= _training(keys, stage)
        offloads = _offloads(keys)
        reported = _KEYS.report(keys.left())
        if "gradients" not in says and "bf16.enabled" in keys:
            why = "is not given: hetopt prices gradients in 32 bits"
            reported += (not_priced("data_types.grad_accum_dtype", why),)
    _check_stage(arguments, stage, file)
    says["zero"] = stage
    if sizes[2] == 1:
        del says["zero"], says["overlap_gradients"]
    return DeepSpeed(
        says=says, reported=reported, offload="optimizer" if offloads else None
    )


def _offloads(keys: Read) -> bool:
    """Whether the optimizer is in host memory; other places are reported."""
    key = "zero_optimization.offload_optimizer.device"
    return keys.left().get(key) == "cpu" and keys[key] == "cpu"


def _check_stage(arguments: ShellArguments, stage: int, file: str) -> None:
    """Raise InputError for an unknown ZeRO stage, or one that pipelines refuse."""
    if stage > 3:
        msg = f"is {stage}, expected 0, 1, 2 or 3"
        raise InputError(msg, file=file, field="zero_optimization.stage")
    if stage > 1 and "--no-pipeline-parallel" not in arguments:
        msg = (
            f"is {stage}, which DeepSpeed's pipelines refuse: expected 0 or 1, or "
            "--no-pipeline-parallel"
        )
        raise InputError(msg, file=file, field="zero_optimization.stage")


def _check_batches(keys: Read, wrong: Any, sizes: tuple[int, int, int]) -> None:
    """Raise InputError if the sizes of batches differ from the arguments."""
    batch, micro, replicas = sizes
    expected = dict(zip(_BATCHES, (batch, micro), strict=True))
    for name, argument in _BATCHES.items():
        if keys.get(name, "auto") == "auto":
            continue
        given = whole(keys, name, wrong)
        if given != expected[name]:
            raise wrong(name, f"is {given}, expected {expected[name]} as in {argument}")
    name = "gradient_accumulation_steps"
    if keys.get(name, "auto") != "auto":
        steps, needed = whole(keys, name, wrong), batch // (micro * replicas)
        if steps != needed:
            msg = (
                f"is {steps}, {counted(batch, 'sequence')} are "
                f"{counted(needed, 'micro-batch', 'es')} of {micro}"
            )
            raise wrong(name, msg)


def _training(keys: Read, stage: int) -> dict[str, Any]:
    overlaps = keys.get("zero_optimization.overlap_comm", str(stage == 3))
    says: dict[str, Any] = {"overlap_gradients": overlaps.lower() == "true"}
    on = [p for key, p in _PRECISIONS.items() if keys.get(key, "") == "true"]
    if on:
        says["precision"] = on[0]
    accumulated = keys.get("data_types.grad_accum_dtype")
    if accumulated is not None:
        says["gradients"] = _GRADIENTS.get(accumulated, accumulated)
    if "optimizer.type" in keys:
        kind = keys["optimizer.type"].lower()
        says["optimizer"] = "adam" if kind in ("adam", "adamw", "fusedadam") else kind
    return says


def _read(
    folder: Path, arguments: ShellArguments, name: str
) -> tuple[str, Read] | None:
    """Return a configuration's name and keys, from the script or a file beside it."""
    base = PurePath(name).name
    for path, text in arguments.documents.items():
        if path == name or PurePath(path).name == base:
            where = f"{arguments.file}: {base}"
            return where, _flat(parse_json(text.encode(), where, "JSON"), where)
    for home in (folder, folder.parent if folder.name == "nodes" else folder):
        if base and is_there(home / base):
            file = str(home / base)
            return file, _flat(read_json(file, "DeepSpeed's configuration"), file)
    return None


def _flat(content: Any, file: str) -> Read:
    if not isinstance(content, dict):
        raise InputError("is no mapping", file=file)
    return Read(dict(_leaves(content)))


def _leaves(content: dict[str, Any], home: str = "") -> Iterator[tuple[str, str]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{home}{key}.")
        else:
            yield home + key, value if isinstance(value, str) else json.dumps(value)
