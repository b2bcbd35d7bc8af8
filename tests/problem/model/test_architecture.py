"""Fields beside sizes: what is refused, what follows, and what the digest knows."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.architecture import (
    ARCHITECTURE_FIELDS,
    PLAIN,
    Architecture,
    RotaryScaling,
)
from hetopt.problem.model.stated import stated
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from tests.problem.writing import problem_to_data

#: A value of every field other than where nothing is said.
OTHER: dict[str, Any] = {
    "activation": "gelu",
    "norm_eps": 1e-6,
    "norm_zero_centred": True,
    "gate_clamp": 7.0,
    "norm_place": "both",
    "qk_norm": "head",
    "qkv_bias": True,
    "out_bias": True,
    "mlp_bias": True,
    "parallel_mlp": True,
    "rotary_base": 500000.0,
    "rotary_fraction": 0.5,
    "rotary_interleaved": True,
    "rotary_local_base": 1e4,
    "rotary_scaling": {"kind": "linear", "factor": 2.0},
    "rotary_full_layers": False,
    "attention_scale": 0.25,
    "attention_softcap": 50.0,
    "logit_softcap": 30.0,
    "attention_sinks": True,
    "sliding_window": 16,
    "attention_chunk": 16,
    "full_layers": [1, 3],
    "attention_temperature": 64,
    "hidden_dropout": 0.1,
    "attention_dropout": 0.1,
    "embedding_scale": 8.0,
}
NEEDS = {
    "rotary_local_base": {"sliding_window": 16},
    "full_layers": {"sliding_window": 16},
    "rotary_full_layers": {"attention_chunk": 16},
    "attention_temperature": {"attention_chunk": 16, "rotary_full_layers": False},
}


def read(**model: Any) -> Problem:
    data = {
        "model": {"layers": 4, "hidden": 96, "heads": 3, **model},
        "clusters": [
            {"name": "a", "accelerator": "A40", "nodes": 1, "devices_per_node": 4}
        ],
        "training": {"global_batch": 8, "seq_len": 128},
    }
    return read_problem_text(json.dumps(data), "problem.json")


def test_the_file_knows_every_field() -> None:
    assert set(OTHER) == set(ARCHITECTURE_FIELDS)


@pytest.mark.parametrize("field", ARCHITECTURE_FIELDS)
def test_a_field_is_read_written_and_in_the_digest(field: str) -> None:
    before = read(**NEEDS.get(field, {}))
    problem = read(**NEEDS.get(field, {}), **{field: OTHER[field]})
    assert problem.model.architecture.differs(field)
    assert problem_digest(problem) != problem_digest(before)
    again = read_problem_text(json.dumps(problem_to_data(problem)), "again.json")
    assert again.model == problem.model


def test_what_nobody_says_leaves_the_digest_as_it_was() -> None:
    told = {
        field: getattr(PLAIN, field)
        for field in ARCHITECTURE_FIELDS
        if getattr(PLAIN, field) is not None and field != "full_layers"
    }
    assert read(**told) == read()
    assert problem_digest(read(**told)) == problem_digest(read())


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ({"rotary_base": 10**400}, "model.rotary_base: is "),
        ({"rotary_fraction": 0.1}, "model.rotary_fraction: is 0.1, which rotates 3 of"),
        ({"rotary_base": 5e5, "positions": 128}, "model.rotary_base: is given, but po"),
        ({"rotary_local_base": 1e4}, "model.rotary_local_base: is given, but there is"),
        (
            {"rotary_scaling": {"kind": "llama3", "factor": 8, "low_freq_factor": 5}},
            "model.rotary_scaling.low_freq_factor: is 5, expected at most",
        ),
        ({"full_layers": [1]}, "model.full_layers: is given, but there is no sliding"),
        (
            {"rotary_full_layers": False},
            "model.rotary_full_layers: is given, but the",
        ),
        ({"attention_chunk": 0}, "model.attention_chunk: is 0, expected"),
        (
            {"attention_chunk": 8, "sliding_window": 8},
            "model.attention_chunk: is given beside sliding_window",
        ),
        (
            {"attention_chunk": 8, "attention_temperature": 8},
            "model.attention_temperature: is given, but rotary_full_layers is not",
        ),
        ({"sliding_window": 9, "full_layers": [4]}, "model.full_layers: is up to 4, e"),
        ({"sliding_window": 9, "full_layers": [2, 1]}, "model.full_layers: is not asc"),
        (
            {"sliding_window": 9, "attention": "bidirectional"},
            "model.sliding_window: is 9, allowed only for a decoder-only",
        ),
    ],
)
def test_refused(model: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(**model)
    assert str(caught.value).split(": ", 1)[1].startswith(said)


def test_what_follows_is_stated() -> None:
    llama, gpt = read().model, read(gated=False).model
    assert stated(llama, "activation") == "silu"
    assert stated(gpt, "activation") is None
    biases = ("qkv_bias", "out_bias", "mlp_bias")
    assert [stated(llama, name) for name in biases] == [False] * 3
    assert [stated(gpt, name) for name in biases] == [True] * 3
    mixed = read(gated=False, mlp_bias=False).model
    assert [stated(mixed, name) for name in biases] == [True, True, False]
    assert stated(llama, "attention_scale") == 32**-0.5
    assert stated(read(rotary_base=5e5).model, "rotary_local_base") == 5e5


def test_the_classes_check_themselves() -> None:
    with pytest.raises(ValueError, match="original_positions: is 0"):
        RotaryScaling(kind="llama3", factor=8.0, original_positions=0)
    with pytest.raises(ValueError, match="sliding_window: is 0"):
        Architecture(sliding_window=0)
    with pytest.raises(ValueError, match=r"full_layers\.0: is -1"):
        Architecture(sliding_window=4, full_layers=(-1,))
    assert replace(PLAIN) == PLAIN
    assert [each.name for each in fields(PLAIN)] == list(ARCHITECTURE_FIELDS)
