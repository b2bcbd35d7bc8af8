"""Experts, latent attention and further tokens in a problem file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.kinds import CUT_HIDDEN, CUT_PREDICTIONS, LAYER, LAYER_EXPERTS
from hetopt.problem.model.latent import Latent
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from tests.problem.writing import problem_to_data

EXPERTS = {"number": 8, "per_token": 2, "ffn": 64}
LATENT = {"kv_lora": 32, "qk_dim": 16, "rope_dim": 8, "v_dim": 16}


def read(**model: Any) -> Problem:
    data = {
        "model": {"layers": 4, "hidden": 96, "heads": 3, **model},
        "clusters": [
            {"name": "a", "accelerator": "A40", "nodes": 1, "devices_per_node": 4}
        ],
        "training": {"global_batch": 8, "seq_len": 128},
    }
    return read_problem_text(json.dumps(data), "problem.json")


def test_latent_attention_gives_the_size_of_heads() -> None:
    model = read(latent=LATENT).model
    assert model.latent == Latent(kv_lora=32, qk_dim=16, rope_dim=8, v_dim=16)
    assert (model.head_dim, model.kv_heads) == (24, 3)


@pytest.mark.parametrize(
    ("said", "routed"),
    [
        ({}, (True, True, True, True)),
        ({"dense_layers": 1}, (False, True, True, True)),
        ({"dense_layers": [1, 3]}, (True, False, True, False)),
        ({"every": 2}, (False, True, False, True)),
        ({"every": 2, "dense_layers": 2}, (False, False, False, True)),
    ],
)
def test_which_layers_are_routed(
    said: dict[str, Any], routed: tuple[bool, ...]
) -> None:
    model = read(experts={**EXPERTS, **said}).model
    assert model.routed == routed
    kinds = tuple(LAYER_EXPERTS if each else LAYER for each in routed)
    assert model.units[1:-1] == kinds


def test_predictions_hand_more_to_the_head() -> None:
    model = read(predictions=2).model
    assert model.cuts == (*[CUT_HIDDEN] * 5, CUT_PREDICTIONS)
    assert model.cut_tensors(CUT_PREDICTIONS, 128) == ((128, 3 * 96),)


def test_the_digest_knows_them_and_ordinary_models_keep_theirs() -> None:
    plain = problem_digest(read())
    assert problem_digest(read(predictions=0)) == plain
    others = ({"experts": EXPERTS}, {"latent": LATENT}, {"predictions": 1})
    assert len({plain, *(problem_digest(read(**each)) for each in others)}) == 4


def test_they_survive_a_round_trip() -> None:
    experts = {**EXPERTS, "shared_ffn": 32, "scores": "sigmoid", "dense_layers": [0]}
    problem = read(experts=experts, latent=LATENT, predictions=1)
    text = json.dumps(problem_to_data(problem))
    assert read_problem_text(text, "again.json").model == problem.model


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (
            {"experts": {**EXPERTS, "per_token": 9}},
            "experts.per_token: is 9, expected at most number (8)",
        ),
        (
            {"experts": {**EXPERTS, "groups": 3, "groups_per_token": 1}},
            "experts.groups: is 3, which does not divide number (8)",
        ),
        (
            {"experts": {**EXPERTS, "groups": 4}},
            "experts.groups: is given without groups_per_token, expected both",
        ),
        (
            {"experts": {**EXPERTS, "groups": 2, "groups_per_token": 3}},
            "experts.groups_per_token: is 3, expected at most groups (2)",
        ),
        (
            {"experts": {**EXPERTS, "groups": 8, "groups_per_token": 1}},
            "experts.groups_per_token: is 1, whose groups hold fewer experts than",
        ),
        (
            {"experts": {**EXPERTS, "shared_gate": True}},
            "experts.shared_gate: is true, but there is no shared_ffn",
        ),
        (
            {"experts": {**EXPERTS, "every": 5}},
            "experts.every: is 5, but layers is 4: no layer would be routed, expected",
        ),
        (
            {"experts": {**EXPERTS, "dense_layers": 4}},
            "experts.dense_layers: is all layers, expected one that is routed",
        ),
        (
            {"experts": {**EXPERTS, "dense_layers": [7]}},
            "experts.dense_layers: is up to 7, expected layers from 0 to 3",
        ),
        (
            {"experts": {**EXPERTS, "dense_layers": [1, 0]}},
            "experts.dense_layers: is not ascending from 0, expected each layer once",
        ),
        (
            {"experts": EXPERTS, "granularity": "block"},
            "experts: is given, but granularity is 'block', expected 'layer'",
        ),
        (
            {"experts": EXPERTS, "attention": "bidirectional"},
            "experts: is given, allowed only for a decoder-only model",
        ),
        ({"latent": {**LATENT, "rope_dim": 7}}, "latent.rope_dim: is 7, expected an "),
        (
            {"latent": LATENT, "head_dim": 32},
            "head_dim: is 32, expected qk_dim + rope_dim of latent (24)",
        ),
        (
            {"latent": LATENT, "kv_heads": 1},
            "kv_heads: is 1, expected heads (3): latent attention has keys and values",
        ),
        (
            {"latent": LATENT, "qk_norm": "head"},
            "qk_norm: is given, expected none of latent attention",
        ),
        (
            {"predictions": 1, "patch": 4, "classes": 3},
            "predictions: is given, allowed only for a decoder-only model",
        ),
    ],
)
def test_what_cannot_be_is_refused(model: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(**model)
    assert str(caught.value).startswith(f"problem.json:1: model.{said}")


def test_blocks_have_no_experts() -> None:
    blocks = [{"name": "a", "layers": 2}]
    with pytest.raises(
        InputError, match="experts: is given together with blocks, allowed"
    ):
        read_problem_text(
            json.dumps(
                {
                    "model": {
                        "hidden": 96,
                        "heads": 3,
                        "blocks": blocks,
                        "experts": EXPERTS,
                    },
                    "clusters": [
                        {
                            "name": "a",
                            "accelerator": "A40",
                            "nodes": 1,
                            "devices_per_node": 4,
                        }
                    ],
                    "training": {"global_batch": 8, "seq_len": 128},
                }
            ),
            "problem.json",
        )


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"number": 0}, "number: is 0"),
        ({"per_token": 9}, "per_token: is 9"),
        ({"dense_layers": (2, 1)}, "dense_layers: is not ascending"),
        ({"scale": float("inf")}, "scale: is inf"),
    ],
)
def test_experts_check_themselves(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Experts(**{**EXPERTS, **fields})
