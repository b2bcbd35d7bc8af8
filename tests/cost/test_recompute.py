"""Options of recomputation: what they repeat, keep and need for a while."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pytest

import hetopt
from hetopt.cost.memory import temporary_bytes
from hetopt.cost.recompute import OPTIONS, activation_bytes, of_share
from hetopt.errors import InputError
from hetopt.problem.model.kinds import (
    END_KINDS,
    LAYER,
    LAYER_EXPERTS,
)
from hetopt.problem.model.model import Model
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import RECOMPUTE_OPTIONS
from hetopt.problem.training.training import Training
from tests.cost.making import shape

if TYPE_CHECKING:
    from hetopt.problem.training.choices import Recompute

TOKENS = 4096
TRAINING = Training(global_batch=8, seq_len=TOKENS)
ONE = shape((1, 1, 1))
LLAMA, V3 = Model.of("llama-7b"), Model.of("deepseek-v3")


def kept(model: Model, kind: str, option: Recompute) -> float:
    """Return the bytes of a token."""
    found = activation_bytes(model, TRAINING, kind, ONE, option)
    return float(found[0]) / TOKENS


def freed(model: Model, kind: str, option: Recompute) -> float:
    return kept(model, kind, "none") - kept(model, kind, option)


def test_every_option_has_a_row() -> None:
    assert tuple(OPTIONS) == RECOMPUTE_OPTIONS


def test_modules_free_what_formulas_say() -> None:
    latent, experts = V3.latent, V3.experts
    assert latent is not None
    assert experts is not None
    heads = V3.heads
    made = 2 * heads * latent.head_dim + heads * latent.v_dim
    assert freed(V3, LAYER, "mla_up_proj") == 2 * made
    assert freed(LLAMA, LAYER, "layernorm") == 4 * LLAMA.hidden
    # Two results of matrices, and the activation's.
    assert freed(LLAMA, LAYER, "mlp") == 2 * 3 * LLAMA.ffn
    rows = experts.per_token
    assert freed(V3, LAYER_EXPERTS, "moe_act") == 2 * rows * experts.ffn
    shared = freed(V3, LAYER_EXPERTS, "shared_experts")
    assert shared == 2 * 3 * experts.shared_ffn
    routed = 2 * rows * (V3.hidden + 3 * experts.ffn) + 8 * experts.number
    assert freed(V3, LAYER_EXPERTS, "moe") == routed + shared
    # What a layer does not have is not freed.
    assert not freed(V3, LAYER_EXPERTS, "mlp")
    assert not freed(V3, LAYER, "moe")


def test_every_other_result_is_kept_per_operator() -> None:
    """With the layer's input, the core's result and its log-sum-exp."""
    h, f = LLAMA.hidden, LLAMA.ffn
    results = 3 * h + h + 2 * f + h
    expected = 2 * h + results + 2 * h + 4 * LLAMA.heads
    assert kept(LLAMA, LAYER, "per-operator") == expected


@pytest.mark.parametrize("option", RECOMPUTE_OPTIONS)
@pytest.mark.parametrize(
    ("model", "kind"), [(LLAMA, LAYER), (V3, LAYER), (V3, LAYER_EXPERTS)]
)
def test_options_keep_more_than_full_and_less_than_none(
    model: Model, kind: str, option: Recompute
) -> None:
    least, found, most = (kept(model, kind, each) for each in ("full", option, "none"))
    assert least <= found <= most
    none, passing = (
        float(temporary_bytes(model, TRAINING, kind, ONE, each)[0])
        for each in ("none", option)
    )
    # All that is made again exists at once, for one layer.
    assert none <= passing <= none + TOKENS * most
    if option not in ("none", "selective"):
        assert passing - none >= TOKENS * (most - found) - TOKENS * 2 * model.hidden
    for end in END_KINDS:
        assert kept(model, end, option) == kept(model, end, "none")


TEXT = """\
model: {{preset: {model}, layers: 4}}
clusters:
  - {{name: a, accelerator: H100, nodes: 1, devices_per_node: 8, memory: 400 GB,
      inter_node: {{bandwidth: 400 Gbps, latency: 5 us}}}}
training: {{global_batch: 8, seq_len: 4096, recompute: {recompute}}}
pin: {{stages: 1, clusters: {{a: {{dp: {dp}, cp: 1, tp: {tp}}}}}}}
"""


def backward_ns(model: str, dp: int, tp: int) -> dict[str, float]:
    """Return the backward time of all units by option, of one strategy."""
    known = read_problem_text(TEXT.format(model=model, dp=dp, tp=tp, recompute="none"))
    has = ["none", "full", "per-operator", "layernorm"]
    has += ["mlp", "selective"] if model == "llama-7b" else []
    has += ["mla_up_proj", "moe_act", "moe", "shared_experts"] * (
        known.model.latent is not None
    )
    text = TEXT.format(model=model, dp=dp, tp=tp, recompute=f"[{', '.join(has)}]")
    table = hetopt.build_table(read_problem_text(text))
    own = table.slices[0].clusters[0]
    units = np.bincount(table.units, minlength=len(table.kinds))
    alike = own.strategies[0]
    return {
        each.recompute: float(own.backward_ns[k] @ units)
        for k, each in enumerate(own.strategies)
        if (each.ep, each.etp) == (alike.ep, alike.etp)
    }


@pytest.mark.parametrize(("dp", "tp"), [(8, 1), (1, 8)])
def test_dense_options_repeat_parts_of_the_forward_pass(dp: int, tp: int) -> None:
    found = backward_ns("llama-7b", dp, tp)
    ordered = ("none", "layernorm", "selective", "per-operator", "mlp", "full")
    assert all(found[a] < found[b] for a, b in pairwise(ordered))
    # Half of the forward multiplications: about a sixth of all.
    share = (found["per-operator"] - found["none"]) / (found["full"] - found["none"])
    assert (0.3 if tp == 1 else 0.1) < share < 0.5


def test_options_of_a_mixture_repeat_parts_of_the_forward_pass() -> None:
    found = backward_ns("deepseek-v3", 8, 1)
    for small, large in (
        ("none", "layernorm"),
        ("layernorm", "mla_up_proj"),
        ("none", "moe_act"),
        ("moe_act", "moe"),
        ("shared_experts", "moe"),
        ("moe", "full"),
        ("per-operator", "full"),
    ):
        assert found[small] < found[large]


def test_a_share_of_the_layers_is_linear() -> None:
    assert of_share(6.0, 2.0, 0, 4) == 2
    assert of_share(6.0, 2.0, 1, 4) == 3
    assert of_share(6.0, 2.0, 4, 4) == 6


@pytest.mark.parametrize(
    ("model", "option", "message"),
    [
        ("llama-7b", "moe_act", "is 'moe_act', but the model has none of it"),
        ("llama-7b", "mla_up_proj", "is 'mla_up_proj', but the model has none of it"),
        ("qwen3-235b-a22b", "mlp", "is 'mlp', but the model has none of it"),
        ("qwen3-235b-a22b", "shared_experts", "but the model has none of it"),
        ("llama-7b, granularity: block", "mlp", "set granularity: layer"),
    ],
)
def test_what_a_model_lacks_cannot_be_recomputed(
    model: str, option: str, message: str
) -> None:
    text = TEXT.format(model=model, dp=8, tp=1, recompute=option)
    with pytest.raises(InputError, match=message):
        read_problem_text(text)
