"""FLOPs that MFU counts, of models with experts, latent attention and predictions."""

import numpy as np
import pytest

from hetopt.cost.model_flops import model_flops
from hetopt.cost.shapes import Shape
from hetopt.cost.units import unit_operations
from hetopt.problem.model.model import Model
from hetopt.problem.training.training import Training

#: Longer than Llama-4's chunks.
TRAINING = Training(global_batch=4, seq_len=12288)


def preset(name: str, **changed: int) -> Model:
    return Model.of({"preset": name, **changed})


@pytest.mark.parametrize(
    "name",
    [
        "deepseek-v3",
        "deepseek-v2-lite",
        "qwen3-30b-a3b",
        "mixtral-8x7b",
        "llama-4-maverick",
    ],
)
def test_it_is_what_the_pieces_multiply(name: str) -> None:
    model = preset(name)
    shape = Shape.of([(TRAINING.global_batch, 1, 1)])
    forward = 0.0
    for kind in model.units:
        work = unit_operations(model, TRAINING, kind, shape)
        forward += sum(float(np.sum(part.flops)) for part in work.multiplications)
        forward += float(work.attention_flops[0])
    assert model_flops(model, TRAINING) == pytest.approx(3 * forward, rel=1e-9)


def test_predictions_count() -> None:
    one = model_flops(preset("deepseek-v3"), TRAINING)
    none = model_flops(preset("deepseek-v3", predictions=0), TRAINING)
    # A layer of 61, a head and a projection of two inputs: about a fortieth.
    assert 1.02 < one / none < 1.06
