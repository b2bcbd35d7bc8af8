"""Hugging Face configs of each family, and those that are refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.problem.model.architecture import Architecture, RotaryScaling
from hetopt.problem.model.model import Model
from hetopt.problem.reading import read_problem

LLAMA = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 704,
    "vocab_size": 1000,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
    "max_position_embeddings": 4096,
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
}
NEOX = {
    "model_type": "gpt_neox",
    "hidden_size": 128,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 500,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}


@pytest.fixture
def load(tmp_path: Path) -> Any:
    def read(config: Any, **overrides: Any) -> Model:
        folder = tmp_path / "tiny"
        folder.mkdir(exist_ok=True)
        (folder / "config.json").write_text(json.dumps(config, indent=2))
        data = {
            "model": {"hf_config": "tiny/config.json", **overrides},
            "clusters": [
                {"name": "a", "accelerator": "A40", "nodes": 1, "devices_per_node": 1}
            ],
            "training": {"global_batch": 1, "seq_len": 128},
        }
        main = tmp_path / "main.json"
        main.write_text(json.dumps(data))
        return read_problem(main).model

    return read


def without(config: dict[str, Any], *names: str, **changed: Any) -> dict[str, Any]:
    kept = {key: value for key, value in config.items() if key not in names}
    return {**kept, **changed}


def test_llama(load: Any) -> None:
    assert load(LLAMA) == Model(
        name="tiny",
        layers=6,
        hidden=256,
        heads=8,
        kv_heads=2,
        head_dim=32,
        ffn=704,
        vocab=1000,
        gated=True,
        tied=False,
        norm="rms",
        architecture=Architecture(
            activation="silu", qkv_bias=False, out_bias=False, mlp_bias=False
        ),
    )


@pytest.mark.parametrize(
    ("config", "kv_heads", "head_dim", "tied"),
    [
        (without(LLAMA, "num_key_value_heads"), 8, 32, False),
        (without(LLAMA, "num_key_value_heads", model_type="mistral"), 8, 32, False),
        (without(LLAMA, num_key_value_heads=None), 8, 32, False),
        (without(LLAMA, head_dim=None), 2, 32, False),
        (without(LLAMA, head_dim=64), 2, 64, False),
        (without(LLAMA, "tie_word_embeddings"), 2, 32, False),
        (without(LLAMA, tie_word_embeddings=True), 2, 32, True),
        (without(LLAMA, model_type="mistral", sliding_window=4096), 2, 32, False),
        (without(LLAMA, model_type="qwen2", tie_word_embeddings=True), 2, 32, True),
        (without(LLAMA, model_type="qwen3", head_dim=128), 2, 128, False),
        # Gemma's heads are 256 wide unless the file says otherwise.
        (without(LLAMA, "tie_word_embeddings", model_type="gemma"), 2, 256, True),
        (without(LLAMA, num_experts=0), 2, 32, False),
        (without(LLAMA, num_local_experts=None), 2, 32, False),
    ],
)
def test_like_llama(
    load: Any, config: dict[str, Any], kv_heads: int, head_dim: int, tied: bool
) -> None:
    model = load(config)
    assert (model.kv_heads, model.head_dim, model.tied) == (kv_heads, head_dim, tied)
    assert model.gated
    assert model.norm == "rms"


def test_gpt2(load: Any) -> None:
    assert load(GPT2) == Model(
        name="tiny",
        layers=3,
        hidden=128,
        heads=4,
        kv_heads=4,
        head_dim=32,
        ffn=512,
        vocab=500,
        gated=False,
        tied=True,
        norm="layer",
        positions=512,
        architecture=Architecture(
            activation="gelu-tanh",
            qkv_bias=True,
            out_bias=True,
            mlp_bias=True,
            hidden_dropout=0.1,
            attention_dropout=0.1,
        ),
    )
    assert load(without(GPT2, n_inner=100)).ffn == 100


def test_gpt_neox(load: Any) -> None:
    model = load(NEOX)
    assert (model.gated, model.tied, model.norm, model.positions) == (
        False,
        False,
        "layer",
        0,
    )
    assert (model.layers, model.ffn) == (5, 512)
    own = model.architecture
    assert (own.rotary_fraction, own.parallel_mlp) == (0.25, True)
    assert not load({**NEOX, "use_parallel_residual": False}).architecture.parallel_mlp


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (
            without(LLAMA, rope_theta=5e5, attention_bias=True, mlp_bias=True),
            {"rotary_base": 5e5, "qkv_bias": True, "out_bias": True, "mlp_bias": True},
        ),
        (
            without(LLAMA, rope_scaling={"type": "linear", "factor": 2.0}),
            {"rotary_scaling": RotaryScaling(kind="linear", factor=2.0)},
        ),
        (
            without(LLAMA, rope_parameters={"rope_type": "default", "rope_theta": 7e5}),
            {"rotary_base": 7e5, "rotary_scaling": None},
        ),
        (
            without(
                LLAMA,
                model_type="phi3",
                partial_rotary_factor=0.75,
                original_max_position_embeddings=1024,
                rope_scaling={
                    "type": "su",
                    "short_factor": [1.0] * 12,
                    "long_factor": [2.0] * 12,
                },
            ),
            {
                "rotary_fraction": 0.75,
                "rotary_scaling": RotaryScaling(kind="longrope", factor=4.0),
            },
        ),
        (
            without(LLAMA, model_type="mistral"),
            {"sliding_window": 4096, "full_layers": (), "qkv_bias": False},
        ),
        (
            without(LLAMA, model_type="qwen2", use_sliding_window=True),
            {"sliding_window": None, "qkv_bias": True, "out_bias": False},
        ),
        (
            without(
                LLAMA, model_type="qwen2", use_sliding_window=True, max_window_layers=4
            ),
            {"sliding_window": 4096, "full_layers": (0, 1, 2, 3)},
        ),
        (
            without(LLAMA, model_type="gemma2", head_dim=32, query_pre_attn_scalar=64),
            {
                "activation": "gelu-tanh",
                "norm_zero_centred": True,
                "norm_place": "both",
                "attention_scale": 0.125,
                "attention_softcap": 50.0,
                "logit_softcap": 30.0,
                "embedding_scale": 16.0,
                "full_layers": (1, 3, 5),
            },
        ),
        (
            without(
                LLAMA,
                model_type="gemma3_text",
                rope_parameters={
                    "full_attention": {
                        "rope_type": "linear",
                        "factor": 8.0,
                        "rope_theta": 2e6,
                    },
                    "sliding_attention": {"rope_type": "default", "rope_theta": 2e4},
                },
            ),
            {
                "rotary_base": 2e6,
                "rotary_local_base": 2e4,
                "rotary_scaling": RotaryScaling(kind="linear", factor=8.0),
                "qk_norm": "head",
                "logit_softcap": None,
                "full_layers": (5,),
            },
        ),
        (
            without(LLAMA, model_type="gemma", hidden_activation="gelu"),
            {"activation": "gelu", "norm_place": "before"},
        ),
        (
            without(LLAMA, model_type="smollm3", sliding_window=None),
            {"rotary_base": 2e6, "full_layers": (3,), "rotary_full_layers": False},
        ),
        (
            without(LLAMA, model_type="smollm3", no_rope_layers=[0, 1] * 3),
            {"full_layers": (0, 2, 4), "rotary_full_layers": False},
        ),
        (
            without(LLAMA, model_type="smollm3", no_rope_layers=[1] * 6),
            {"full_layers": (), "rotary_full_layers": True},
        ),
    ],
)
def test_what_layers_compute(
    load: Any, config: dict[str, Any], expected: dict[str, Any]
) -> None:
    own = load(config).architecture
    assert {name: getattr(own, name) for name in expected} == expected


def test_overrides(load: Any) -> None:
    model = load(LLAMA, layers=12, granularity="block", name="mine")
    assert (model.name, model.layers, model.granularity) == ("mine", 12, "block")


#: What contradicts something else, or is of another architecture; ``tests/readers`` has
#: every single wrong value.
REFUSED = [
    (without(LLAMA, num_local_experts=8), "num_local_experts: is 8: hetopt does not"),
    (without(LLAMA, num_experts="8"), "num_experts: is '8': hetopt does"),
    (without(LLAMA, kv_lora_rank=512), "kv_lora_rank: is given: hetopt does not"),
    (without(LLAMA, text_config={}), "text_config: is given: models of several"),
    (without(LLAMA, is_encoder_decoder=True), "is_encoder_decoder: is true, expec"),
    (without(LLAMA, num_nextn_predict_layers=1), "num_nextn_predict_layers: is gi"),
    (without(LLAMA, model_type="phi"), "model_type: is 'phi', whose head has a bi"),
    (without(LLAMA, model_type="gemma3"), "model_type: is 'gemma3', a model of se"),
    (without(LLAMA, sliding_window=4096), "sliding_window: is not a key of llama "),
    (
        without(LLAMA, rope_scaling={"type": "linear"}),
        "rope_scaling.factor: is missing, as rope_type is linear",
    ),
    (
        without(LLAMA, rope_parameters={"rope_theta": 1e4, "mrope_section": [8]}),
        "rope_parameters.mrope_section: is not known of rotary",
    ),
    (without(LLAMA, model_type="phi3", embd_pdrop=0.1), "embd_pdrop: is 0.1, expe"),
    (without(LLAMA, model_type="mistral", mlp_bias=True), "mlp_bias: is true, exp"),
    (
        without(LLAMA, model_type="gemma", use_bidirectional_attention=True),
        "use_bidirectional_attention: is true, expected false: attention has",
    ),
    (
        without(LLAMA, model_type="smollm3", no_rope_layers=[1, 0]),
        "no_rope_layers: is a list, expected 0 or 1 for each of 6 layers",
    ),
    (
        without(LLAMA, model_type="smollm3", use_sliding_window=True),
        "use_sliding_window: is true, expected false: a window without rotary",
    ),
    (
        without(LLAMA, model_type="smollm3", layer_types=["sliding_attention"] * 6),
        "layer_types: holds sliding_attention, expected full_attention: a window",
    ),
]


@pytest.mark.parametrize(("config", "said"), REFUSED)
def test_refused(load: Any, tmp_path: Path, config: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        load(config)
    file, line, message = str(caught.value).split(":", 2)
    assert file == str(tmp_path / "tiny" / "config.json")
    assert line.isdigit()
    assert message.strip().startswith(said)


def test_the_line_is_that_of_the_field(load: Any) -> None:
    with pytest.raises(InputError) as caught:
        load(without(LLAMA, hidden_size="256"))
    assert caught.value.line == 3


def test_heads_that_do_not_divide_are_an_error_of_the_problem(load: Any) -> None:
    with pytest.raises(InputError, match=r"main\.json:1: model\.heads: is 8, which"):
        load(without(LLAMA, hidden_size=100))
