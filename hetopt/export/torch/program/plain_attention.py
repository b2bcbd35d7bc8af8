"""Attention written out, for devices without PyTorch's fused kernels.

It keeps no more from forward to backward than they do. During a pass it holds the
scores of all pairs of tokens, (b, heads, n, m) in 32 bits, which the plan does not
count.
"""

from __future__ import annotations

import torch
from torch import Tensor


def forward(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> tuple[Tensor, Tensor]:
    """Return the attention and its log-sum-exp.

    Parameters
    ----------
    q
        (b, heads, n, d).
    k, v
        (b, key-value heads, m, d); n is m if it is causal.

    Returns
    -------
    (b, heads, n, d) and, in 32 bits, (b, heads, n).
    """
    scores = _scores(q, k, causal)
    sums = scores.logsumexp(-1)
    shares = (scores - sums.unsqueeze(-1)).exp().to(v.dtype)
    out = torch.einsum("bkgnm,bkmd->bkgnd", shares, v)
    return out.flatten(1, 2), sums.flatten(1, 2)


def backward(
    own: list[Tensor], whole: list[Tensor], causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of q, k and v of one block.

    Parameters
    ----------
    own
        The result's gradient, q, the result and its log-sum-exp, over all blocks.
    whole
        k and v of the block.
    """
    k, v = whole
    grad, q, out, sums = (each.unflatten(1, (k.shape[1], -1)) for each in own)
    shares = (_scores(own[1], k, causal) - sums.unsqueeze(-1)).exp()
    of_shares = torch.einsum("bkgnd,bkmd->bkgnm", grad, v)
    of_scores = shares * (of_shares - (grad * out).sum(-1, keepdim=True))
    of_scores = (of_scores * q.shape[-1] ** -0.5).to(q.dtype)
    return (
        torch.einsum("bkgnm,bkmd->bkgnd", of_scores, k).flatten(1, 2),
        torch.einsum("bkgnm,bkgnd->bkmd", of_scores, q),
        torch.einsum("bkgnm,bkgnd->bkmd", shares.to(v.dtype), grad),
    )


def _scores(q: Tensor, k: Tensor, causal: bool) -> Tensor:
    """Return (b, key-value heads, heads for each of them, n, m), in 32 bits."""
    q = q.unflatten(1, (k.shape[1], -1))
    scores = torch.einsum("bkgnd,bkmd->bkgnm", q, k).float() * q.shape[-1] ** -0.5
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        scores.masked_fill_(later.triu(1), -torch.inf)
    return scores
