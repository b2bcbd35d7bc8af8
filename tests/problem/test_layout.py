"""Layouts are read as Megatron-LM reads them, and written in the same notation."""

from itertools import accumulate

import pytest

from hetopt.problem.layout import (
    cuts_of,
    layout_chunks,
    layout_of,
    layout_text,
    predictions_fault,
)
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text

TEXT = """\
model: {layers: LAYERS, hidden: 1024, heads: 16, ffn: 4096, vocab: 32000, FURTHER}
clusters: [{name: a, accelerator: H100, nodes: 1, devices_per_node: 8}]
training: {global_batch: 32, seq_len: 2048}
"""


def model_of(layers: int, predictions: int = 0, granularity: str = "layer") -> Model:
    further = f"granularity: {granularity}"
    if predictions:
        further += f", predictions: {predictions}"
    text = TEXT.replace("LAYERS", str(layers)).replace("FURTHER", further)
    problem: Problem = read_problem_text(text)
    return problem.model


def layers_of(text: str) -> tuple[int, ...]:
    return tuple(chunk.count("t") for chunk in layout_chunks(text))


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("EtL", (1,)),
        ("Et*10|t*9|t*7|t*6L", (10, 9, 7, 6)),
        ("Et*3|(tt|)*3,tL", (3, 2, 2, 2, 1)),
        ("Ettt|(t*2|t|)*2t*4L", (3, 2, 1, 2, 1, 4)),
        ("E||t|L", (0, 0, 1, 0)),
        ("E(t)*12|tL", (12, 1)),
        ("E(t*2|)*3tL", (2, 2, 2, 1)),
    ],
)
def test_layouts_are_read_as_megatron_reads_them(
    text: str, layers: tuple[int, ...]
) -> None:
    assert layers_of(text) == layers


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tE|tL",
        "Et|t",
        "EEt|tL",
        "Etm|tL",
        "Etm|mL",
        "EtL|m",
        "|Et|tL",
        "Et|L|",
        "Et|t|m|t|L",
        "Et x|tL",
        "EtmLL",
    ],
)
def test_layouts_against_the_rules_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|has"):
        layout_chunks(text)


def test_a_layout_of_too_many_letters_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 1000000 letters"):
        layout_chunks("E(t|)*900000,t*900000L")


@pytest.mark.parametrize(
    ("layers", "predictions", "text"),
    [
        ((3, 1, 12), 0, "Et*3|t|t*12L"),
        ((1,), 0, "EtL"),
        ((3, 2), 1, "Et*3|ttmL"),
        ((3, 0), 2, "Et*3|mmL"),
        ((0, *[2] * 9, 0), 0, "E|(tt|)*9,L"),
        ((1, 0, 0, 1), 0, "Et|||tL"),
    ],
)
def test_layouts_are_short(
    layers: tuple[int, ...], predictions: int, text: str
) -> None:
    assert layout_text(layers, predictions) == text
    assert layers_of(text) == layers
    model = model_of(sum(layers), predictions)
    assert layout_of(cuts_of(text, model), model) == text


@pytest.mark.parametrize(
    ("text", "again", "cuts"),
    [
        ("E|t*2,m|L", "E|ttm|L", (1, 4, 5)),
        ("E|tt|(m)*2|L", "E|tt|mm|L", (1, 3, 4, 5)),
        ("Et|t||L", "Et|t||L", (2, 3, 3, 4)),
    ],
)
def test_cuts_count_units_of_the_model(
    text: str, again: str, cuts: tuple[int, ...]
) -> None:
    """Layers that predict further tokens are one unit."""
    model = model_of(2, "".join(layout_chunks(text)).count("m"))
    assert cuts_of(text, model) == cuts
    assert layout_of(cuts, model) == again


def test_cuts_of_blocks_lie_between_layers() -> None:
    model = model_of(4, granularity="block")
    each = 3
    cuts = (1 + each, 1 + 3 * each, 2 + 4 * each)
    assert cuts_of("Et|tt|tL", model) == cuts
    assert layout_of(cuts, model) == "Et|tt|tL"
    with pytest.raises(ValueError, match="cuts inside a layer"):
        layout_of((2, *cuts[1:]), model)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Et|tL", "has 2 layers, expected 3 as the model has"),
        (
            "Et*2|tmL",
            "has 1 layer of multi-token prediction, expected 0 as the model has",
        ),
    ],
)
def test_a_layout_of_another_model_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cuts_of(text, model_of(3))


@pytest.mark.parametrize(
    ("text", "layers", "predictions"),
    [
        # Llama-3-70B on 8 stages of 5 chunks (Megatron-Bridge, PR 5391); DeepSeek-V3
        # on 16 of 2; Llama-3.1-405B on 8 of 8 with embedding and loss as layers.
        ("Et*2|(t*2|)*34,t*3|(t*2|)*3,tL", 80, 0),
        ("Et*3|(tt|)*29,m|L", 61, 1),
        ("Et|(tt|)*62,tL", 126, 0),
    ],
)
def test_published_layouts_come_back(text: str, layers: int, predictions: int) -> None:
    model = model_of(layers, predictions)
    cuts = cuts_of(text, model)
    again = layout_of(cuts, model)
    assert cuts_of(again, model) == cuts
    chunks = layout_chunks(again)
    assert chunks == layout_chunks(text)
    assert cuts == tuple(accumulate(map(len, chunks)))
    assert len(again) <= len(text)


@pytest.mark.parametrize(
    ("text", "stages", "fault"),
    [
        ("Et|t|m|L", 2, None),
        ("Et|t|tm|L", 2, None),
        ("Et|tm||L", 2, "in chunk 0 of stage 1, expected it in the last chunk of"),
        ("Etm|||L", 2, "in chunk 0 of stage 0"),
        ("Et|m|L", 3, None),
    ],
)
def test_further_tokens_are_predicted_in_the_last_chunk_of_a_stage(
    text: str, stages: int, fault: str | None
) -> None:
    found = predictions_fault(layout_chunks(text), stages)
    assert (found is None) == (fault is None)
    assert fault is None or fault in (found or "")
