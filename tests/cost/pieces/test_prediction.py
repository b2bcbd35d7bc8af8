"""Layers that predict further tokens against formulas written out here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetopt.cost.memory import state_bytes
from hetopt.cost.pieces.kinds import pieces_of
from hetopt.cost.pieces.prediction import Prediction
from hetopt.cost.shapes import Shape
from hetopt.cost.units import unit_operations, unit_parameters
from hetopt.problem.model.kinds import HEAD, LAYER_EXPERTS, PREDICTION
from hetopt.problem.model.model import Model
from hetopt.problem.training.training import Training

TRAINING = Training(global_batch=8, seq_len=4096, zero=0)
V3 = Model.of("deepseek-v3")
ONE = Shape.of([(1, 1, 1)])


def test_it_has_a_table_a_projection_three_norms_and_a_layer() -> None:
    tp = np.array([1, 8])
    layer, h = unit_parameters(V3, LAYER_EXPERTS, tp), V3.hidden
    own = unit_parameters(V3, PREDICTION, tp) - layer
    assert own == pytest.approx((V3.vocab + 2 * h) * h / tp + 3 * h)


def test_several_share_the_table() -> None:
    tp = np.array([1])
    one, two = (
        unit_parameters(replace(V3, predictions=count), PREDICTION, tp)
        for count in (1, 2)
    )
    assert two - one == pytest.approx(one - V3.vocab * V3.hidden)


def test_its_layer_is_of_the_last_ones_kind() -> None:
    found = [type(piece) for piece in pieces_of(V3, TRAINING, PREDICTION)]
    layer = [type(piece) for piece in pieces_of(V3, TRAINING, LAYER_EXPERTS)]
    assert found == [Prediction, *layer]


def test_the_head_predicts_every_token_twice() -> None:
    plain = replace(V3, predictions=0)
    twice, once = (
        unit_operations(model, TRAINING, HEAD, ONE).multiplications[0].flops
        for model in (V3, plain)
    )
    assert twice == pytest.approx(2 * once)


def test_losses_of_further_tokens_come_one_after_the_other() -> None:
    plain = replace(V3, predictions=0)
    twice, once = (
        pieces_of(model, TRAINING, HEAD)[0].working_bytes(ONE, 2, "none")
        for model in (V3, plain)
    )
    assert twice == pytest.approx(once)
    kept_twice, kept_once = (
        pieces_of(model, TRAINING, HEAD)[0].kept_bytes(ONE, 2, "none")
        for model in (V3, plain)
    )
    assert kept_twice > 1.9 * kept_once


def test_a_stage_that_is_the_whole_pipeline_has_one_table() -> None:
    shape = Shape.of([(1, 1, 2)])
    apart, alone = (
        state_bytes(
            V3, TRAINING, PREDICTION, shape, np.array([1]), alone=np.array([each])
        )
        for each in (False, True)
    )
    # Weight, gradient and optimizer: 18 bytes per parameter.
    assert apart - alone == pytest.approx([18 * V3.vocab / 2 * V3.hidden])
