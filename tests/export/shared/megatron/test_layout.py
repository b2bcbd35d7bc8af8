"""Layouts are read as Megatron-LM reads them."""

import pytest

from hetopt.export.shared.megatron.layout import (
    layout_layers,
    layout_predictions,
    layout_text,
)


@pytest.mark.parametrize(
    ("text", "layers"),
    [
        ("EtL", (1,)),
        ("Et*10|t*9|t*7|t*6L", (10, 9, 7, 6)),
        ("Et*3|(tt|)*3,tL", (3, 2, 2, 2, 1)),
        ("Ettt|(t*2|t|)*2t*4L", (3, 2, 1, 2, 1, 4)),
        ("E||t|L", (0, 0, 1, 0)),
        ("E(t)*12|tL", (12, 1)),
    ],
)
def test_layouts_are_read_as_megatron_reads_them(
    text: str, layers: tuple[int, ...]
) -> None:
    assert layout_layers(text) == layers


@pytest.mark.parametrize(
    "text", ["", "tE|tL", "Et|t", "EEt|tL", "Etm|tL", "Etm|mL", "EtL|m", "Et x|tL"]
)
def test_layouts_against_the_rules_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not|has"):
        layout_layers(text)


def test_layout_text_is_short() -> None:
    assert layout_text((3, 1, 12)) == "Et*3|t|t*12L"
    assert layout_text((1,)) == "EtL"


def test_layouts_are_written_out() -> None:
    assert layout_layers("E(t*2|)*3tL") == (2, 2, 2, 1)


@pytest.mark.parametrize(
    ("text", "layers", "predictions"),
    [
        ("Et*3|t*2mL", (3, 2), 1),
        ("Et*3|m*2L", (3, 0), 2),
        ("EtmL", (1,), 1),
        ("Et|tL", (1, 1), 0),
    ],
)
def test_layers_that_predict_further_are_on_the_last_stage(
    text: str, layers: tuple[int, ...], predictions: int
) -> None:
    assert (layout_layers(text), layout_predictions(text)) == (layers, predictions)
    assert layout_text(layers, predictions=predictions) == text
