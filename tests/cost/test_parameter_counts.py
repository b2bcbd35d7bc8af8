"""Parameters of mixtures of experts against what their publishers say."""

from typing import Any

import pytest

from hetopt.cost.parameter_counts import ParameterCounts, parameter_counts
from hetopt.problem.building.huggingface.fields import model_fields
from hetopt.problem.files import Files
from hetopt.problem.model.model import Model
from tests.problem.building import published_configs as published

#: Billions of parameters of Llama-4's vision encoder, its adapter and the projector to
#: the text model, by the sizes in their configuration class: layers of attention with
#: biases and of an MLP, LayerNorms, patches of 14 x 14 pixels of three colours.
SEES_IMAGES = (
    34 * (4 * 1408 * 1409 + 2 * 1408 * 5632 + 1408 + 5632 + 4 * 1408)
    + 1408 * 14 * 14 * 3
    + 4096 * (5632 + 4096)
    + 4096 * 5120
) / 1e9


def counts(config: dict[str, Any]) -> ParameterCounts:
    fields = model_fields(config, name="model")
    return parameter_counts(
        Model.of({"hf_config": "x"}, Files(config=lambda _: fields))
    )


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        # DeepSeek-V3, abstract.
        (published.DEEPSEEK_V3, 671.03, 37.0),
        # DeepSeek-V2, abstract.
        (published.DEEPSEEK_V2, 236.0, 21.0),
        # Qwen3-235B-A22B and Qwen3-30B-A3B, of 235 and 30.5 billion.
        (published.QWEN3_235B_A22B, 235.09, 22.0),
        (published.QWEN3_30B_A3B, 30.53, 3.3),
        # Ollama's listing of mixtral:8x7b; Mixtral of Experts, abstract.
        (published.MIXTRAL_8X7B, 46.7, 13.0),
        # Qwen's announcement of Qwen1.5-MoE-A2.7B.
        (published.QWEN15_MOE, 14.3, 2.7),
        # Meta's model card of Llama 4: 109 billion with what sees images (below).
        (published.LLAMA_4_SCOUT, 109 - SEES_IMAGES, 17.0),
        (published.LLAMA_4_MAVERICK, 400.0, 17.0),
    ],
)
def test_both_tables_counted(
    config: dict[str, Any], total: float, active: float
) -> None:
    found = counts(config)
    assert found.total / 1e9 == pytest.approx(total, rel=0.005)
    assert found.active / 1e9 == pytest.approx(active, rel=0.02)


@pytest.mark.parametrize(
    ("config", "total", "active"),
    [
        # gpt-oss model card, Table 1: without the embedding, with the unembedding.
        (published.GPT_OSS_120B, 116.83, 5.13),
        (published.GPT_OSS_20B, 20.91, 3.61),
    ],
)
def test_active_without_the_input_table(
    config: dict[str, Any], total: float, active: float
) -> None:
    found = counts(config)
    assert found.total / 1e9 == pytest.approx(total, rel=0.005)
    assert found.active_without_input / 1e9 == pytest.approx(active, rel=0.02)


def test_predicting_layers_are_counted_apart() -> None:
    # 11.5 billion of their own (DeepSeek-V3, README of the weights).
    found = counts(published.DEEPSEEK_V3)
    assert found.predictions / 1e9 == pytest.approx(11.5, rel=0.02)
    without = counts({**published.DEEPSEEK_V3, "num_nextn_predict_layers": 0})
    assert (without.total, without.predictions) == (found.total, 0)


def test_a_tied_table_counts_once() -> None:
    config = {**published.QWEN3_30B_A3B, "tie_word_embeddings": True}
    found, untied = counts(config), counts(published.QWEN3_30B_A3B)
    assert untied.total - found.total == found.table
