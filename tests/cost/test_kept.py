"""What dropout, FP8 and the loss keep for the backward pass, derived by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hetopt.cost.memory import temporary_bytes, weight_bytes
from hetopt.cost.recompute import activation_bytes
from hetopt.problem.catalogue import software
from hetopt.problem.model.architecture import Architecture
from hetopt.problem.model.kinds import EMBEDDING, HEAD, LAYER, LAYER_EXPERTS
from hetopt.problem.model.model import Model
from hetopt.problem.training.choices import Kernel, Precision, Recompute
from hetopt.problem.training.training import Training
from tests.cost.making import make_model, shape

TOKENS = 2048
ONE = shape((1, 1, 1))
DENSE = make_model(kv_heads=8)
H, F = DENSE.hidden, DENSE.ffn
QUERY = DENSE.heads * DENSE.head_dim


def kept(
    kind: str = LAYER,
    model: Model = DENSE,
    recompute: Recompute = "none",
    **settings: Any,
) -> float:
    training = Training(global_batch=8, seq_len=TOKENS, **settings)
    found = activation_bytes(model, training, kind, ONE, recompute)
    return float(found[0]) / TOKENS


def dropping(hidden: float = 0.0, scores: float = 0.0) -> Model:
    own = Architecture(hidden_dropout=hidden, attention_dropout=scores)
    return replace(DENSE, architecture=own)


@pytest.mark.parametrize(("kind", "masks"), [(LAYER, 2 * H), (EMBEDDING, H), (HEAD, 0)])
def test_a_mask_is_kept_where_there_is_dropout(kind: str, masks: int) -> None:
    with_masks = kept(kind, dropping(hidden=0.1))
    assert with_masks - kept(kind, dropping(hidden=0.0)) == masks
    # Those of scores are inside the fused kernel.
    assert kept(kind, dropping(scores=0.1)) == kept(kind)


def test_unfused_attention_keeps_masks_and_results_of_dropout() -> None:
    dropped, plain = (
        kept(model=dropping(scores=share), attention="unfused") for share in (0.1, 0.0)
    )
    assert dropped - plain == 3 * DENSE.heads * TOKENS


#: Bytes of an element of a kept input; the scale of a block has one of 32, or 16.
@pytest.mark.parametrize(
    ("precision", "narrow"), [("fp8", 1), ("mxfp8", 33 / 32), ("nvfp4", 9 / 16)]
)
def test_inputs_of_multiplications_are_kept_as_they_are_multiplied(
    precision: Precision, narrow: float
) -> None:
    """Normed inputs twice, and the activation's result, in place of 16 bits.

    The matrix behind the core keeps its result narrow, and a fused core keeps it in 16
    bits besides, for its own backward pass. Queries, keys and values stay as they are.
    """
    inputs = (2 * H + F) * (2 - narrow)
    beside, in_place = -QUERY * narrow, QUERY * (2 - narrow)
    cases: tuple[tuple[Recompute, Kernel, float], ...] = (
        ("none", "fused", beside),
        ("selective", "fused", in_place),
        ("none", "unfused", in_place),
    )
    for recompute, attention, core in cases:
        usual, found = (
            kept(recompute=recompute, attention=attention, precision=each)
            for each in ("bf16", precision)
        )
        assert usual - found == pytest.approx(inputs + core)
    assert kept(recompute="full", precision=precision) == kept(recompute="full")
    for kind in (EMBEDDING, HEAD):
        assert kept(kind, precision=precision) == kept(kind)


def test_a_stack_that_casts_again_keeps_16_bits() -> None:
    stack = software()["torchtitan"]
    assert kept(precision="fp8", software=stack) == kept()


def test_experts_keep_narrow_inputs_and_the_router_its_own() -> None:
    model = Model.of("qwen3-235b-a22b")
    assert model.experts is not None
    rows = model.experts.per_token
    inside = rows * (model.hidden + model.experts.ffn)
    less = kept(LAYER_EXPERTS, model) - kept(LAYER_EXPERTS, model, precision="fp8")
    assert less == inside + model.hidden - model.heads * model.head_dim


def test_two_matrices_read_the_input_of_latent_attention() -> None:
    """Each keeps 8 bits of it: as much as both keep of 16."""
    model = Model.of("deepseek-v3")
    assert model.latent is not None
    less = kept(LAYER, model) - kept(LAYER, model, precision="fp8")
    narrow = model.latent.q_lora + model.latent.kv_lora
    value = model.heads * model.latent.v_dim
    assert less == narrow - value + model.hidden + model.ffn


def test_pending_weight_gradients_have_narrow_inputs() -> None:
    inputs = 2 * H + QUERY + F
    usual, narrow = (
        weight_bytes(
            DENSE,
            Training(global_batch=8, seq_len=TOKENS, precision=precision),
            LAYER,
            ONE,
        )[0]
        for precision in ("bf16", "fp8")
    )
    assert usual - narrow == TOKENS * inputs


@pytest.mark.parametrize(
    ("precision", "tp", "inputs"), [("bf16", 1, 2), ("bf16", 2, 2), ("fp8", 1, 4)]
)
def test_what_several_multiplications_read_waits_once(
    precision: Precision, tp: int, inputs: int
) -> None:
    """Unless each has a narrow copy, or ranks have gathered what one of them reads.

    The tokens before attention are read by both down-projections, those before the
    experts by the router and the shared experts.
    """
    model = Model.of("deepseek-v3")
    training = Training(global_batch=8, seq_len=TOKENS, precision=precision)
    (found,) = weight_bytes(model, training, LAYER_EXPERTS, shape((1, 1, tp)))
    latent, experts = model.latent, model.experts
    assert latent is not None
    assert experts is not None
    heads, own = model.heads / tp, 1 / tp
    lora, value = latent.q_lora + latent.kv_lora, heads * latent.v_dim
    made = heads * (latent.qk_dim + latent.head_dim + latent.v_dim)
    rows, shared = own * experts.per_token, experts.shared_ffn / tp
    read = lora + value + shared + rows * (model.hidden + experts.ffn)
    read += model.hidden * inputs
    graded = own * (lora + latent.rope_dim + experts.number) + made
    graded += 2 * model.hidden + 2 * shared + rows * (2 * experts.ffn + model.hidden)
    assert found == TOKENS * (read * (1 if precision == "fp8" else 2) + 2 * graded)


@pytest.mark.parametrize(
    ("loss", "zero", "peak"),
    [("fused", 1, 10), ("unfused", 1, 6), ("fused", 3, 4), ("unfused", 3, 12)],
)
def test_most_bytes_of_a_logit(loss: Any, zero: int, peak: int) -> None:
    """Megatron-LM's unfused loss works in place on the logits' copy in 32 bits."""

    def bytes_of(vocab: int) -> float:
        training = Training(
            global_batch=8, seq_len=TOKENS, cross_entropy=loss, zero=zero
        )
        model = replace(DENSE, vocab=vocab)
        found = activation_bytes(model, training, HEAD, ONE, "none")
        found = found + temporary_bytes(model, training, HEAD, ONE, "none")
        # From ZeRO-2 on, gradients and gathered weights are temporary, too.
        weights = {1: 0, 3: 2 + 2 * 2}[zero] * model.vocab * H
        return float(found[0]) - weights

    assert bytes_of(33000) - bytes_of(32000) == 1000 * TOKENS * peak
