"""The models for which HexiScale has configurations."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.problem.model.model import Model

#: ``--model_size`` -> hidden, heads, kv_heads, ffn of that LLaMA (Touvron et al., 2023,
#: and the released configurations); layers are ``--total-layer-num``.
MODEL_SIZES: Mapping[str, tuple[int, int, int, int]] = MappingProxyType(
    {
        "llama-7b": (4096, 32, 32, 11008),
        "llama-13b": (5120, 40, 40, 13824),
        "llama-30b": (6656, 52, 52, 17920),
        "llama-70b": (8192, 64, 8, 28672),
    }
)
#: Size of the vocabulary of all of them.
VOCAB = 32000
#: Tokens in a sequence, which no argument changes.
SEQ_LEN = 4096


def model_size(model: Model) -> str | None:
    """Return HexiScale's name of a model; None if it has none.

    The number of layers may differ; width, vocabulary and kind of layer may not.
    """
    llama = (
        model.is_decoder_only
        and model.gated
        and model.norm == "rms"
        and not model.tied
        and not model.positions
        and model.vocab == VOCAB
        and model.head_dim * model.heads == model.hidden
    )
    sizes = (model.hidden, model.heads, model.kv_heads, model.ffn)
    for name, known in MODEL_SIZES.items():
        if llama and sizes == known:
            return name
    return None
