"""Exported training programs run on several processes and train what was planned."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

from hetopt.cost.chunks import one_chunk
from hetopt.cost.recompute import activation_bytes
from hetopt.cost.shapes import Shape
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.torch.launcher import LAUNCHER
from hetopt.schedule.orders import Orders, chunk_and_microbatch
from hetopt.schedule.warmup import held_at_ends, held_by_chunk
from tests.runtimes.torch_experts import is_routed, mixture, whole_experts
from tests.runtimes.torch_plans import CASES, CUTS, Case, fork, job_of, launch

if TYPE_CHECKING:
    from hetopt.export.job import Job
    from hetopt.plans.plan import Stage
    from hetopt.problem.model.model import Model

pytestmark = pytest.mark.torch

WORKER = Path(__file__).with_name("worker.py")

#: Learning rates at which a few steps tell.
RATES = {"adam": 0.01, "sgd": 0.3}

#: Matrices that tensor parallelism splits by outputs, and by inputs.
BY_OUTPUTS = ("q", "k", "v", "gate", "up", "tokens", "output")
BY_INPUTS = ("out", "down")

#: Matrices of a layer by the block that has them; what precedes matrices is with them.
BLOCK_OF = {"down": 2, "up": 1, "gate": 1, "mlp_norm": 1}


def exported(case: Case, folder: Path) -> Job:
    return written(job_of(case), folder)


def written(job: Job, folder: Path) -> Job:
    assert not [loss for part in job.pipelines for loss in LAUNCHER.losses(part)]
    write_folder(str(folder), bundle(job, LAUNCHER, allow_lossy=False))
    return job


def watched(
    job: Job, folder: Path, batch: Any, *, by_scripts: bool = False
) -> list[dict[str, Any]]:
    """Run a bundle with the worker in place of train.py; return what ranks saw.

    ``by_scripts``: by the scripts of its nodes, which start every rank anew.
    """
    shutil.copy(WORKER, folder / "train.py")
    torch.save(batch, folder / "batch.pt")
    asked = {"lr": RATES[job.problem.training.optimizer], "steps": 3}
    (folder / "asked.json").write_text(json.dumps(asked))
    if by_scripts:
        launch(folder)
    else:
        fork(folder, job.world_size)
    return [torch.load(folder / f"rank-{r}.pt") for r in range(job.world_size)]


def batch_of(job: Job) -> Any:
    training = job.problem.training
    generator = torch.Generator().manual_seed(1)
    shape = (training.global_batch, training.seq_len + 1)
    return torch.randint(job.problem.model.vocab, shape, generator=generator)


def whole(name: str, parts: list[Any], model: Model) -> Any:
    """Put the shares of tensor-parallel ranks together; the rest is equal on all."""
    own = name.rpartition(".")[2].removesuffix("_bias")
    if own in BY_OUTPUTS:
        if own in "kv" and model.kv_heads < len(parts):
            shared = len(parts) // model.kv_heads
            for first in range(0, len(parts), shared):
                for other in parts[first + 1 : first + shared]:
                    torch.testing.assert_close(other, parts[first])
            parts = parts[::shared]
        joined = torch.cat(parts, 0)
        return joined[: model.vocab] if own in ("tokens", "output") else joined
    if own in BY_INPUTS and not name.endswith("_bias"):
        return torch.cat(parts, 1)
    for part in parts[1:]:
        torch.testing.assert_close(part, parts[0])
    return parts[0]


def of_layer(name: str, model: Model) -> str:
    """Return a parameter's name where layers are units, if their blocks are."""
    _, unit, own = name.split(".", 2)
    if model.granularity == "layer" or unit == "0":
        return name
    layer, block = divmod(int(unit) - 1, 3)
    matrix = own.removesuffix("_weight").removesuffix("_bias")
    assert layer == model.layers or block == BLOCK_OF.get(matrix, 0)
    return f"units.{layer + 1}.{own}"


def joined(job: Job, found: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return the whole model's tensors; every replica has the same."""
    full: dict[str, Any] = {}
    for number, stage in enumerate(job.stages):
        tp = stage.strategy.tp
        ranks = [each for each in found if each["where"][0] == number]
        for name in filter(is_routed, ranks[0][kind]):
            parts = [each[kind][name] for each in ranks]
            full[name] = whole_experts(name, parts, stage.strategy)
        for start_rank in range(0, len(ranks), tp):
            own = ranks[start_rank : start_rank + tp]
            for name in own[0][kind]:
                if is_routed(name):
                    continue
                parts = [each[kind][name] for each in own]
                tensor = whole(name, parts, job.problem.model)
                name = of_layer(name, job.problem.model)
                torch.testing.assert_close(tensor, full.setdefault(name, tensor))
    return full


def linear(x: Any, weights: dict[str, Any], name: str) -> Any:
    return x @ weights[name].T + weights.get(f"{name}_bias", 0)


def mlp(x: Any, weights: dict[str, Any], at: str, model: Model) -> Any:
    """Return what a layer's MLP, or its experts, make of (sequences, tokens, h)."""
    if f"{at}.mlp.router" in weights:
        return mixture(x, weights, f"{at}.mlp", model)
    up = linear(x, weights, f"{at}.up")
    if model.gated:
        gate = linear(x, weights, f"{at}.gate")
        up = gate * gate.sigmoid() * up
    else:
        up = F.gelu(up)
    return linear(up, weights, f"{at}.down")


def plain(weights: dict[str, Any], tokens: Any, model: Model) -> Any:
    """Return logits of a transformer as textbooks have it, (sequences, tokens, V)."""

    def norm(x: Any, name: str) -> Any:
        if model.norm == "rms":
            scale = (
                x.pow(2).mean(-1, keepdim=True).add(model.architecture.norm_eps).rsqrt()
            )
            return x * scale * weights[f"{name}_weight"]
        centred = x - x.mean(-1, keepdim=True)
        spread = (
            centred.pow(2)
            .mean(-1, keepdim=True)
            .add(model.architecture.norm_eps)
            .sqrt()
        )
        return centred / spread * weights[f"{name}_weight"] + weights[f"{name}_bias"]

    def turned(x: Any) -> Any:
        half = model.head_dim // 2
        pairs = torch.complex(x[..., :half], x[..., half:])
        angle = torch.arange(x.shape[1])[
            :, None, None
        ] * model.architecture.rotary_base ** (-torch.arange(half) / half)
        pairs = pairs * torch.polar(torch.ones_like(angle), angle)
        return torch.cat((pairs.real, pairs.imag), -1)

    length = tokens.shape[1]
    x = weights["units.0.tokens"][tokens]
    if model.positions:
        x = x + weights["units.0.positions"][:length]
    hidden = torch.full((length, length), float("-inf")).triu(1)
    for layer in range(1, model.layers + 1):
        at = f"units.{layer}"
        inner = norm(x, f"{at}.attention_norm")
        q, k, v = (
            linear(inner, weights, f"{at}.{n}").unflatten(-1, (-1, model.head_dim))
            for n in "qkv"
        )
        if not model.positions:
            q, k = turned(q), turned(k)
        k, v = (e.repeat_interleave(q.shape[2] // k.shape[2], dim=2) for e in (k, v))
        scores = torch.einsum("bqhd,bkhd->bhqk", q, k) / model.head_dim**0.5 + hidden
        mixed = torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).flatten(2)
        x = x + linear(mixed, weights, f"{at}.out")
        x = x + mlp(norm(x, f"{at}.mlp_norm"), weights, at, model)
    last = f"units.{model.layers + 1}"
    head = "units.0.tokens" if model.tied else f"{last}.output"
    return norm(x, f"{last}.last_norm") @ weights[head].T


def check_training(job: Job, found: list[dict[str, Any]], batch: Any) -> None:
    """Gradients, the loss and the first update are the unsplit model's."""
    model, training = job.problem.model, job.problem.training
    weights = {
        key: value.requires_grad_()
        for key, value in joined(job, found, "weights").items()
    }
    logits = plain(weights, batch[:, :-1], model)
    loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    copy = f"units.{model.layers + 1}.output" if model.tied else None
    used = [key for key in weights if key != copy]
    gradients = dict(
        zip(used, torch.autograd.grad(loss, [weights[k] for k in used]), strict=True)
    )
    reduced = joined(job, found, "gradients")
    if copy in reduced:
        torch.testing.assert_close(reduced[copy], reduced["units.0.tokens"])
    # A key's bias has no gradient but rounding errors where no position turns it.
    least = 1e-2 * max(each.abs().max() for each in gradients.values())
    for key, expected in gradients.items():
        off = (reduced[key] - expected).abs().max()
        assert off < 1e-5 * max(expected.abs().max(), least), (key, float(off))
    losses = {each["losses"][0] for each in found if each["losses"][0] is not None}
    assert len(losses) == 1
    assert losses.pop() == pytest.approx(loss.item(), rel=1e-5)

    kinds = {"adam": torch.optim.AdamW, "sgd": torch.optim.SGD}
    lr = RATES[training.optimizer]
    optimizer = kinds[training.optimizer]([weights[key] for key in used], lr=lr)
    for key in used:
        weights[key].grad = reduced[key]
    optimizer.step()
    after = joined(job, found, "after")
    for key in used:
        torch.testing.assert_close(after[key], weights[key], rtol=1e-4, atol=1e-6)


def check_schedule(job: Job, found: list[dict[str, Any]]) -> None:
    """Passes run in the plan's order, so that no more are in flight than planned."""
    v = job.plan.chunks
    passes = job.microbatches * v
    orders = Orders(
        warmups=tuple(stage.warmup for stage in job.stages),
        microbatches=job.microbatches,
        chunks=v,
    )
    for each in found:
        warmup = min(job.stages[each["where"][0]].warmup, passes)
        order = each["order"]
        assert [number for kind, number in order if kind == "F"] == list(range(passes))
        assert order == list(orders.of(each["where"][0]))
        flights = np.cumsum([1 if kind == "F" else -1 for kind, _ in order])
        assert max(flights) == flights[warmup - 1] == warmup
        steady = order[warmup : 2 * passes - warmup]
        assert [kind for kind, _ in steady] == ["B", "F"] * (passes - warmup)


def planned_bytes(job: Job, stage: Stage) -> float:
    """Return the activations of a stage in flight, as the table counts them.

    With several chunks, ends of the model are in flight less often than passes.
    """
    strategy, training = stage.strategy, job.problem.training
    shape = Shape.of(
        [
            (
                job.microbatch_size(stage),
                *(strategy.cp, strategy.tp, strategy.ep, strategy.etp),
            )
        ],
        sequence_parallel=training.sequence_parallel,
    )
    model, p, v = job.problem.model, len(job.stages), job.plan.chunks
    if job.plan.cuts is not None:
        number = job.stages.index(stage)
        own = [
            sum(
                activation_bytes(
                    model, training, kind, shape, strategy.recompute
                ).item()
                for kind in model.units[first:end]
            )
            for first, end in job.plan.chunk_units(stage)
        ]
        return float((held_by_chunk(p, v, job.microbatches, number) @ own).max())
    passes = min(stage.warmup, job.microbatches * v)
    ends = (
        [passes] * 2
        if v == 1
        else held_at_ends(job.plan.schedule, p, job.microbatches, v)
    )
    held = {"embedding": ends[0], "head": ends[1]}
    return sum(
        held.get(kind, passes)
        * activation_bytes(model, training, kind, shape, strategy.recompute).item()
        for kind in one_chunk(model, v).units[stage.first_unit : stage.end_unit]
    )


def check_memory(job: Job, found: list[dict[str, Any]]) -> None:
    """Activations kept at once are the plan's within 1%; none are left over."""
    for each in found:
        ratio = each["bytes"] / planned_bytes(job, job.stages[each["where"][0]])
        assert 0.999 < ratio < 1.01, (each["where"], ratio)
        assert each["left"] == 0
        strategy = job.stages[each["where"][0]].strategy
        shards = strategy.dp * strategy.cp if job.problem.training.zero else 1
        held = sum(tensor.numel() for tensor in each["weights"].values())
        padding = shards * len({name.split(".")[1] for name in each["weights"]})
        assert held <= shards * each["states"] < held + padding


def check_messages(job: Job, found: list[dict[str, Any]]) -> None:
    """Every boundary has the whole tensor on either side, once per pass."""
    training, q = job.problem.training, job.microbatches
    p, v = len(job.stages), job.plan.chunks
    element = 4 if training.precision == "fp32" else 2
    tokens = training.global_batch * training.seq_len // q
    model = job.problem.model
    for number, stage in enumerate(job.stages):
        if stage.resharding != "p2p":
            continue
        # Inner activations go with the residual.
        last = [model.units[end - 1] for _, end in job.plan.chunk_units(stage)]
        widths = [model.hidden + model.ffn * (unit == "mlp-up") for unit in last]
        sizes = [tokens * width * element for width in widths]
        after = (number + 1) % p
        # All chunks cross within the pipeline; back to the first stage go all but the
        # last one, whose result is the loss, and their gradients are of all but the
        # first.
        back = after == 0
        for kind, side, column, left_out in (
            ("send-forward", number, 2, v - 1),
            ("receive-forward", after, 3, v - 1),
            ("send-backward", after, 2, 0),
            ("receive-backward", number, 3, 0),
        ):
            moved = [0] * q * v
            for each in found:
                if each["where"][0] == side:
                    for message in each["messages"]:
                        moved[message[1]] += (message[0] == kind) * message[column]
            chunks = [
                chunk_and_microbatch(n, p, v, folded=False)[0] for n in range(q * v)
            ]
            # Gradients that go back are of the chunk before.
            ahead = back and "backward" in kind
            expected = [
                0 if back and c == left_out else sizes[c - ahead] for c in chunks
            ]
            assert moved == expected, (kind, side)


#: On one node, on two of unequal devices, and on two of which one starts two groups.
BY_SCRIPTS = ("1f1b", "h-1f1b, replicas to tensors", "a hall again")


@pytest.mark.parametrize("name", [*CASES, *(f"cut, {name}" for name in CUTS)])
def test_a_plan_runs_as_planned(name: str, tmp_path: Path) -> None:
    own = name.removeprefix("cut, ")
    job = exported((CASES if own == name else CUTS)[own], tmp_path / "out")
    batch = batch_of(job)
    found = watched(job, tmp_path / "out", batch, by_scripts=name in BY_SCRIPTS)
    for rank, result in zip(job.placement.ranks, found, strict=True):
        assert result["where"] == (rank.stage, rank.dp, rank.cp, rank.tp)
        # What is left of Gloo when Python ends can abort the rank.
        assert result["threads"] == 0
    check_training(job, found, batch)
    check_schedule(job, found)
    check_memory(job, found)
    check_messages(job, found)
    losses = found[-1]["losses"]
    assert losses[-1] < losses[0] - 0.01
