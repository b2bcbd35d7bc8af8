"""The units that are timed compute what a transformer computes."""

from itertools import product

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from hetopt.cost.profiles.units import forward_flops
from hetopt.cost.shard_shape import ATTENTION_CORE, UNITS, ShardShape
from hetopt.cost.units import unit_parameters
from hetopt.problem.model.model import Model
from hetopt.profile.units.core import query_positions
from hetopt.profile.units.timed import ShardUnit
from tests.profile.shapes import small_shape

pytestmark = pytest.mark.torch

CPU = torch.device("cpu")
DEGREES = ((1, 1), (2, 1), (1, 2), (4, 2), (1, 8))
FAMILIES = (True, False)
KINDS = list(product(UNITS, FAMILIES))


def run(shape: ShardShape) -> ShardUnit:
    """Run one forward and backward pass."""
    torch.manual_seed(1)
    unit = ShardUnit(shape, CPU)
    unit.forward()
    unit.backward()
    return unit


def weights(thing: object) -> list[Tensor]:
    """Return the trained tensors of a unit."""
    found: list[Tensor] = []
    for value in vars(thing).values():
        if isinstance(value, Tensor) and value.requires_grad:
            found.append(value)
        elif type(value).__module__.startswith("hetopt.profile.units.") and hasattr(
            value, "__dict__"
        ):
            found += weights(value)
    return found


@pytest.mark.parametrize(("unit", "gated"), KINDS)
@pytest.mark.parametrize(("cp", "tp"), DEGREES)
def test_everything_gets_a_gradient(unit: str, gated: bool, cp: int, tp: int) -> None:
    done = run(small_shape(unit, gated=gated, cp=cp, tp=tp))
    trained = weights(done.call)
    assert (unit == ATTENTION_CORE) == (not trained)
    for tensor in [*trained, *done.edges.leaves.values()]:
        assert tensor.grad is not None
        assert torch.isfinite(tensor.grad).all()
        assert tensor.grad.abs().max() > 0


@pytest.mark.parametrize(("unit", "gated"), KINDS[:-2])
@pytest.mark.parametrize("tp", [1, 2, 8])
def test_weights_are_those_the_memory_model_counts(
    unit: str, gated: bool, tp: int
) -> None:
    shape = small_shape(unit, gated=gated, tp=tp)
    model = Model(
        name="small",
        layers=1,
        hidden=64,
        heads=8,
        kv_heads=4,
        head_dim=8,
        ffn=192,
        vocab=99,
        gated=gated,
        norm="rms" if gated else "layer",
        # The device's share of the position table is what it adds and trains.
        positions=0 if gated else 64 // tp,
    )
    counted = unit_parameters(model, unit, torch.tensor([tp]).numpy())
    held = sum(tensor.numel() for tensor in weights(ShardUnit(shape, CPU).call))
    assert held == counted[0]


@pytest.mark.parametrize(("unit", "gated"), KINDS)
@pytest.mark.parametrize("tp", [1, 2, 8])
def test_work_is_what_pytorch_counts(unit: str, gated: bool, tp: int) -> None:
    shape = small_shape(unit, gated=gated, tp=tp)
    done = ShardUnit(shape, CPU)
    with FlopCounterMode(display=False) as counter:
        done.forward()
    # PyTorch counts no fused attention on CPUs; causality halves ours.
    core = 0
    if unit in ("layer", "attention", ATTENTION_CORE):
        core = 2 * 64 * shape.tokens * shape.shard_heads * shape.head_dim
    assert forward_flops(shape) - core == counter.get_total_flops()


@pytest.mark.parametrize("cp", [2, 4])
def test_context_parallel_queries_meet_all_keys_before_them(cp: int) -> None:
    shape = small_shape(ATTENTION_CORE, cp=cp)
    generator = torch.Generator().manual_seed(3)
    query = torch.randn(2, 8, 64, 8, generator=generator)
    key, value = (torch.randn(2, 4, 64, 8, generator=generator) for _ in range(2))
    whole = F.scaled_dot_product_attention(
        query, key, value, is_causal=True, enable_gqa=True
    )
    own = query_positions(shape, CPU)
    part = ShardUnit(shape, CPU).call(query[:, :, own], key, value)
    torch.testing.assert_close(part, whole[:, :, own])
    # Balanced: the pairs of query and key are one share of all pairs.
    pairs = sum(int(position) + 1 for position in own)
    assert pairs == 64 * 65 / 2 / cp


def test_grouped_keys_may_be_repeated_instead() -> None:
    core = ShardUnit(small_shape(ATTENTION_CORE), CPU).call
    query = torch.randn(2, 8, 64, 8)
    key, value = torch.randn(2, 2, 4, 64, 8)
    native = core(query, key, value)
    core.native = False
    torch.testing.assert_close(core(query, key, value), native)


@pytest.mark.parametrize("gated", FAMILIES)
def test_a_layer_is_its_three_blocks(gated: bool) -> None:
    layer = run(small_shape(gated=gated)).call
    x = torch.randn(2, 64, 64)
    middle = layer.attention(x)
    torch.testing.assert_close(layer(x), layer.down(layer.up(middle), middle))
    # Causal: what comes later changes nothing before it.
    changed = x.clone()
    changed[:, 40:] += 1
    torch.testing.assert_close(layer(changed)[:, :40], layer(x)[:, :40])
    assert not torch.allclose(layer(changed)[:, 40:], layer(x)[:, 40:])


def test_tensor_parallel_shards_add_up_to_the_mlp() -> None:
    whole = ShardUnit(small_shape("mlp-down"), CPU).call
    inner = torch.randn(2, 64, 192)
    own = torch.zeros(2, 64, 64)
    parts = [
        F.linear(inner[..., 96 * rank : 96 * (rank + 1)], half)
        for rank, half in enumerate(whole.out.chunk(2, dim=1))
    ]
    assert ShardUnit(small_shape("mlp-down", tp=2), CPU).call.out.shape == (64, 96)
    torch.testing.assert_close(parts[0] + parts[1], whole(inner, own))


def test_gradients_of_weights_add_up_and_inputs_start_anew() -> None:
    done = run(small_shape("mlp-up", tp=2))
    first = done.call.into.grad.clone()
    arrived = done.edges.leaves["input"].grad.clone()
    done.forward()
    done.backward()
    torch.testing.assert_close(done.call.into.grad, 2 * first)
    torch.testing.assert_close(done.edges.leaves["input"].grad, arrived)


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("unit", UNITS)
def test_short_types(unit: str, dtype: str) -> None:
    done = run(small_shape(unit, dtype=dtype, cp=2, tp=2))
    assert all(leaf.element_size() == 2 for leaf in done.edges.leaves.values())
