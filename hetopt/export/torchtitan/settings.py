"""Settings of TorchTitan by their path, and why hetopt cannot price some of them.

Sources: ``config/job_config.py`` of TorchTitan 0.2.2; ``config/configs.py``,
``trainer.py`` and the ``Config`` classes of ``components``, ``tools`` and
``hf_datasets`` of TorchTitan 0.3.0.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hetopt.base.words import describe
from hetopt.errors import InputError
from hetopt.export.understood import Read, table

if TYPE_CHECKING:
    from collections.abc import Mapping

_HARMLESS = """
job: config_file dump_folder description print_config save_config_file
    use_for_integration_test
profiling: enable_profiling save_traces_folder profile_freq profiler_active
    profiler_warmup enable_memory_snapshot save_memory_snapshot_folder
profiler: enable_profiling save_traces_folder profile_freq profiler_repeat
    profiler_skip_first profiler_skip_first_wait profiler_active profiler_warmup
    enable_memory_snapshot memory_snapshot_freq save_memory_snapshot_folder
    memory_snapshot_max_entries trace_post_processor
metrics: log_freq enable_tensorboard disable_color_printing save_tb_folder
    save_for_all_ranks enable_wandb
model: hf_assets_path tokenizer_path print_after_conversion
model_spec: attn_backend parallelize_fn pipelining_fn post_optimizer_build_fn
    state_dict_adapter
optimizer: lr beta1 beta2 eps weight_decay betas
lr_scheduler: warmup_steps total_steps decay_ratio decay_type min_lr_factor
training: dataset dataset_path max_norm steps gc_freq gc_debug
    mixed_precision_reduce dataloader.num_workers dataloader.persistent_workers
    dataloader.pin_memory dataloader.prefetch_factor
dataloader: dataset dataset_path infinite num_workers persistent_workers pin_memory
    prefetch_factor sources seed stopping_strategy load_dataset_kwargs
    sample_processor
parallelism: spmd_backend context_parallel_rotate_method
    context_parallel_ptrr_mask_key expert_tensor_parallel_degree
    expert_parallel_comm_backend pipeline_parallel_expert_parallel_overlap
checkpoint: enable enable_ft_dataloader_checkpoints folder interval
    initial_load_path initial_load_model_only initial_load_in_hf
    initial_load_in_hf_quantized last_save_model_only last_save_in_hf export_dtype
    async_mode keep_latest_k load_step exclude_from_loading
    enable_first_step_checkpoint create_seed_checkpoint load_only
activation_checkpoint: per_op_sac_force_recompute_mm_shapes_by_fqns early_stop
    force_recompute_mm_shapes_by_fqns memory_budget visualize_memory_budget_pareto
    preserve_rng_state determinism_check debug
compile: components backend
quantize: linear.float8.precompute_float8_dynamic_scale_for_fsdp
    linear.mx.mxfp8_dim1_cast_kernel_choice linear.mx.recipe_name linear.mx.filter_fqns
    grouped_mm.float8.fqns grouped_mm.mx.fqns grouped_mm.mx.recipe_name
comm: init_timeout_seconds train_timeout_seconds trace_buf_size save_traces_folder
    save_traces_file_prefix
fault_tolerance: process_group process_group_timeout_ms replica_id group_size
    min_replica_size semi_sync_method
memory_estimation: disable_fake_mode
validation: enable dataset dataset_path local_batch_size seq_len freq steps
    dataloader.num_workers dataloader.persistent_workers dataloader.pin_memory
    dataloader.prefetch_factor
validator: enable freq steps dataloader
debug: seed moe_force_load_balance print_config save_config_file
    enable_structured_logging spmd_typechecking deterministic_warn_only
loss: global_vocab_size num_chunks loss_fn
"""
#: Settings without a section, and sections of 0.3 that a function may make.
_ALONE = """
hf_assets_path dump_folder module config metrics profiler tokenizer dataloader
validator checkpoint lr_scheduler comm
"""


def _paths(text: str) -> str:
    """Return the paths of settings, separated by spaces."""
    found, section = [], ""
    for word in text.split():
        if word.endswith(":"):
            section = word[:-1]
        else:
            found.append(f"{section}.{word}")
    return " ".join(found)


TITAN = table(
    f"{_paths(_HARMLESS)} {_ALONE}",
    {
        "hetopt prices parameters and optimizer states on the device": (
            "training.enable_cpu_offload"
        ),
        "whether kernels are compiled is a part of training.software": "compile.enable",
        "hetopt prices tensor parallelism's transfers between the multiplications, not "
        "overlapped": (
            "parallelism.enable_async_tensor_parallel "
            "compile.enable_async_tensor_parallel model_spec.tp_gemm_backend=default "
            "model_spec.model.layers.attention.tp_gemm_backend=default "
            "model_spec.model.layers.feed_forward.tp_gemm_backend=default"
        ),
        "hetopt prices a head and a loss split by the vocabulary": (
            "parallelism.disable_loss_parallel"
        ),
        "hetopt prices NCCL's collectives": "parallelism.enable_fsdp_symm_mem",
        "a model without experts has no use for it": (
            "parallelism.expert_parallel_degree=1"
        ),
        "hetopt prices gradients that are kept until the optimizer's step": (
            "optimizer.early_step_in_backward"
        ),
        "hetopt prices an optimizer's step that passes over its states once": (
            "optimizer.implementation=fused|foreach"
        ),
        "hetopt prices weights that are gathered in 16 bits": (
            "quantize.linear.float8.enable_fsdp_float8_all_gather"
        ),
        "hetopt prices one kind of FP8, in every layer": (
            "quantize.linear.float8.recipe_name=tensorwise "
            'quantize.linear.float8.filter_fqns=[]|["output"]|["lm_head"]'
        ),
        "hetopt prices multiplications that the device does in FP8": (
            "quantize.linear.float8.emulate"
        ),
        "hetopt prices the fastest kernels": (
            "debug.deterministic debug.detect_anomaly debug.batch_invariant"
        ),
        "hetopt prices training on every rank": (
            "comm.mode=default memory_estimation.enable"
        ),
        "hetopt prices replicas that reduce their gradients in every iteration": (
            "fault_tolerance.enable"
        ),
        "hetopt cannot read what it changes": (
            "job.custom_config_module= experimental.custom_import= "
            "experimental.custom_args_module= override.imports=[]"
        ),
    },
)
#: Settings of versions before 0.2 that decided the pipeline.
_OLD = {
    "parallelism.pipeline_parallel_split_points": (
        "is of TorchTitan before 0.2: write parallelism.module_fqns_per_model_part"
    ),
    "training.batch_size": (
        "is of TorchTitan before 0.2: write training.local_batch_size"
    ),
}


class Settings:
    """Settings by path, checked when they are read.

    Parameters
    ----------
    values
        Path -> value; what a program computes is text.
    new
        Whether these are of 0.3 rather than 0.2.
    """

    def __init__(self, values: Mapping[str, Any], file: str, *, new: bool) -> None:
        self.file = file
        self.new = new
        self.texts = Read({path: as_text(value) for path, value in values.items()})
        for path, why in _OLD.items():
            if path in values:
                raise self.wrong(path, why)

    def wrong(self, path: str, message: str) -> InputError:
        """Return the error that says ``message`` about a setting."""
        return InputError(message, file=self.file, field=path)

    def text(self, path: str, default: str = "") -> str:
        """Return a value as text; the default if it is left out or none."""
        found = self.texts.get(path, default)
        return default if found == "none" else found

    def whole(self, path: str, default: int | None = None, *, least: int = 1) -> int:
        """Return a whole number of at least ``least``; InputError for others."""
        found = self.text(path, "" if default is None else str(default))
        if not re.fullmatch("-?[0-9]{1,9}", found) or int(found) < least:
            what = f"is {describe(found)}" if found else "is missing"
            msg = f"{what}, expected a whole number of at least {least}"
            raise self.wrong(path, msg)
        return int(found)

    def flag(self, path: str, *, default: bool) -> bool:
        """Return true or false; InputError for anything else."""
        found = self.text(path, str(default).lower())
        if found not in ("true", "false"):
            raise self.wrong(path, f"is {describe(found)}, expected true or false")
        return found == "true"

    def choice(self, path: str, default: str, known: tuple[str, ...]) -> str:
        """Return one of the known values; InputError for anything else."""
        found = self.text(path, default)
        if found not in known:
            msg = f"is {describe(found)}, expected {', '.join(known)}"
            raise self.wrong(path, msg)
        return found

    def rows(self, path: str) -> list[Any] | None:
        """Return a list; None if it is left out. InputError for anything else."""
        found = self.text(path)
        if not found:
            return None
        try:
            rows = json.loads(found)
        except (ValueError, RecursionError):
            rows = None
        if not isinstance(rows, list):
            raise self.wrong(path, f"is {describe(found)}, expected a list")
        return rows


def as_text(value: Any) -> str:
    """Return a value as the text that tables and settings use."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case list() | dict():
            return json.dumps(value, default=str)
    return str(value)
