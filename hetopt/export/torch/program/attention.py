"""The core of attention, also of sequences that context parallelism splits.

Kernels are PyTorch's fused ones, which keep q, k, v, the result and its log-sum-exp;
on devices for which PyTorch itself has none, ``plain_attention`` for split sequences.
Where ranks share a sequence, each gathers all keys and values during a pass, forward
and again backward, and keeps only its own; gradients of keys and values are summed and
scattered back. One collective moves the bytes of the ring that the table prices. During
the pass a rank holds keys and values of the whole sequence, where a ring would hold
those of two ranks.

A rank's tokens are two pieces of the sequence. Each attends to itself causally and to
all tokens before it, and the two results are joined by their log-sum-exps (Ring
Attention, Liu et al.), so masked blocks are computed only inside kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from . import plain_attention
from .groups import Place, gather_parts, sum_parts

_ops = torch.ops.aten


@dataclass(frozen=True, kw_only=True)
class Context:
    """The ranks that share sequences, and this rank's number among them."""

    group: Any
    size: int
    rank: int

    @classmethod
    def of(cls, place: Place) -> Context | None:
        """Return the ranks that a rank shares sequences with; None if it is alone.

        Raises
        ------
        ValueError
            The device's kernel does not take the job's precision.
        """
        if place.context is None:
            return None
        if place.device.type == "cuda" and place.job.precision == "fp32":
            msg = (
                f"stage {place.stage} has cp {place.plan.cp} in fp32, which PyTorch's "
                "fused attention cannot do on GPUs: train in bf16, or pin cp to 1"
            )
            raise ValueError(msg)
        return cls(group=place.context, size=place.plan.cp, rank=place.cp)

    @property
    def pieces(self) -> tuple[int, int]:
        """Which of the sequence's 2 * size pieces this rank has."""
        return self.rank, 2 * self.size - 1 - self.rank

    def gather(self, x: Tensor) -> Tensor:
        """Return (b, heads, s, d) in the sequence's order of all (b, heads, n, d)."""
        parts = gather_parts(x, self.group, self.size).unflatten(3, (2, -1))
        early, late = parts.unbind(3)
        return torch.cat((early, late.flip(0))).movedim(0, 2).flatten(2, 3)

    def scatter(self, x: Tensor) -> Tensor:
        """Sum (b, heads, s, d) over the ranks; return this rank's tokens."""
        early, late = x.unflatten(2, (2, self.size, -1)).unbind(2)
        parts = torch.stack((early, late.flip(2)), 3).movedim(2, 0)
        own, work = sum_parts(parts, self.group)
        work.wait()
        return own.flatten(2, 3)


class _Shared(torch.autograd.Function):
    """Attention to a sequence that ranks share; keeps this rank's q, k and v."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, context: Context) -> Tensor:
        keys, values = context.gather(k), context.gather(v)
        # As (b, n, heads, d) in memory, like the kernels' own results.
        out = torch.empty_like(q)
        sums = torch.empty(q.shape[:3], dtype=torch.float32, device=q.device)
        for rows, blocks in _pieces(q.shape[2], context):
            found = [
                _forward(q[:, :, rows], keys[:, :, seen], values[:, :, seen], causal)
                for seen, causal in blocks
            ]
            out[:, :, rows], sums[:, :, rows] = _joined(found)
        ctx.save_for_backward(q, k, v, out, sums)
        ctx.context = context
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        q, k, v, out, sums = ctx.saved_tensors
        context = ctx.context
        whole = (context.gather(k), context.gather(v))
        of_q = torch.zeros_like(q)
        of_k, of_v = (torch.zeros_like(x) for x in whole)
        for rows, blocks in _pieces(q.shape[2], context):
            own = [x[:, :, rows] for x in (grad, q, out, sums)]
            for seen, causal in blocks:
                parts = _backward(own, [x[:, :, seen] for x in whole], causal)
                of_q[:, :, rows] += parts[0]
                of_k[:, :, seen] += parts[1]
                of_v[:, :, seen] += parts[2]
        return of_q, context.scatter(of_k), context.scatter(of_v), None


def _pieces(
    tokens: int, context: Context
) -> Iterator[tuple[slice, list[tuple[slice, bool]]]]:
    """Yield a piece's rows, and the blocks they attend to, each with its causal flag.

    Parameters
    ----------
    tokens
        How many this rank has, in two pieces.
    """
    length = tokens // 2
    for number, piece in enumerate(context.pieces):
        start = piece * length
        blocks = [(slice(start, start + length), True)]
        if start:
            blocks.append((slice(0, start), False))
        yield slice(number * length, (number + 1) * length), blocks


def _joined(found: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """Join results of the same rows over different tokens."""
    sums = torch.stack([each for _, each in found]).logsumexp(0)
    shares = [out * (each - sums).exp().unsqueeze(-1) for out, each in found]
    return torch.stack(shares).sum(0), sums


def _forward(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Return the result (b, heads, n, d) and its log-sum-exp (b, heads, n)."""
    if q.is_cuda:
        found = _ops._scaled_dot_product_flash_attention(q, k, v, 0.0, causal, False)
    elif q.is_cpu:
        found = _ops._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal)
    else:
        found = plain_attention.forward(q, k, v, causal)
    return found[0], found[1]


def _backward(own: list[Tensor], whole: list[Tensor], causal: bool) -> Any:
    """Return gradients of q, k and v of one block.

    Parameters
    ----------
    own
        The result's gradient, q, the result and its log-sum-exp, over all blocks.
    whole
        k and v of the block.
    """
    grad, q, out, sums = own
    out, sums = out.contiguous(), sums.contiguous()
    if not (q.is_cuda or q.is_cpu):
        return plain_attention.backward(own, whole, causal)
    if q.is_cpu:
        return _ops._scaled_dot_product_flash_attention_for_cpu_backward(
            grad, q, *whole, out, sums, 0.0, causal
        )
    lengths = (q.shape[2], whole[0].shape[2])
    # Lengths of packed sequences and the state of dropout: there is neither.
    unused = torch.empty(0, dtype=torch.int64, device=q.device)
    return _ops._scaled_dot_product_flash_attention_backward(
        *(grad, q, *whole, out, sums, None, None, *lengths, 0.0, causal),
        *(unused, unused),
    )


def attend(
    q: Tensor, k: Tensor, v: Tensor, context: Context | None, *, again: bool
) -> Tensor:
    """Return the causal attention of (b, n, heads, d), as (b, n, all of a token).

    Parameters
    ----------
    again
        Whether backward recomputes it, so that its log-sum-exp is not kept (selective
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
    """Run a function, keep only its inputs, and run it again before backward."""
    return checkpoint(function, *inputs, use_reentrant=False, preserve_rng_state=False)
