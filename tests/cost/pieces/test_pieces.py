"""Every kind of piece, one by one, and what it takes to add one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hetopt.cost.communication.within_stage import stage_communication
from hetopt.cost.memory import temporary_bytes
from hetopt.cost.pieces import kinds
from hetopt.cost.pieces.kinds import pieces_of, profiled_parts
from hetopt.cost.pieces.mlp_up import MlpUp
from hetopt.cost.pieces.piece import Piece
from hetopt.cost.recompute import activation_bytes
from hetopt.cost.shapes import Floats, Ints, Shape
from hetopt.cost.shard_shape import UNITS
from hetopt.cost.units import unit_operations, unit_parameters
from hetopt.problem.model.kinds import BLOCKS, EMBEDDING, HEAD, LAYER, MLP_UP
from hetopt.problem.model.model import Model
from hetopt.problem.training.choices import Recompute
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model, shape

TRAINING = Training(global_batch=8, seq_len=512)


def names(model: Model, kind: str, seq_len: int = 512) -> list[str]:
    training = replace(TRAINING, seq_len=seq_len)
    return [type(piece).__name__ for piece in pieces_of(model, training, kind)]


def preset(name: str) -> Model:
    return Model.of(name)


def test_units_are_made_of_these_pieces() -> None:
    llama, t5, swin = make_model(), preset("t5-large"), preset("swin-huge")
    assert names(llama, EMBEDDING) == ["Embedding"]
    assert names(llama, LAYER) == ["Attention", "MlpUp", "MlpDown"]
    assert names(llama, HEAD) == ["Head"]
    assert [names(llama, kind) for kind in BLOCKS] == [
        ["Attention"],
        ["MlpUp"],
        ["MlpDown"],
    ]
    decoder = ["Attention", "CrossAttention", "MlpUp", "MlpDown"]
    assert names(t5, "decoder") == decoder
    assert names(t5, "decoder-first") == ["Embedding", *decoder]
    assert names(swin, EMBEDDING, 3136) == ["Patches"]
    assert names(swin, "stage-2-first", 3136)[0] == "Merge"
    assert names(swin, HEAD, 3136) == ["Classifier"]


@pytest.mark.parametrize("unit", UNITS)
def test_profiles_know_all_their_units(unit: str) -> None:
    parts = profiled_parts(unit)
    assert [part.unit for part in parts] == (list(BLOCKS) if unit == LAYER else [unit])


class Doubled(MlpUp):
    """Two such matrices, one after the other, and nothing else different."""

    collectives = (2, 2)

    def parameters(self, tp: Ints) -> Floats:
        return 2 * super().parameters(tp)

    def gradient_width(self, tp: Ints) -> Floats:
        return 2 * super().gradient_width(tp)

    def kept_bytes(self, shape: Shape, e: int, recompute: Recompute) -> Floats:
        return 2 * super().kept_bytes(shape, e, recompute)


def test_a_new_kind_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is added for a layer counts in all that is asked of it, and of no other."""
    model, rows, tp = make_model(), shape((2, 2, 4)), np.array([4])

    def counts(kind: str) -> list[float]:
        moved = stage_communication(
            model, TRAINING, make_cluster(), kind, rows, np.array([2]), np.array([8])
        )
        found = (
            unit_parameters(model, kind, tp),
            activation_bytes(model, TRAINING, kind, rows, "selective"),
            temporary_bytes(model, TRAINING, kind, rows, "none"),
            moved.forward_s,
        )
        return [float(value[0]) for value in found]

    before = {kind: counts(kind) for kind in (LAYER, *BLOCKS)}
    monkeypatch.setitem(kinds._OF_A_LAYER, MLP_UP, Doubled)
    after = {kind: counts(kind) for kind in (LAYER, *BLOCKS)}
    for kind in (LAYER, MLP_UP):
        assert all(
            more > less for more, less in zip(after[kind], before[kind], strict=True)
        ), kind
    for kind in ("attention", "mlp-down"):
        assert after[kind] == before[kind]


def test_every_kind_answers_everything() -> None:
    """Of all presets' units: counts are finite, and none is negative."""
    rows = shape((1, 1, 1), (2, 1, 2))
    found: set[type[Piece]] = set()
    for name in ("t5-large", "swin-huge", "bert-huge", "llama-7b"):
        model = preset(name)
        seq_len = 3136 if model.patch else 512
        training = Training(global_batch=8, seq_len=seq_len)
        for kind in dict.fromkeys(model.units):
            work = unit_operations(model, training, kind, rows)
            assert (work.elementwise_backward_bytes > 0).all()
            for piece in pieces_of(model, training, kind):
                found.add(type(piece))
                for value in (
                    piece.parameters(rows.tp),
                    piece.kept_bytes(rows, 2, "none"),
                    piece.working_bytes(rows, 2, "none"),
                    piece.input_bytes(rows, 2),
                ):
                    assert value.shape == (2,)
                    assert np.isfinite(value).all()
                    assert (value > 0).all()
    assert len(found) == 9
