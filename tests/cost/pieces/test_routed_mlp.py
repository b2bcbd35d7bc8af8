"""Routed and shared experts: what they compute, hold and send."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hetopt.cost.communication.within_stage import stage_communication
from hetopt.cost.held_alike import held_alike
from hetopt.cost.memory import state_bytes
from hetopt.cost.pieces.kinds import pieces_of
from hetopt.cost.pieces.operations import sum_of
from hetopt.cost.pieces.routed_mlp import RoutedMlp
from hetopt.cost.pieces.shared_expert import SharedExpert
from hetopt.cost.recompute import activation_bytes
from hetopt.cost.shapes import Shape
from hetopt.cost.units import unit_expert_parameters, unit_operations, unit_parameters
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.kinds import LAYER, LAYER_EXPERTS
from hetopt.problem.model.model import Model
from hetopt.problem.training.dispatch import Dispatch
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_model

E, K, F, SHARED = 64, 6, 1408, 2816
#: Sequences, cp, tp, ep, etp of rows on 16 devices.
ROWS = [(1, 1, 1, 1, 1), (1, 1, 1, 8, 1), (1, 1, 2, 4, 2), (2, 2, 4, 16, 1)]
TOKENS = 4096


def model(**changes: Any) -> Model:
    experts = {"number": E, "per_token": K, "ffn": F, "shared_ffn": SHARED, **changes}
    return make_model(experts=Experts(dense_layers=(0,), **experts), layers=4)


def training(dispatch: Dispatch | None = None, **changes: Any) -> Training:
    moe = dispatch or Dispatch()
    return Training(global_batch=16, seq_len=TOKENS, moe=moe, **changes)


def routed(moe: Dispatch | None = None) -> RoutedMlp:
    (found,) = (
        piece
        for piece in pieces_of(model(), training(moe), LAYER_EXPERTS)
        if isinstance(piece, RoutedMlp)
    )
    return found


SHAPE = Shape.of(ROWS)
#: Tokens of a device that are its own.
OWN = np.array([b * TOKENS / (cp * tp) for b, cp, tp, _, _ in ROWS])


def test_experts_are_split_by_their_own_degrees() -> None:
    whole = E * 3 * model().hidden * F
    found = unit_expert_parameters(model(), LAYER_EXPERTS, SHAPE)
    assert found is not None
    assert found.tolist() == [whole, whole / 8, whole / 8, whole / 16]
    assert unit_expert_parameters(model(), LAYER, SHAPE) is None


def test_router_and_shared_experts_are_dense() -> None:
    hidden, tp = model().hidden, np.array([1, 2])
    # Norms of attention and of the MLP, of a vector each.
    attention = 4 * hidden * hidden / tp + hidden
    rest = unit_parameters(model(), LAYER_EXPERTS, tp) - attention
    assert rest.tolist() == [
        E * hidden + 3 * hidden * SHARED / t + hidden for t in (1, 2)
    ]


@pytest.mark.parametrize("moe", [None, Dispatch(imbalance=1.5)])
def test_a_device_multiplies_its_share_of_the_rows(moe: Dispatch | None) -> None:
    load = moe.imbalance if moe else 1.0
    operations = routed(moe).operations(SHAPE, 2)
    router, first, second = operations.multiplications
    assert router.groups is None
    assert first.groups is not None
    assert first.groups.tolist() == [E / ep for *_, ep, _ in ROWS]
    each = [load * n * ep * x * K / E for n, (*_, ep, x) in zip(OWN, ROWS, strict=True)]
    assert first.m == pytest.approx(np.array(each))
    expected = load * OWN * K * 6 * model().hidden * F
    assert first.flops + second.flops == pytest.approx(expected)


def test_capacity_bounds_the_fullest_rank() -> None:
    assert Dispatch(imbalance=2.0).load == 2.0
    assert Dispatch(imbalance=2.0, capacity=1.25).load == 1.25
    assert Dispatch(capacity=1.25).load == 1.0
    assert Dispatch(capacity=0.5).load == 0.5


def test_activations_of_routed_tokens() -> None:
    hidden = model().hidden
    scores = 2 * 4 * OWN * E
    rows = OWN * K * np.array([x for *_, x in ROWS])
    width = np.array([F / x for *_, x in ROWS])
    expected = OWN * hidden * 4 + scores + 2 * rows * (hidden + 3 * width)
    assert routed().kept_bytes(SHAPE, 2, "none") == pytest.approx(expected)
    full = activation_bytes(model(), training(), LAYER_EXPERTS, SHAPE, "full")
    assert (full == 2 * OWN * hidden).all()


def test_optimizer_states_of_experts_have_ranks_of_their_own() -> None:
    # 16 devices, dp * cp of them with the same dense parameters.
    replicas = np.array([16, 16, 8, 4])
    dense, experts = held_alike(
        model(), training(zero=1), LAYER_EXPERTS, SHAPE, replicas
    )
    assert dense.replicas.tolist() == [16, 16, 8, 4]
    assert dense.stride.tolist() == [1, 1, 2, 4]
    assert experts.replicas.tolist() == [16, 2, 2, 1]
    assert experts.stride.tolist() == [1, 8, 8, 16]
    found = state_bytes(model(), training(zero=1), LAYER_EXPERTS, SHAPE, replicas)
    expected = sum(
        part.parameters * (6 + 12 / part.replicas) for part in (dense, experts)
    )
    assert found == pytest.approx(expected)


def test_tokens_go_there_and_back() -> None:
    cluster = make_cluster()
    replicas, per_node = np.full(4, 4), np.full(4, cluster.devices_per_node)

    def dispatch_s(moe: Dispatch | None = None) -> list[float]:
        ranks = SHAPE, replicas, per_node
        moved = stage_communication(
            model(), training(moe), cluster, LAYER_EXPERTS, *ranks
        )
        return list(moved.dispatch_s)

    alone, inside, shared, across = dispatch_s()
    assert alone == 0 < inside
    # Half the tokens to half the ranks, and another all-gather among two.
    assert shared > 0
    assert across > inside
    heavier = dispatch_s(Dispatch(imbalance=2.0))
    assert heavier[1] > 1.5 * inside
    once = dispatch_s(Dispatch(node_dedup=True))
    assert once[3] < across


def test_what_is_sent() -> None:
    sent = routed().dispatched(SHAPE, 2)
    assert sent.token_bytes == pytest.approx(OWN * model().hidden * 2)
    assert sent.copies == K
    assert sent.groups is None
    once = routed(Dispatch(node_dedup=True)).dispatched(SHAPE, 2)
    assert once.groups == (routed().experts.number, K)


def test_a_gate_of_the_shared_expert() -> None:
    def shared(**changes: Any) -> SharedExpert:
        pieces = pieces_of(model(**changes), training(), LAYER_EXPERTS)
        (found,) = (piece for piece in pieces if isinstance(piece, SharedExpert))
        return found

    one = np.array([1])
    more = shared(shared_gate=True).parameters(one) - shared().parameters(one)
    assert more == model().hidden
    kept = [
        shared(shared_gate=gate).kept_bytes(SHAPE, 2, "none") for gate in (True, False)
    ]
    assert (kept[0] > kept[1]).all()


def test_layers_without_shared_experts() -> None:
    kinds = [
        type(piece)
        for piece in pieces_of(model(shared_ffn=0), training(), LAYER_EXPERTS)
    ]
    assert RoutedMlp in kinds
    assert SharedExpert not in kinds


def test_work_is_the_same_whoever_holds_the_experts() -> None:
    rows = Shape.of([(1, 1, 1, ep, etp) for ep, etp in ((1, 1), (8, 1), (2, 4))])
    work = unit_operations(model(), training(), LAYER_EXPERTS, rows)
    flops = sum_of(part.flops for part in work.multiplications)
    assert flops == pytest.approx(np.full(3, flops[0]))
