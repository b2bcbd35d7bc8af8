"""Translates settings of Megatron-Bridge and NeMo to arguments of Megatron-LM.

Sources: ``training/config.py``, ``training/mixed_precision.py``,
``training/comm_overlap.py`` and ``models/gpt_provider.py`` of Megatron-Bridge 0.3.1;
``transformer_config.py``, ``model_parallel_config.py`` and
``distributed_data_parallel_config.py`` of megatron-core 0.16.1; recipes of NeMo 2.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.errors import InputError
from hetopt.export.shared.megatron.arguments import MEGATRON
from hetopt.export.shared.megatron.chunks import GROUP
from hetopt.export.shared.shell.arguments import ShellArguments, plain
from hetopt.export.understood import Read, not_priced, table
from hetopt.results.reported import Reported

if TYPE_CHECKING:
    from collections.abc import Mapping

_WHOLE = re.compile("[0-9]{1,9}")
#: Sections of NeMo 2's recipes -> those of Megatron-Bridge.
_SECTIONS = (
    ("trainer.strategy.ddp.", "ddp."),
    ("trainer.strategy.", "model."),
    ("trainer.plugins.", "mixed_precision."),
    ("model.config.", "model."),
    ("optim.config.", "optimizer."),
    ("data.micro_batch_size", "train.micro_batch_size"),
    ("data.global_batch_size", "train.global_batch_size"),
    ("data.", "dataset."),
)
#: Setting -> argument.
_RENAMED = {
    "layernorm_epsilon": "norm_epsilon",
    "layernorm_zero_centered_gamma": "apply_layernorm_1p",
    "seq_len_interpolation_factor": "rotary_seq_len_interpolation_factor",
    "rope_scaling": "use_rope_scaling",
    "num_layers_in_first_pipeline_stage": "decoder_first_pipeline_num_layers",
    "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
    "num_moe_experts": "num_experts",
    "sequence_length": "seq_length",
    "random_seed": "seed",
    "bucket_size": "ddp_bucket_size",
    "fp8": "fp8_format",
    "fp4": "fp4_format",
    "use_te_rng_tracker": "te_rng_tracker",
    "microbatch_group_size_per_vp_stage": GROUP,
}
#: Setting -> argument that turns it off.
_OFF = {
    "add_bias_linear": "disable_bias_linear",
    "share_embeddings_and_output_weights": "untie_embeddings_and_output_weights",
    "grad_reduce_in_fp32": "grad_reduce_in_bf16",
    "bias_activation_fusion": "no_bias_gelu_fusion",
    "apply_rope_fusion": "no_rope_fusion",
    "masked_softmax_fusion": "no_masked_softmax_fusion",
    "bias_dropout_fusion": "no_bias_dropout_fusion",
    "gradient_accumulation_fusion": "no_gradient_accumulation_fusion",
    "persist_layer_norm": "no_persist_layer_norm",
    "overlap_p2p_comm": "no_overlap_p2p_communication",
}
#: Parts of a model in a list of chunks -> their letters in a layout.
_LETTERS = {"embedding": "E", "decoder": "t", "mtp": "m", "loss": "L"}
#: Activation function -> argument, with gates and without; "" if none is needed.
_ACTIVATIONS: Mapping[str, tuple[str | None, str | None]] = {
    "silu": ("swiglu", None),
    "quick_gelu": ("quick_geglu", None),
    "squared_relu": (None, "squared_relu"),
    "gelu": (None, "no_bias_gelu_fusion"),
    "fast_gelu": (None, ""),
}

BRIDGE = table(
    """
    append_eod async_strategy blend blend_per_split bf16 check_for_nan_in_grad
    check_for_nan_in_loss data_sharding dataloader_type do_test do_validation
    eod_mask_loss filter_warnings fp16 fully_parallel_load fully_parallel_save
    most_recent_k max_steps limit_val_batches limit_test_batches val_check_interval
    log_every_n_steps num_sanity_val_steps name num_dataset_builder_threads
    override_opt_param_scheduler path_to_cache persistent_workers pin_memory
    save_optim save_rng load_optim load_rng skip_getting_attention_mask_from_dataset
    use_nsys_profiler vocab_size warmup_steps constant_steps max_lr
    accelerator enable_checkpointing use_distributed_sampler ckpt_async_save
    ckpt_parallel_load ckpt_parallel_save pipeline_dtype
    params_dtype autocast_dtype should_pad_vocab parallel_output autocast_enabled
    perform_initialization log_throughput_to_tensorboard throughput_window_size
    deallocate_pipeline_outputs batch_p2p_comm precision use_te_rng_tracker
    """,
    {
        "hetopt prices the whole model's training": "peft",
    },
    MEGATRON,
)


class Recipe:
    """Settings by path, and the arguments that they stand for.

    Parameters
    ----------
    values
        Path -> value.

    Attributes
    ----------
    arguments
        By Megatron-LM's names.
    says
        Fields of a model that Megatron-LM has no argument for.
    reported
        Settings that hetopt cannot price and that no table lists.
    """

    def __init__(self, values: Mapping[str, Any], file: str) -> None:
        self.file = file
        self._values = {bridge_path(path): value for path, value in values.items()}
        self._paths: dict[str, str] = {}
        self.says: dict[str, Any] = {}
        self.reported: list[Reported] = []
        texts: dict[str, str] = {}
        for path, value in self._values.items():
            self._add(texts, path, value)
        self._derive(texts)
        self.arguments = ShellArguments(
            file=file, values=Read(texts), complaint=self._wrong
        )

    def _wrong(self, name: str, message: str) -> InputError:
        return InputError(message, file=self.file, field=self.spelled(name))

    def has(self, path: str) -> bool:
        """Whether a setting or anything below it is given."""
        return any(
            each == path or each.startswith(f"{path}.")
            for each, value in self._values.items()
            if value is not None or each == path
        )

    @property
    def says_overlap(self) -> bool:
        """Whether settings decide if transfers of virtual stages overlap."""
        return any(
            path.startswith("comm_overlap.") or path.endswith(".overlap_p2p_comm")
            for path, value in self._values.items()
            if value is not None
        )

    def spelled(self, name: str) -> str:
        """Return the path of an argument's setting."""
        name = plain(name)
        return self._paths.get(name, name)

    def world(self) -> int | None:
        """Return the ranks of NeMo's trainer; None if the recipe does not set them."""
        nodes = self._values.get("trainer.num_nodes", 1)
        devices = self._values.get("trainer.devices")
        if type(nodes) is int and type(devices) is int and nodes * devices > 0:
            return nodes * devices
        return None

    def _add(self, texts: dict[str, str], path: str, value: Any) -> None:
        """Add the argument that a setting stands for."""
        setting = path.rpartition(".")[2]
        name = _RENAMED.get(setting, setting)
        if path == "mixed_precision":
            self._precision(texts, value)
        elif path in ("trainer.num_nodes", "trainer.devices", "model.activation_func"):
            return
        elif setting in _OFF:
            if value is False:
                self._paths[_OFF[setting]] = path
                texts[_OFF[setting]] = ""
        elif _is_off(value) or path == "tokenizer.vocab_size":
            return
        elif name == "pipeline_model_parallel_layout" and isinstance(value, list):
            self._paths[name] = path
            texts[name] = "|".join(map(_letters, value))
        elif name == "optimizer":
            texts[name] = str(value).lower().replace("fused_", "")
        elif name == "seq_length" and texts.get(name, str(value)) != str(value):
            told = f"is {value}, hetopt takes {texts[name]} of {self.spelled(name)}"
            self.reported.append(not_priced(path, told))
        else:
            self._paths[name] = path
            texts[name] = _text(value)

    def _precision(self, texts: dict[str, str], value: Any) -> None:
        """Add the arguments that the name of a mixed precision implies."""
        names = ("fp8_format", "fp8_recipe", "fp4_format")
        self._paths |= dict.fromkeys(names, "mixed_precision")
        name = str(value or "").replace("-", "_").lower()
        if name.startswith(("bf16", "16", "fp16", "nemotron", "nanov2")):
            texts["fp16" if name.startswith(("16", "fp16")) else "bf16"] = ""
        elif name:
            why = "hetopt does not know this precision and prices it as fp32"
            told = Reported(argument="mixed_precision", kind="unknown", why=why)
            self.reported.append(told)
        if "fp8" in name:
            texts["fp8_format"] = "hybrid"
            texts["fp8_recipe"] = "delayed" if "delayed" in name else name
        if "fp4" in name:
            texts["fp4_format"] = "e2m1"

    def _derive(self, texts: dict[str, str]) -> None:
        """Add arguments for what settings imply in Megatron-Bridge."""
        model = {
            path.removeprefix("model."): value for path, value in self._values.items()
        }
        if "optimizer_cpu_offload" in texts:
            # megatron-core's default; that of Megatron-LM's argument is 1.
            texts.setdefault("optimizer_offload_fraction", "0.0")
        if "num_query_groups" in texts:
            texts["group_query_attention"] = ""
        hidden = texts.get("hidden_size", "")
        if "ffn_hidden_size" not in texts and _WHOLE.fullmatch(hidden):
            texts["ffn_hidden_size"] = str(4 * int(hidden))
        if "seq_length" in texts and texts.get("position_embedding_type") != "rope":
            texts["max_position_embeddings"] = texts["seq_length"]
        self._activate(texts, model)
        if type(model.get("softmax_scale")) in (int, float):
            self.says["attention_scale"] = float(model["softmax_scale"])
            texts.pop("softmax_scale", None)
        rows = model.get("vocab_size")
        texts.pop("vocab_size", None)
        if type(rows) is int:
            self.says["vocab"] = rows
            tp = texts.get("tensor_model_parallel_size", "1")
            unit = 128 * (int(tp) if _WHOLE.fullmatch(tp) else 1)
            if model.get("should_pad_vocab") and rows % max(unit, 1):
                why = (
                    f"pads {counted(rows, 'row')} to a multiple of {unit}, hetopt "
                    f"prices {rows}"
                )
                self.reported.append(not_priced("model.should_pad_vocab", why))

    def _activate(self, texts: dict[str, str], model: Mapping[str, Any]) -> None:
        """Add the argument of an activation, gated or not."""
        gated = texts.pop("gated_linear_unit", None) is not None
        function = model.get("activation_func")
        if function is None and not gated:
            return
        name = str(function or "gelu").rpartition(".")[2]
        argument = _ACTIVATIONS.get(name, (None, None))[not gated]
        if argument is None:
            why = "hetopt prices it as GELU" + (", with gates" if gated else "")
            self.reported.append(not_priced("model.activation_func", f"{name}: {why}"))
            if gated:
                self.says["gated"] = True
        elif argument:
            texts[argument] = ""


def bridge_path(path: str) -> str:
    """Return a setting's path in Megatron-Bridge."""
    for before, after in _SECTIONS:
        if path.startswith(before):
            return after + path.removeprefix(before)
    return path


def _letters(chunk: Any) -> str:
    """Return a chunk as a layout has it, from the names of its parts."""
    parts = map(str, chunk if isinstance(chunk, list) else [chunk])
    return "".join(_LETTERS.get(part.strip().lower(), part) for part in parts)


def _is_off(value: Any) -> bool:
    return value is None or value is False or value == []


def _text(value: Any) -> str:
    if value is True:
        return ""
    if isinstance(value, list | tuple):
        if all(type(each) is int for each in value):
            plain_list = ",".join(map(str, value))
            return plain_list if len(value) == 2 else f"[{plain_list}]"
        return " ".join(map(str, value))
    text = str(value)
    return (
        text.rpartition(".")[2] if text.startswith(("AttnBackend", "torch.")) else text
    )
