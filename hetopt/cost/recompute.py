"""Recomputation as people say it: what an option repeats, keeps and needs for a while.

Every row of ``OPTIONS`` is one way to keep less of a layer from its forward to its
backward pass. It adds seconds to the backward pass (``repeated_s``), keeps some bytes
(``activation_bytes``), and needs others while a layer runs again (``again_bytes``).
The model's ends are as without. Where N of n layers recompute, seconds and kept bytes
are linear in N (``of_share``); what is needed for a while is that of one layer.

Where seconds and bytes come from:

full
    The forward pass and its exposed communication, measured where layers are. Bytes:
    the inputs of all pieces (Korthikanti et al., section 4).
selective
    The core's forward pass, measured where cores are; bytes: all but scores (their
    section 5), as Megatron-core's module ``core_attn``.
per-operator
    TorchTitan's selective checkpointing keeps every other multiplication's result.
    Modelled: half of the forward multiplications, a sixth of all. What runs again
    element by element is part of what its software reaches: ``training.software`` was
    fitted to such runs. Bytes: those results, the core's result, the layer's input.
modules
    Those of Megatron-core 0.16 (``--recompute-modules``). Seconds are modelled: the
    share of the forward pass that the roofline gives the repeated operations. Bytes:
    what pieces then do not keep (``Piece.again``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.cost.pieces.attention import LOG_SUM_EXP_BYTES
from hetopt.cost.pieces.kinds import pieces_of
from hetopt.cost.pieces.operations import sum_of
from hetopt.cost.shapes import Floats, Shape, element_bytes
from hetopt.cost.sources.roofline import share_of_layer
from hetopt.cost.units import unit_operations
from hetopt.problem.model.kinds import END_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hetopt.cost.pieces.piece import Again, Piece
    from hetopt.problem.cluster.accelerator import Accelerator
    from hetopt.problem.model.model import Model
    from hetopt.problem.training.choices import Recompute
    from hetopt.problem.training.training import Training


@dataclass(frozen=True, slots=True)
class Option:
    """One way to recompute.

    Attributes
    ----------
    repeats
        What runs again, in words.
    launchers
        How launchers say it.
    whole
        Whether a layer keeps its input alone, and all of it runs again.
    core
        Whether attention's core runs again, alone.
    products
        Share of the layer's multiplications that run again; the results of all others
        and of attention's core are kept, with the layer's input.
    module
        The module that runs again, as Megatron-core names it.
    """

    repeats: str
    launchers: str
    whole: bool = False
    core: bool = False
    products: float = 0.0
    module: str | None = None


def _module(name: str, repeats: str) -> Option:
    return Option(repeats, f"Megatron-core recompute_modules {name}", module=name)


#: Every way to recompute, by its name in ``training.recompute``.
OPTIONS: Mapping[Recompute, Option] = {
    "none": Option("nothing", "all"),
    "selective": Option("attention's core", "Megatron-core core_attn", core=True),
    "full": Option("a layer", "Megatron-core full, TorchTitan FullAC", whole=True),
    "per-operator": Option(
        "every other multiplication", "TorchTitan SelectiveAC", products=0.5
    ),
    "layernorm": _module("layernorm", "norms before attention and MLP"),
    "mlp": _module("mlp", "dense MLPs, without their norm"),
    "moe_act": _module("moe_act", "activations of experts"),
    "mla_up_proj": _module("mla_up_proj", "queries, keys and values of latent vectors"),
    "moe": _module("moe", "router, dispatch, experts and shared experts"),
    "shared_experts": _module("shared_experts", "shared experts"),
}


class Once(NamedTuple):
    """A unit of a kind on some shards, and seconds of its forward pass; (R,).

    Attributes
    ----------
    computed, core, products
        Computation, the part of attention's core, and that of multiplications.
    sent, dispatch, ring
        Exposed collectives of tensor parallelism, of experts' tokens, and the ring of
        context parallelism.
    """

    model: Model
    training: Training
    kind: str
    shape: Shape
    accelerator: Accelerator
    computed: Floats
    core: Floats
    products: Floats
    sent: Floats
    dispatch: Floats
    ring: Floats


def _option(recompute: Recompute, kind: str) -> Option:
    """Return the option for units of a kind: the model's ends do not recompute."""
    return OPTIONS["none" if kind in END_KINDS else recompute]


def _again(
    pieces: tuple[Piece, ...], shape: Shape, e: int, module: str | None
) -> list[tuple[Piece, Again]]:
    """Return what runs again of each piece that has the module."""
    every = ((piece, piece.again(shape, e).get(module or "")) for piece in pieces)
    return [(piece, each) for piece, each in every if each is not None]


def repeated_s(recompute: Recompute, once: Once) -> tuple[Floats, Floats]:
    """Return the seconds that a unit's backward pass takes longer; and computes so."""
    model, training, kind, shape, accelerator = once[:5]
    option, nothing = _option(recompute, kind), np.zeros(len(once.computed))
    if option.core:
        return once.core + np.where(once.core > 0, once.ring, 0), nothing
    if option.whole:
        whole = once.computed + (once.sent + once.dispatch) + once.ring
        return whole, once.computed
    if option.products:
        products = option.products * once.products
        return products, products
    e = element_bytes(training.precision)
    pieces = pieces_of(model, training, kind)
    parts = _again(pieces, shape, e, option.module)
    if not parts:
        return nothing, nothing
    work = unit_operations(model, training, kind, shape)
    shares = [
        share_of_layer(accelerator, training, x.operations, work) for _, x in parts
    ]
    computed = sum_of(shares) * once.computed
    exchanging = (piece for piece, each in parts if each.exchanges)
    sent = once.sent * (_exchanged(exchanging) / max(_exchanged(pieces), 1))
    if any(each.dispatches for _, each in parts):
        sent = sent + once.dispatch
    return computed + sent, computed


def _exchanged(pieces: Iterable[Piece]) -> int:
    """Return the elements per sequence that tensor ranks gather and scatter."""
    every = (each for piece in pieces for each in piece.exchanges)
    return sum(each.tokens * each.width * each.times for each in every)


def activation_bytes(
    model: Model, training: Training, kind: str, shape: Shape, recompute: Recompute
) -> Floats:
    """Return the bytes that a unit keeps from forward to backward of a micro-batch."""
    option, e = _option(recompute, kind), element_bytes(training.precision)
    pieces = pieces_of(model, training, kind)
    if option.whole or option.products:
        kept = pieces[0].input_bytes(shape, e)
        for piece in pieces:
            kept = kept + piece.context_bytes(shape, e)
        return kept + _results_bytes(pieces, shape, e, option.products)
    policy: Recompute = "selective" if option.core else "none"
    kept = sum_of(piece.kept_bytes(shape, e, policy) for piece in pieces)
    for _, each in _again(pieces, shape, e, option.module):
        kept = kept - each.freed_bytes
    return kept


def _results_bytes(
    pieces: tuple[Piece, ...], shape: Shape, e: int, repeated: float
) -> Floats | float:
    """Return the bytes of results of multiplications and cores that are kept."""
    total: Floats | float = 0.0
    for piece in pieces if repeated else ():
        work = piece.operations(shape, e)
        for part in work.multiplications:
            total = total + (1 - repeated) * part.count * part.m * part.n * e
        for core in work.cores:
            # The core's result is the last multiplication's input.
            last = work.multiplications[-1]
            total = total + last.m * last.k * e + core.rows * LOG_SUM_EXP_BYTES
    return total


def again_bytes(
    model: Model, training: Training, kind: str, shape: Shape, recompute: Recompute
) -> Floats:
    """Return what exists again while a unit's backward pass runs, and was not kept."""
    option, e = _option(recompute, kind), element_bytes(training.precision)
    nothing, pieces = np.zeros(len(shape.tp)), pieces_of(model, training, kind)
    if option.whole or option.products:
        whole = sum_of(piece.kept_bytes(shape, e, "none") for piece in pieces)
        return np.maximum(whole - _results_bytes(pieces, shape, e, option.products), 0)
    parts = _again(pieces, shape, e, option.module)
    return sum_of((nothing, *(each.freed_bytes for _, each in parts)))


def of_share(with_option: float, without: float, layers: float, of: float) -> float:
    """Return seconds or bytes of layers of which some recompute, and others do not.

    Parameters
    ----------
    with_option, without
        What it is if all of them do, and if none does.
    layers, of
        N and n: layers that recompute, and all layers.
    """
    share = layers / of
    return share * with_option + (1 - share) * without
