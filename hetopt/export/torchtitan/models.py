"""The models of TorchTitan that hetopt can price: sizes by name and flavor.

Sources: ``models/llama3`` and ``models/qwen3`` of TorchTitan 0.2.2 (``__init__.py``,
``model/args.py``, ``model/model.py``) and 0.3.0 (``__init__.py``, ``model.py``,
``models/common``).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from hetopt.base.words import describe
from hetopt.errors import InputError, RecordError
from hetopt.export.torchtitan.program import Made, Repeated
from hetopt.problem.model.architecture import RotaryScaling
from hetopt.problem.model.experts import Experts

if TYPE_CHECKING:
    from collections.abc import Callable

#: What all of them have. Whether neighbours or halves form rotary pairs is left out: it
#: only changes the order of weights.
_DECODER: dict[str, Any] = {
    "norm": "rms",
    "gated": True,
    "activation": "silu",
    "positions": 0,
    "qkv_bias": False,
    "out_bias": False,
    "mlp_bias": False,
    "rotary_fraction": 1.0,
    "sliding_window": None,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "experts": None,
}
_LLAMA: dict[str, Any] = {
    **_DECODER,
    "norm_eps": 1e-5,
    "qk_norm": "none",
    "rotary_base": 500_000.0,
    "rotary_scaling": RotaryScaling(kind="llama3", factor=8.0),
}
_QWEN: dict[str, Any] = {
    **_DECODER,
    "norm_eps": 1e-6,
    "qk_norm": "head",
    "rotary_base": 1_000_000.0,
    "rotary_scaling": None,
}
#: Flavor -> layers, hidden, heads, kv_heads, head_dim, ffn, vocab, tied.
_LLAMAS = {
    "debugmodel": (6, 256, 16, 16, 16, 768, 2048, False),
    "8B": (32, 4096, 32, 8, 128, 14336, 128256, False),
    "70B": (80, 8192, 64, 8, 128, 28672, 128256, False),
    "405B": (126, 16384, 128, 8, 128, 53248, 128256, False),
}
#: Endings of flavors of 0.2 that differ only in their attention's kernel and mask.
_MASKED = ("_flex", "_varlen", "_flex_attn", "_varlen_attn")
_LLAMAS_3 = {
    **_LLAMAS,
    "1B": (16, 2048, 32, 8, 64, 8192, 128256, True),
    "3B": (28, 3072, 24, 8, 128, 8192, 128256, True),
}
_QWENS = {
    "debugmodel": (8, 256, 16, 8, 128, 3072, 2048, True),
    "0.6B": (28, 1024, 16, 8, 128, 3072, 151936, True),
    "1.7B": (28, 2048, 16, 8, 128, 6144, 151936, True),
    "4B": (36, 2560, 32, 8, 128, 9728, 151936, True),
    "8B": (36, 4096, 32, 8, 128, 12288, 151936, False),
    "14B": (40, 5120, 40, 8, 128, 17408, 151936, False),
    "32B": (64, 5120, 64, 8, 128, 25600, 151936, False),
}
_SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "vocab", "tied")
#: Flavor of 0.3 whose layers are all routed -> layers, hidden, heads, kv_heads,
#: head_dim, vocab, tied, rotary_base; and its experts.
_QWEN_MIXTURES: dict[str, tuple[tuple[Any, ...], Experts]] = {
    "debugmodel_moe": (
        (8, 256, 16, 8, 128, 2048, False, 1e6),
        Experts(number=64, per_token=8, ffn=768),
    ),
    "30B-A3B": (
        (48, 2048, 32, 4, 128, 151936, False, 1e6),
        Experts(number=128, per_token=8, ffn=768),
    ),
    "235B-A22B": (
        (94, 4096, 64, 4, 128, 151936, False, 5e6),
        Experts(number=128, per_token=8, ffn=1536),
    ),
}
_MIXTURES = "has a mixture of experts"
#: Why hetopt cannot price other models of either version.
_OTHERS = {
    "deepseek_v3": _MIXTURES,
    "llama4": _MIXTURES,
    "gpt_oss": _MIXTURES,
    "kimi_k2_7": _MIXTURES,
    "muse_glimmer": "is no dense decoder that hetopt knows",
    "qwen3_5": "takes images, and mixes attention with linear layers",
    "flux": "makes images",
    "vlm": "takes images",
    "rl": "runs reinforcement learning",
}


def masks_documents(name: str, flavor: str) -> bool:
    """Whether a flavor of 0.2 attends only within each document."""
    return name != "qwen3" and flavor.endswith(_MASKED)


def flavor_says(
    name: str, flavor: str, wrong: Callable[[str, str], InputError], *, new: bool
) -> dict[str, Any]:
    """Return the fields of a model, and its ``layers``.

    Parameters
    ----------
    wrong
        Returns the error about ``name`` or ``flavor``, from one and a message.
    new
        Whether this is 0.3 rather than 0.2.

    Raises
    ------
    InputError
        hetopt cannot price the model, or does not know its flavor.
    """
    family = name.rpartition(".")[2]
    if family in _OTHERS:
        msg = f"{name} {_OTHERS[family]}: hetopt can read llama3 and qwen3"
        raise wrong("name", msg)
    if name not in ("llama3", "llama3_ft", "qwen3"):
        msg = f"is {describe(name)}: hetopt can price llama3 and qwen3"
        raise wrong("name", msg)
    known = _QWENS if name == "qwen3" else _LLAMAS_3 if new else _LLAMAS
    if name == "qwen3" and flavor in _QWEN_MIXTURES:
        if not new:
            msg = f"{flavor} {_MIXTURES}, which hetopt reads of TorchTitan 0.3 alone"
            raise wrong("flavor", msg)
        values, experts = _QWEN_MIXTURES[flavor]
        names = [*(size for size in _SIZES if size != "ffn"), "rotary_base"]
        sizes = dict(zip(names, values, strict=True))
        return _QWEN | sizes | {"experts": experts}
    plain = flavor
    if not new and masks_documents(name, flavor):
        plain = flavor.rpartition("_attn")[0] or flavor
        plain = plain.rpartition("_")[0]
    if new and name == "qwen3":
        plain = flavor.removesuffix("_non_fused_qkv")
    if plain not in known:
        msg = f"is {describe(flavor)}, expected one of {', '.join(known)}"
        raise wrong("flavor", msg)
    own = _QWEN if name == "qwen3" else _LLAMA
    return own | dict(zip(_SIZES, known[plain], strict=True))


def model_says(
    model: Made, wrong: Callable[[str, str], InputError]
) -> tuple[dict[str, Any], list[str]]:
    """Return the fields of a model that a program builds, and what is left unread.

    The number of ``layers`` is among the fields.

    Parameters
    ----------
    model
        ``Llama3Model.Config(...)`` or ``Qwen3Model.Config(...)`` of 0.3.
    wrong
        Returns the error about a field, from its name and a message.

    Raises
    ------
    InputError
        It is another model, or is not written as literals and calls of TorchTitan's
        own builders.
    """
    if model.name not in ("Llama3Model.Config", "Qwen3Model.Config"):
        msg = f"is {model.name}: hetopt can price Llama3Model and Qwen3Model"
        raise wrong("model", msg)
    layers = model.fields.get("layers")
    if not isinstance(layers, Repeated) or not isinstance(layers.item, Made):
        msg = "expected a list of so many equal layers, [layer(n) for n in range(N)]"
        raise wrong("model.layers", msg)
    reads = _Reads(model, wrong)
    block = _Reads(layers.item, wrong, "model.layers.")
    attention, sizes = block.inner("attention"), _mlp(block)
    if attention.made.name != "make_gqa_config":
        msg = f"is {attention.made.name}, expected make_gqa_config(...)"
        raise wrong("model.layers.attention", msg)
    hidden, heads = reads.whole("dim"), attention.whole("n_heads")
    rope = attention.inner("rope")
    says = {
        **_DECODER,
        "layers": layers.count,
        "hidden": hidden,
        "heads": heads,
        "kv_heads": attention.whole("n_kv_heads", heads),
        "head_dim": attention.whole("head_dim", max(hidden // heads, 1)),
        **sizes,
        "vocab": reads.whole("vocab_size"),
        "tied": reads.get("enable_weight_tying", False) is True,
        "norm_eps": reads.inner("norm").number("eps", 1e-5),
        "qk_norm": "none" if attention.get("qk_norm") is None else "head",
        "rotary_base": rope.number("theta", 10_000.0),
        "rotary_scaling": _scaling(rope),
    }
    parts = [*reads.parts, *block.parts]
    return says, [path for part in parts for path in part.left()]


def _mlp(block: _Reads) -> dict[str, Any]:
    """Return the fields of a model that its layers' MLP gives, the same in all layers.

    Raises
    ------
    InputError
        Some layers are routed and others are not, or TorchTitan's own builders do not
        make them.
    """
    routed, dense = block.get("moe"), block.get("feed_forward")
    if not isinstance(routed, Made):
        mlp = block.inner("feed_forward")
        if routed is not None or mlp.made.name != "make_ffn_config":
            msg = "expected make_ffn_config(...), or moe=make_moe_config(...)"
            raise block.wrong("feed_forward", msg)
        return {"ffn": mlp.whole("hidden_dim")}
    if dense is not None or routed.name != "make_moe_config":
        msg = "expected make_moe_config(...) in all layers, without feed_forward"
        raise block.wrong("moe", msg)
    moe = block.inner("moe")
    matrices = moe.inner("routed_experts")
    experts = _experts(moe, matrices)
    backend = matrices.get("comm_backend")
    senders = {"standard": "alltoall", "deepep": "deepep", "hybridep": "hybridep"}
    if backend not in senders:
        msg = f"is {describe(backend)}, hetopt can price {', '.join(senders)}"
        raise moe.wrong("routed_experts.comm_backend", msg)
    return {
        "experts": experts,
        "capacity": None,
        "node_dedup": backend != "standard",
        "sent_by": senders[str(backend)],
    }


def _experts(moe: _Reads, matrices: _Reads) -> Experts:
    """Return the experts of a layer; InputError if hetopt cannot express them."""
    router = moe.inner("router")
    shared = moe.inner("shared_experts") if moe.get("shared_experts") else None
    per_token = router.whole("top_k", 1)
    number = moe.whole("num_experts", 8)
    for part in (router, matrices):
        if part.whole("num_experts") != number:
            msg = f"is not that of make_moe_config ({number})"
            raise part.wrong("num_experts", msg)
    scores = router.get("score_func", "sigmoid")
    if scores not in ("softmax", "sigmoid"):
        msg = f"is {describe(scores)}, expected softmax or sigmoid"
        raise router.wrong("score_func", msg)
    balanced = moe.get("load_balance_coeff", 1e-3) is not None
    try:
        return Experts(
            number=number,
            per_token=per_token,
            ffn=matrices.whole("hidden_dim"),
            shared_ffn=0 if shared is None else shared.whole("hidden_dim"),
            groups=router.whole("num_expert_groups", 0, least=0),
            groups_per_token=router.whole("num_limited_groups", 0, least=0),
            router_bias=(
                balanced if scores == "sigmoid" else router.get("bias", False) is True
            ),
            scores=scores,
            normalised=router.get("route_norm", False) is True,
            scale=router.number("route_scale", 1.0),
        )
    except RecordError as error:
        raise moe.wrong("router", error.said) from error


def _scaling(rope: _Reads) -> RotaryScaling | None:
    kind = rope.get("scaling", "none")
    if kind == "none":
        return None
    if kind != "llama":
        raise rope.wrong("scaling", f"is {describe(kind)}, hetopt can price llama")
    factor = rope.number("scaling_factor", 8.0)
    low = rope.number("low_freq_factor", 1.0)
    high = rope.number("high_freq_factor", 4.0)
    positions = rope.whole("original_max_position_embeddings", 8192)
    try:
        return RotaryScaling(
            kind="llama3",
            factor=factor,
            low_freq_factor=low,
            high_freq_factor=high,
            original_positions=positions,
        )
    except RecordError as error:
        raise rope.wrong("scaling", f"is llama, but {error.said}") from error


#: Fields of parts of a model that are not sizes, or repeat sizes.
_REPEATED = frozenset(
    [
        "param_init",
        "wqkv_param_init",
        "wo_param_init",
        "w1_param_init",
        "w2w3_param_init",
        "tok_embeddings",
        "lm_head",
        "attention_norm",
        "ffn_norm",
        "normalized_shape",
        "dim",
        "inner_attention",
        "fuse_qkv",
        "max_seq_len",
        "n_heads",
        "layers",
        "gate_param_init",
        "top_k",
    ]
)


class _Reads:
    """Fields of a part of a model, checked when they are read.

    Attributes
    ----------
    parts
        This part and the parts in it that were read.
    """

    def __init__(
        self, made: Made, wrong: Callable[[str, str], InputError], home: str = "model."
    ) -> None:
        self.made = made
        self.parts = [self]
        self._asked: set[str] = set()
        self._wrong = wrong
        self._home = home

    def wrong(self, name: str, message: str) -> InputError:
        """Return the error that says ``message`` about a field."""
        return self._wrong(self._home + name, message)

    def inner(self, name: str) -> _Reads:
        """Return the part that a call makes; InputError if none does."""
        made = self.get(name)
        if not isinstance(made, Made):
            msg = f"is {describe(made)}, expected a call of TorchTitan's own builder"
            raise self.wrong(name, msg)
        found = _Reads(made, self._wrong, f"{self._home}{name}.")
        found.parts = self.parts
        self.parts.append(found)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field as it is."""
        self._asked.add(name)
        return self.made.fields.get(name, default)

    def left(self) -> list[str]:
        """Return the paths of fields that were not read."""
        known = self._asked | _REPEATED
        return [self._home + name for name in self.made.fields if name not in known]

    def whole(self, name: str, default: int | None = None, *, least: int = 1) -> int:
        """Return a whole number of at least ``least``; InputError for others."""
        value = self.get(name)
        value = default if value is None else value
        if type(value) is not int or value < least:
            msg = f"is {describe(value)}, expected a whole number of at least {least}"
            raise self.wrong(name, msg)
        return value

    def number(self, name: str, default: float) -> float:
        """Return a number above 0; InputError for anything else."""
        value = self.get(name, default)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value < math.inf
        ):
            raise self.wrong(name, f"is {describe(value)}, expected a number above 0")
        return float(value)
