"""Single kernels as steps that can be timed; needs PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from hetopt.cost.shard_shape import ATTENTION_CORE, ShardShape
from hetopt.problem.model.kinds import LAYER
from hetopt.profile.kernels import Attention, Kernel, Product
from hetopt.profile.units.attention import rotary_tables, rotate
from hetopt.profile.units.edges import DTYPES, Edges
from hetopt.profile.units.mlp_up import swiglu
from hetopt.profile.units.parts import Norm, OwnTokens, with_residual
from hetopt.profile.units.timed import ShardUnit

if TYPE_CHECKING:
    from collections.abc import Callable

#: Width of a rotated head.
_HEAD_DIM = 64


def steps_of(
    kernel: Kernel, dtype: str, device: torch.device
) -> tuple[Callable[[], None], ...]:
    """Return the passes of a kernel, in the order of its ``operators``."""
    if isinstance(kernel, Product):
        return _product(kernel, DTYPES[dtype], device)
    if isinstance(kernel, Attention):
        core = ShardUnit(_core_shape(kernel, dtype), device)
        return core.forward, core.backward
    shape = _shape(dtype, kernel.tokens, kernel.width)
    unit = ShardUnit(shape, device, _ELEMENTWISE[kernel.what])
    return (unit.forward, unit.backward)[: len(kernel.operators)]


def _product(
    kernel: Product, dtype: torch.dtype, device: torch.device
) -> tuple[Callable[[], None], ...]:
    """Return forward, the input's gradient, and the weight's, accumulated in fp32."""
    lead = () if kernel.groups == 1 else (kernel.groups,)

    def random(*size: int) -> torch.Tensor:
        return torch.randn(*lead, *size, device=device).to(dtype)

    x, weight = random(kernel.m, kernel.k), random(kernel.n, kernel.k)
    gradient = random(kernel.m, kernel.n)
    total = torch.zeros(*lead, kernel.n, kernel.k, device=device)
    multiply = torch.mm if kernel.groups == 1 else torch.bmm

    def forward() -> None:
        multiply(x, weight.mT)

    def of_input() -> None:
        multiply(gradient, weight)

    def of_weight() -> None:
        total.add_(multiply(gradient.mT, x))

    return forward, of_input, of_weight


class _Norm(OwnTokens):
    """A norm of a layer."""

    def __init__(self, edges: Edges) -> None:
        self.norm = Norm(edges)

    def __call__(self, own: torch.Tensor) -> torch.Tensor:
        return self.norm(own)


class _Rotary(OwnTokens):
    """The rotary embedding of queries, or of keys."""

    def __init__(self, edges: Edges) -> None:
        self.tables = rotary_tables(edges.shape, edges.device)

    def __call__(self, inner: torch.Tensor) -> torch.Tensor:
        heads = inner.unflatten(-1, (-1, _HEAD_DIM)).transpose(1, 2)
        return rotate(heads, *self.tables)


class _Swiglu:
    """The activation of an MLP."""

    def __init__(self, edges: Edges) -> None:
        pass

    def __call__(self, inner: torch.Tensor) -> torch.Tensor:
        return swiglu(inner)

    @staticmethod
    def inputs(edges: Edges) -> tuple[torch.Tensor, ...]:
        batch, tokens, width = edges.own_size
        return (edges.arriving("inner", batch, tokens, 2 * width),)


class _Residual:
    """The sum of a unit's input and output."""

    def __init__(self, edges: Edges) -> None:
        pass

    def __call__(self, own: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return with_residual(own, out, None)

    @staticmethod
    def inputs(edges: Edges) -> tuple[torch.Tensor, ...]:
        return tuple(edges.arriving(name, *edges.own_size) for name in ("own", "out"))


_ELEMENTWISE: dict[str, Any] = {
    "rmsnorm": _Norm,
    "rope": _Rotary,
    "swiglu": _Swiglu,
    "add": _Residual,
}


def _shape(dtype: str, tokens: int, width: int) -> ShardShape:
    heads = width // _HEAD_DIM
    return ShardShape(
        unit=LAYER,
        gated=True,
        dtype=dtype,
        hidden=width,
        heads=heads,
        kv_heads=heads,
        head_dim=_HEAD_DIM,
        ffn=width,
        vocab=1,
        cp=1,
        tp=1,
        microbatch=1,
        seq_len=tokens,
    )


def _core_shape(kernel: Attention, dtype: str) -> ShardShape:
    width = kernel.heads * kernel.head_dim
    return ShardShape(
        unit=ATTENTION_CORE,
        gated=True,
        dtype=dtype,
        hidden=width,
        heads=kernel.heads,
        kv_heads=kernel.kv_heads,
        head_dim=kernel.head_dim,
        ffn=width,
        vocab=1,
        cp=1,
        tp=1,
        microbatch=kernel.batch,
        seq_len=kernel.seq,
    )
