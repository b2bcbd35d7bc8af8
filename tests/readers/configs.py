"""The reader of Hugging Face's config.json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.problem.document.document import Document, Place
from hetopt.problem.reading import problem_of
from tests.problem.building import published_configs as published
from tests.readers.problems import SMALL
from tests.readers.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 704,
    "vocab_size": 1000,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
    "rope_theta": 5e5,
    "rope_scaling": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "attention_bias": False,
    "mlp_bias": False,
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 128,
    "n_layer": 3,
    "n_head": 4,
    "n_inner": None,
    "n_positions": 512,
    "vocab_size": 500,
    "activation_function": "gelu_new",
    "scale_attn_weights": True,
}
GEMMA2 = {
    **LLAMA,
    "model_type": "gemma2",
    "rope_scaling": None,
    "query_pre_attn_scalar": 64,
    "sliding_window": 4096,
    "layer_types": ["full_attention", "sliding_attention"] * 3,
}
FAMILIES = {
    "llama": LLAMA,
    "gpt2": GPT2,
    "gemma2": GEMMA2,
    "deepseek-v3": published.DEEPSEEK_V3,
    "llama-4": published.LLAMA_4_SCOUT,
}


def read(path: Path) -> Any:
    """Return the model of a config.json that a problem names."""
    data = {**SMALL, "model": {"hf_config": path.name}}
    return problem_of(Document(data, {(): Place(str(path), 1)}), "p").model


READERS = tuple(
    Reader(
        name=f"config-{family}",
        document=lambda config=config: config,
        read=read,
        file="config.json",
    )
    for family, config in FAMILIES.items()
)
