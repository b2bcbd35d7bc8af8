"""Train a transformer, cut into pipeline stages as job.json and schedule.csv say.

Needs PyTorch alone; run by torchrun in every rank. The model is small enough to read:
replace it, its data and the optimizer's settings by your own. What is planned is the
cut (``modules`` of job.json), the mesh, what each stage recomputes, and the order of
forward and backward passes (schedule.csv, one row per stage).

Ranks count stages, then data, context and tensor parallelism, the last the fastest.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.pipelining import PipelineStage
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
from torch.utils.checkpoint import checkpoint

HERE = Path(__file__).parent


class Mesh:
    """Where this rank is, and the groups of ranks it works with."""

    def __init__(self, sizes: dict[str, int]) -> None:
        names = ("pp", "dp", "cp", "tp")
        self.sizes = sizes
        ranks = torch.arange(dist.get_world_size()).reshape([sizes[n] for n in names])
        where = (ranks == dist.get_rank()).nonzero()[0].tolist()
        self.pp, self.dp, self.cp, self.tp = where
        self.pipeline = _group(ranks.movedim(0, -1).reshape(-1, sizes["pp"]))
        replicas = ranks.movedim(3, 1).reshape(-1, sizes["dp"] * sizes["cp"])
        self.replicas = _group(replicas)
        self.context = _group(ranks.movedim(2, -1).reshape(-1, sizes["cp"]))
        self.tensor = _group(ranks.reshape(-1, sizes["tp"]))
        # The stages that hold the two copies of a tied embedding.
        self.ends = _group(ranks[[0, -1]].reshape(2, -1).T) if sizes["pp"] > 1 else None


def _group(rows: Tensor) -> Any:
    return dist.new_subgroups_by_enumeration(rows.tolist())[0]


class _Copy(torch.autograd.Function):
    """Into a region of tensor parallelism: gradients are summed on the way back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class _Sum(torch.autograd.Function):
    """Out of a region of tensor parallelism: partial results are summed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any) -> Tensor:
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class _Gather(torch.autograd.Function):
    """Keys or values of the whole sequence, one rank's tokens after another's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, group: Any, index: int) -> Tensor:
        ctx.group, ctx.index, ctx.length = group, index, x.shape[2]
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, x.contiguous(), group=group)
        return torch.cat(parts, dim=2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        grad = grad.contiguous()
        dist.all_reduce(grad, group=ctx.group)
        return grad.narrow(2, ctx.index * ctx.length, ctx.length), None, None


class Layer(nn.Module):
    """Attention and MLP, this rank's share of heads and of the inner width."""

    def __init__(self, model: dict[str, Any], mesh: Mesh, recompute: str) -> None:
        super().__init__()
        self.mesh, self.recompute, self.model = mesh, recompute, model
        tp, rank, hidden = mesh.sizes["tp"], mesh.tp, model["hidden"]
        bias, width = model["norm"] == "layer", model["head_dim"]
        self.norms = nn.ModuleList(_norm(model) for _ in range(2))
        # With fewer key-value heads than ranks, every rank keeps all of them.
        self.whole_kv = model["kv_heads"] < tp
        inner = width * model["kv_heads"]
        parts = {"q": width * model["heads"], "k": inner, "v": inner}
        parts |= {"gate": model["ffn"]} if model["gated"] else {}
        parts |= {"up": model["ffn"]}
        self.columns = nn.ModuleDict()
        for name, size in parts.items():
            full = nn.Linear(hidden, size, bias=bias)
            whole = name in "kv" and self.whole_kv
            self.columns[name] = full if whole else _rows(full, tp, rank)
            if whole:
                for parameter in full.parameters():
                    parameter.partial_over_tp = True
        self.rows = nn.ModuleDict(
            {
                "attention": _columns(parts["q"], hidden, bias, tp, rank),
                "mlp": _columns(model["ffn"], hidden, bias, tp, rank),
            }
        )

    def forward(self, x: Tensor, positions: Tensor, everywhere: Tensor) -> Tensor:
        """Run on (sequences, tokens, hidden)."""
        if self.recompute == "full":
            return checkpoint(
                self._whole, x, positions, everywhere, use_reentrant=False
            )
        return self._whole(x, positions, everywhere)

    def _whole(self, x: Tensor, positions: Tensor, everywhere: Tensor) -> Tensor:
        entered = _Copy.apply(self.norms[0](x), self.mesh.tensor)
        q, k, v = (self._heads(self.columns[name](entered), name) for name in "qkv")
        if self.recompute == "selective":
            core = checkpoint(
                self._core, q, k, v, positions, everywhere, use_reentrant=False
            )
        else:
            core = self._core(q, k, v, positions, everywhere)
        x = x + self._reduced(core, "attention")
        entered = _Copy.apply(self.norms[1](x), self.mesh.tensor)
        up = self.columns["up"](entered)
        if self.model["gated"]:
            up = F.silu(self.columns["gate"](entered)) * up
        else:
            up = F.gelu(up)
        return x + self._reduced(up, "mlp")

    def _heads(self, x: Tensor, name: str) -> Tensor:
        """Return (sequences, heads, tokens, width)."""
        x = x.unflatten(-1, (-1, self.model["head_dim"])).transpose(1, 2)
        if name in "kv" and self.whole_kv:
            own = self.mesh.tp * self.model["kv_heads"] // self.mesh.sizes["tp"]
            x = x[:, own : own + 1]
        return x

    def _core(
        self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor, everywhere: Tensor
    ) -> Tensor:
        if not self.model["positions"]:
            q, k = _rotated(q, positions), _rotated(k, positions)
        split = self.mesh.sizes["cp"] > 1
        if split:
            k, v = (
                _Gather.apply(each, self.mesh.context, self.mesh.cp) for each in (k, v)
            )
        repeat = q.shape[1] // k.shape[1]
        k, v = (each.repeat_interleave(repeat, dim=1) for each in (k, v))
        mask = positions[:, None] >= everywhere[None, :] if split else None
        out = F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, is_causal=not split
        )
        return out.transpose(1, 2).flatten(2)

    def _reduced(self, x: Tensor, name: str) -> Tensor:
        linear = self.rows[name]
        x = _Sum.apply(F.linear(x, linear.weight), self.mesh.tensor)
        return x if linear.bias is None else x + linear.bias


class Stage(nn.Module):
    """The modules of one pipeline stage; ``forward`` goes from its input to the next.

    Weights depend on a module's name alone, not on how the model is cut.
    """

    def __init__(self, job: dict[str, Any], mesh: Mesh) -> None:
        super().__init__()
        model = job["model"]
        self.job, self.mesh = job, mesh
        lower = job["training"]["precision"] == "bf16"
        self.dtype = torch.bfloat16 if lower else torch.float32
        self.tok_embeddings = self.positions = self.norm = self.output = None
        self.layers = nn.ModuleDict()
        names = [name for part in job["modules"] for name in part]
        for name in job["modules"][mesh.pp]:
            torch.manual_seed(names.index(name))
            if name == "tok_embeddings":
                self.tok_embeddings = nn.Embedding(model["vocab"], model["hidden"])
                _draw_table(self.tok_embeddings.weight)
                if model["positions"]:
                    self.positions = nn.Embedding(model["positions"], model["hidden"])
            elif name == "norm":
                self.norm = _norm(model)
            elif name == "output":
                self.output = nn.Linear(model["hidden"], model["vocab"], bias=False)
            else:
                self.layers[name.partition(".")[2]] = Layer(
                    model, mesh, job["recompute"][mesh.pp]
                )
        if model["tied"] and self.output is not None:
            if self.tok_embeddings is not None:
                self.output.weight = self.tok_embeddings.weight
            else:
                _draw_table(self.output.weight)
        order = torch.cat([self.tokens_of(rank) for rank in range(mesh.sizes["cp"])])
        self.register_buffer("everywhere", order, persistent=False)
        self.register_buffer("own", self.tokens_of(mesh.cp), persistent=False)

    def tokens_of(self, rank: int) -> Tensor:
        """Positions of one rank's tokens: a piece from each end, so work is even."""
        ranks, length = self.mesh.sizes["cp"], self.job["training"]["seq_len"]
        if ranks == 1:
            return torch.arange(length)
        pieces = torch.arange(length).chunk(2 * ranks)
        return torch.cat([pieces[rank], pieces[2 * ranks - 1 - rank]])

    def forward(self, x: Tensor) -> Tensor:
        """Run on tokens, or on what the stage before gives."""
        lower = self.dtype == torch.bfloat16
        with torch.autocast(x.device.type, torch.bfloat16, enabled=lower):
            if self.tok_embeddings is not None:
                x = self.tok_embeddings(x)
                if self.positions is not None:
                    x = x + self.positions(self.own)
                x = x.to(self.dtype)
            for layer in self.layers.values():
                x = layer(x, self.own, self.everywhere)
            if self.norm is not None and self.output is not None:
                x = self.output(self.norm(x))
        return x


def _draw_table(weight: Tensor) -> None:
    """Draw the token table, of which a tied head on another stage has a copy."""
    torch.manual_seed(0)
    nn.init.normal_(weight, std=0.02)


def _norm(model: dict[str, Any]) -> nn.Module:
    kind = nn.RMSNorm if model["norm"] == "rms" else nn.LayerNorm
    return kind(model["hidden"], eps=1e-5)


def _rows(full: nn.Linear, parts: int, index: int) -> nn.Linear:
    """Keep one part of a matrix's outputs."""
    full.weight = nn.Parameter(full.weight.detach().chunk(parts)[index].clone())
    if full.bias is not None:
        full.bias = nn.Parameter(full.bias.detach().chunk(parts)[index].clone())
    return full


def _columns(size: int, out: int, bias: bool, parts: int, index: int) -> nn.Linear:
    """Keep one part of a matrix's inputs; the bias is added after the sum."""
    full = nn.Linear(size, out, bias=bias)
    full.weight = nn.Parameter(full.weight.detach().chunk(parts, 1)[index].clone())
    return full


def _rotated(x: Tensor, positions: Tensor) -> Tensor:
    """Return heads with rotary position embeddings."""
    half = x.shape[-1] // 2
    rates = 10000.0 ** (-torch.arange(half, device=x.device) / half)
    angles = positions[:, None] * rates
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
