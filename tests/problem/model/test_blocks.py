"""Models of several kinds of layers: what a user writes, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.problem.digest import problem_digest
from hetopt.problem.model.block import Block
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from tests.problem.writing import problem_to_data

BASE = """\
model:
  hidden: 64
  heads: 4
  gated: false
  norm: rms
  blocks:
    - {name: encoder, layers: 3, attention: bidirectional}
    - {name: decoder, layers: 2, context: encoder, ffn: 128}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 4}
training: {global_batch: 8, seq_len: 32}
"""

IMAGES = """\
model:
  attention: bidirectional
  gated: false
  patch: 48
  classes: 10
  blocks:
    - {name: wide, layers: 2, hidden: 32, heads: 2, window: 4}
    - {name: deep, layers: 3, hidden: 64, heads: 4, window: 4, merge: 4}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 4}
training: {global_batch: 8, seq_len: 64}
"""


def read(text: str) -> Problem:
    return read_problem_text(text, "p.yaml")


def sizes(**changes: Any) -> dict[str, Any]:
    return {
        "layers": 2,
        "hidden": 8,
        "heads": 2,
        "kv_heads": 2,
        "head_dim": 4,
        "ffn": 16,
        **changes,
    }


def test_blocks_take_from_the_model_what_they_do_not_say() -> None:
    model = read(BASE).model
    encoder, decoder = model.blocks
    assert encoder == Block(
        name="encoder",
        layers=3,
        hidden=64,
        heads=4,
        kv_heads=4,
        head_dim=16,
        ffn=256,
        gated=False,
        attention="bidirectional",
    )
    assert decoder == replace(
        encoder,
        name="decoder",
        layers=2,
        ffn=128,
        attention="causal",
        context="encoder",
    )
    assert (model.hidden, model.layers, model.vocab) == (64, 3, 32000)


def test_units_and_cuts_of_an_encoder_and_a_decoder() -> None:
    model = read(BASE).model
    assert model.units == (
        "embedding",
        "encoder",
        "encoder",
        "encoder",
        "decoder-first",
        "decoder",
        "head",
    )
    assert model.cuts == (
        "hidden",
        "encoder",
        "encoder",
        "encoder",
        "decoder+encoder",
        "decoder",
    )
    assert model.cut_tensors("decoder+encoder", 32) == ((32, 64), (32, 64))


def test_every_decoder_layer_hangs_on_the_last_encoder_layer() -> None:
    model = read(BASE.replace("layers: 2", "layers: 3")).model
    assert model.edges == (
        (0, 1, "hidden"),
        (1, 2, "encoder"),
        (2, 3, "encoder"),
        (3, 4, "encoder"),
        (3, 5, "encoder/"),
        (3, 6, "encoder/"),
        (4, 5, "decoder/decoder+encoder"),
        (5, 6, "decoder/decoder+encoder"),
        (6, 7, "decoder"),
    )
    # Between the stages the encoder's output goes along once, not on every edge.
    assert model.cut_tensors("encoder/", 32) == ()
    assert model.cut_tensors("encoder/", 32, within=True) == ((32, 64),)
    within = model.cut_tensors("decoder/decoder+encoder", 32, within=True)
    assert within == ((32, 64),)


def test_merged_tokens_and_wider_layers() -> None:
    model = read(IMAGES).model
    assert model.units == (
        "embedding",
        "wide",
        "wide",
        "deep-first",
        "deep",
        "deep",
        "head",
    )
    assert model.cuts == ("hidden", "wide", "wide", "deep", "deep", "deep")
    assert model.cut_tensors("wide", 64) == ((64, 32),)
    assert model.cut_tensors("deep", 64) == ((16, 64),)
    assert model.vocab == 0


def test_layers_that_are_alike_are_a_chain() -> None:
    model = Model(name="m", vocab=9, **sizes())
    assert model.is_decoder_only
    assert model.edges == ((0, 1, "hidden"), (1, 2, "hidden"), (2, 3, "hidden"))
    assert not replace(model, attention="bidirectional").is_decoder_only
    assert not replace(model, classes=3).is_decoder_only


@pytest.mark.parametrize("text", [BASE, IMAGES])
def test_written_and_read_back(text: str) -> None:
    problem = read(text)
    data = problem_to_data(problem)
    again = read_problem_text(json.dumps(data), "again.json")
    assert again.model == replace(problem.model, name=again.model.name)
    assert problem_digest(again) == problem_digest(problem)
    assert problem_to_data(again) == data


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("attention: bidirectional}", "attention: causal}"),
        ("layers: 3", "layers: 4"),
        ("context: encoder, ffn: 128", "context: encoder, ffn: 64"),
        ("norm: rms", "norm: rms\n  classes: 7"),
    ],
)
def test_the_digest_knows_blocks(old: str, new: str) -> None:
    assert old in BASE
    changed = BASE.replace(old, new)
    assert problem_digest(read(changed)) != problem_digest(read(BASE))


def test_fields_that_came_later_change_no_older_digest() -> None:
    plain = BASE[: BASE.index("  blocks")].replace("model:\n", "model:\n  layers: 3\n")
    plain += BASE[BASE.index("clusters") :]
    said = plain.replace("  layers: 3\n", "  layers: 3\n  attention: causal\n")
    assert problem_digest(read(said)) == problem_digest(read(plain))
    other = said.replace("causal", "bidirectional")
    assert problem_digest(read(other)) != problem_digest(read(plain))


def test_a_preset_of_blocks_can_be_renamed_but_not_resized() -> None:
    text = BASE[BASE.index("clusters") :].replace("seq_len: 32", "seq_len: 512")
    model = read("model: {preset: t5-large, tied: false}\n" + text).model
    assert not model.tied
    with pytest.raises(
        InputError, match="hidden: is given together with a preset of blocks"
    ):
        read("model: {preset: t5-large, hidden: 512}\n" + text)
    other = (
        "model: {preset: llama-7b, blocks: [{name: a, layers: 2}, "
        "{name: b, layers: 3, attention: bidirectional}]}\n"
    )
    assert read(other + text).model.units[1:6] == ("a", "a", "b", "b", "b")


REFUSED = [
    ("name: decoder", "name: encoder", "8: model.blocks.1.name: is 'encoder' a second"),
    ("name: encoder", "name: head", "7: model.blocks.0.name: is 'head', which is tak"),
    ("name: encoder", "name: a-first", "7: model.blocks.0.name: is 'a-first', which"),
    ("name: encoder", "name: En", "7: model.blocks.0.name: is 'En', expected lower-c"),
    ("ffn: 128", "heads: 3", "8: model.blocks.1.heads: is 3, which does not divide"),
    ("ffn: 128", "kv_heads: 3", "8: model.blocks.1.kv_heads: is 3, which does not d"),
    ("ffn: 128", "merge: 4", "8: model.blocks.1.merge: is 4, but context starts fro"),
    ("ffn: 128", "window: 8", "8: model.blocks.1.window: is 8, but attention is caus"),
    (", context: encoder, ffn: 128", ", hidden: 128", "8: model.blocks.1.hidden: is 1"),
    ("bidirectional}", "bidirectional, merge: 2}", "7: model.blocks.0.merge: is 2, bu"),
    ("bidirectional}", "causal, context: x}", "7: model.blocks.0.context: is 'x', bu"),
    (
        "  norm: rms",
        "  layers: 5",
        "5: model.layers: is given together with blocks: give",
    ),
    ("  norm: rms", "  granularity: block", "5: model.granularity: is 'block', expec"),
    ("  norm: rms", "  patch: 48", "5: model.patch: is 48, but block 'decoder' needs"),
    (
        "  norm: rms",
        "  tied: true\n  classes: 3",
        "5: model.tied: is true, but patch or classes leaves no second table",
    ),
]


@pytest.mark.parametrize(("old", "new", "said"), REFUSED)
def test_refused_in_one_line(old: str, new: str, said: str) -> None:
    assert old in BASE
    with pytest.raises(InputError) as caught:
        read(BASE.replace(old, new, 1))
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"p.yaml:{said}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("classes: 10", "vocab: 9\n  classes: 10", "model.vocab: is 9, but patch and"),
        ("seq_len: 64", "seq_len: 66", "training.seq_len: is 66, which leaves 66 tok"),
        ("window: 4, merge", "window: 3, merge", "training.seq_len: is 64, which lea"),
        ("merge: 4", "merge: 3", "training.seq_len: is 64, which leaves 64 tokens be"),
    ],
)
def test_images_refused(old: str, new: str, said: str) -> None:
    assert old in IMAGES
    with pytest.raises(InputError, match=said):
        read(IMAGES.replace(old, new, 1))


def test_the_outline_repeats_the_first_block() -> None:
    block = Block(name="a", **sizes())
    with pytest.raises(ValueError, match="hidden: is not that of the first block"):
        Model(name="m", vocab=9, blocks=(block,), **sizes(hidden=12))
    wide = Block(name="b", merge=2, **sizes(hidden=12))
    with pytest.raises(ValueError, match="tied: is true, but hidden goes from 8 to 12"):
        Model(name="m", vocab=9, tied=True, blocks=(block, wide), **sizes())


def test_a_problem_refuses_sequences_that_do_not_fit() -> None:
    problem = read(IMAGES)
    with pytest.raises(ValueError, match="seq_len: is 60, which leaves 15 tokens"):
        replace(problem, training=replace(problem.training, seq_len=60))
