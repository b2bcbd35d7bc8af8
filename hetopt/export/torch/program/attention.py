"""The core of attention, also of sequences that context parallelism splits.

Kernels are PyTorch's fused ones, which keep q, k, v, the result and its log-sum-exp.
Where ranks share a sequence, each gathers keys and values for the moment of its pass,
forward and again backward, and keeps its own; gradients of keys and values are summed
and scattered back. These are the bytes of the ring that the table prices, in one
collective. For that moment a rank holds keys and values of the whole sequence, where a
ring would hold those of two ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from .groups import Place, gather_parts, sum_parts

_ops = torch.ops.aten


@dataclass(frozen=True, kw_only=True)
class Context:
    """The ranks that share sequences.

    Attributes
    ----------
    group, size
        The ranks, and how many.
    mask
        What this rank's tokens see of the gathered ones: 0 or minus infinity, (n, s).
    """

    group: Any
    size: int
    mask: Tensor

    @classmethod
    def of(cls, place: Place) -> Context | None:
        """Return the ranks that a rank shares sequences with; None if it is alone."""
        if place.context is None:
            return None
        every = [place.job.tokens_of(place.stage, cp) for cp in range(place.plan.cp)]
        hidden = every[place.cp][:, None] < torch.cat(every)[None, :]
        mask = torch.zeros(hidden.shape, dtype=place.job.dtype)
        mask.masked_fill_(hidden, -torch.inf)
        return cls(group=place.context, size=place.plan.cp, mask=mask.to(place.device))

    def gather(self, x: Tensor) -> Tensor:
        """Return (b, heads, s, d) of every rank's (b, heads, n, d), in rank order."""
        return gather_parts(x, self.group, self.size).movedim(0, 2).flatten(2, 3)

    def scatter(self, x: Tensor) -> Tensor:
        """Sum (b, heads, s, d) over the ranks; return this rank's tokens."""
        own, work = sum_parts(x.unflatten(2, (self.size, -1)).movedim(2, 0), self.group)
        work.wait()
        return own


class _Shared(torch.autograd.Function):
    """Attention to a sequence that ranks share; keeps this rank's q, k and v."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, context: Context) -> Tensor:
        whole = (context.gather(k), context.gather(v))
        out, sums = _forward(q, *whole, context.mask)
        ctx.save_for_backward(q, k, v, out, sums)
        ctx.context = context
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, out, sums = ctx.saved_tensors
        context = ctx.context
        whole = (context.gather(k), context.gather(v))
        of_q, of_k, of_v = _backward(grad, (q, *whole), context.mask, (out, sums))
        return of_q, context.scatter(of_k), context.scatter(of_v), None


def _forward(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the result (b, heads, n, d) and its log-sum-exp."""
    if not q.is_cuda:
        found = _ops._scaled_dot_product_flash_attention_for_cpu(
            q, k, v, 0.0, False, attn_mask=mask
        )
        return found[0], found[1]
    k, v = _repeated(q, k), _repeated(q, v)
    seen = mask.expand(*q.shape[:2], *mask.shape)
    found = _ops._scaled_dot_product_efficient_attention(q, k, v, seen, True)
    return found[0], found[1]


def _backward(
    grad: Tensor,
    inputs: tuple[Tensor, Tensor, Tensor],
    mask: Tensor,
    result: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v."""
    q, k, v = inputs
    if not q.is_cuda:
        found = _ops._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, q, k, v, *result, 0.0, False, attn_mask=mask
        )
        return found[0], found[1], found[2]
    wide_k, wide_v = _repeated(q, k), _repeated(q, v)
    seen = mask.expand(*q.shape[:2], *mask.shape)
    # Of the dropout that there is not.
    unused = torch.zeros((), dtype=torch.int64)
    found = _ops._scaled_dot_product_efficient_attention_backward(
        grad,
        q,
        wide_k,
        wide_v,
        seen,
        *result,
        unused,
        unused,
        0.0,
        [True, True, True, False],
    )
    of_k, of_v = (
        each.unflatten(1, (k.shape[1], -1)).sum(2) for each in (found[1], found[2])
    )
    return found[0], of_k, of_v


def _repeated(q: Tensor, x: Tensor) -> Tensor:
    return x.repeat_interleave(q.shape[1] // x.shape[1], dim=1)


def attend(
    q: Tensor, k: Tensor, v: Tensor, context: Context | None, *, again: bool
) -> Tensor:
    """Return the causal attention of (b, n, heads, d), as (b, n, all of a token).

    Parameters
    ----------
    again
        Whether backward computes it again rather than keep its log-sum-exp (selective
        recomputation).
    """
    heads = [each.transpose(1, 2) for each in (q, k, v)]

    def core(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if context is not None:
            return _Shared.apply(q, k, v, context)
        grouped = q.shape[1] != k.shape[1]
        return F.scaled_dot_product_attention(
            q, k, v, is_causal=True, enable_gqa=grouped
        )

    out = recomputed(core, *heads) if again else core(*heads)
    return out.transpose(1, 2).flatten(2)


def recomputed(function: Any, *inputs: Tensor) -> Any:
    """Run a function, keep its inputs alone, and run it again before backward."""
    return checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=False)
