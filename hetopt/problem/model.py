"""The model to train: a sequence of units of named kinds (MODEL.md section 1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from hetopt.problem.architecture import PLAIN, Architecture

Granularity = Literal["layer", "block"]
Norm = Literal["rms", "layer"]
Attention = Literal["causal", "bidirectional"]

EMBEDDING = "embedding"
LAYER = "layer"
ATTENTION = "attention"
MLP_UP = "mlp-up"
MLP_DOWN = "mlp-down"
HEAD = "head"
#: The same of layers with a sliding window.
LAYER_WINDOW = "layer-window"
ATTENTION_WINDOW = "attention-window"

#: Units that make up one decoder-only layer where models are cut into them.
BLOCKS = (ATTENTION, MLP_UP, MLP_DOWN)
#: Kinds with a sliding window -> what they are without it.
WITHOUT_WINDOW = MappingProxyType({LAYER_WINDOW: LAYER, ATTENTION_WINDOW: ATTENTION})

#: Kinds that carry no transformer layer; every stage needs a unit of another kind.
END_KINDS = frozenset({EMBEDDING, HEAD})

#: Cut classes: what crosses the boundary between two units.
CUT_HIDDEN = "hidden"
CUT_FFN = "ffn"

#: Of a block's first layer, where that has something to do before.
FIRST = "-first"
#: In a cut class: between names of tensors that go together, and between what is handed
#: on within a stage and what leaves it, where these differ.
AND, ACROSS = "+", "/"

_SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn")
_TAKEN = frozenset({EMBEDDING, *BLOCKS, HEAD, CUT_HIDDEN, CUT_FFN, *WITHOUT_WINDOW})


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Layers of one kind, one after the other.

    Attributes
    ----------
    name
        Kind of its units.
    layers, hidden, heads, kv_heads, head_dim, ffn, gated, attention
        As of ``Model``.
    window
        Tokens that attend to each other, such as the 49 of Swin; 0: all of a sequence.
    merge
        Tokens of the block before that become one token of this block, such as the 4
        of Swin, by a matrix that may change the width.
    context
        Name of the block whose output every layer attends to besides its own tokens.
        The first such block starts from tokens of its own, as many as the sequence
        has, looked up in the token table (T5's decoder). Empty: none.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: bool = True
    attention: Attention = "causal"
    window: int = 0
    merge: int = 1
    context: str = ""

    def __post_init__(self) -> None:
        _check_sizes(self)
        if not re.fullmatch("[a-z][a-z0-9-]*", self.name) or len(self.name) > 40:
            msg = f"name is {self.name!r}, expected lower-case letters, digits and -"
            raise ValueError(msg)
        if self.name in _TAKEN or self.name.endswith(FIRST):
            msg = f"name is {self.name!r}, which is taken, expected another"
            raise ValueError(msg)
        for field, least in (("window", 0), ("merge", 1)):
            if getattr(self, field) < least:
                msg = f"{field} is {getattr(self, field)}, expected at least {least}"
                raise ValueError(msg)
        if self.window and self.attention == "causal":
            msg = f"window is {self.window}, but attention is causal, not bidirectional"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A transformer: decoder-only, unless its fields say otherwise.

    Attributes
    ----------
    name
        Label used in reports.
    layers, hidden, heads, kv_heads, head_dim, ffn
        Architecture; ``heads`` is a multiple of ``kv_heads``.
    vocab
        Rows of the token table and of the output head; 0 if there is neither.
    gated
        True for a gated MLP (three matrices), False for a plain one (two).
    tied
        True when the embedding table also serves as the output head.
    norm
        ``rms`` (one vector per norm) or ``layer`` (two).
    positions
        Length of a learned position table, 0 for rotary embeddings.
    granularity
        ``layer``: one unit per transformer layer (HetAuto, Principle 1).
        ``block``: attention, first and second MLP matrix are three units (HAPT).
    attention
        ``causal``: a token attends to those before it; ``bidirectional``: to all.
    patch
        Numbers in an image patch, each of which is projected to a token (ViT, Swin);
        0: tokens are looked up in a table.
    classes
        Outputs of a classifier of whole sequences, 0: a vocabulary and a loss for
        every token.
    blocks
        Layers of several kinds in pipeline order. The fields from ``layers`` to
        ``ffn``, ``gated`` and ``attention`` then repeat the first block's. Empty:
        all layers are alike.
    architecture
        What its layers compute beside their sizes.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    gated: bool = True
    tied: bool = False
    norm: Norm = "rms"
    positions: int = 0
    granularity: Granularity = "layer"
    attention: Attention = "causal"
    patch: int = 0
    classes: int = 0
    blocks: tuple[Block, ...] = ()
    architecture: Architecture = PLAIN

    def __post_init__(self) -> None:
        _check_sizes(self)
        for field in ("positions", "patch", "classes"):
            if getattr(self, field) < 0:
                msg = f"{field} is {getattr(self, field)}, expected 0 or more"
                raise ValueError(msg)
        self._check_vocabulary()
        if self.blocks:
            self._check_blocks()
        sizes = (self.layers, self.head_dim, self.positions)
        if fault := self.architecture.fault(*sizes, self.is_decoder_only):
            raise ValueError(fault)

    def _check_vocabulary(self) -> None:
        needs = not (self.patch and self.classes)
        if self.vocab < (1 if needs else 0):
            msg = f"vocab is {self.vocab}, expected at least 1"
            raise ValueError(msg)
        if self.vocab and not needs:
            msg = f"vocab is {self.vocab}, but patch and classes leave no use for it"
            raise ValueError(msg)
        if self.tied and (self.patch or self.classes):
            msg = "tied is true, but patch or classes leaves no second table"
            raise ValueError(msg)

    def _check_blocks(self) -> None:
        """Raise ValueError where the blocks do not follow from one another."""
        first, last = self.blocks[0], self.blocks[-1]
        for field in (*_SIZES, "gated", "attention"):
            if getattr(self, field) != getattr(first, field):
                msg = f"{field} is not that of the first block, expected the same"
                raise ValueError(msg)
        if self.granularity != "layer":
            msg = (
                f"granularity is {self.granularity!r}, expected 'layer': blocks of "
                "several kinds are cut between layers"
            )
            raise ValueError(msg)
        if self.tied and last.hidden != first.hidden:
            msg = f"tied is true, but hidden goes from {first.hidden} to {last.hidden}"
            raise ValueError(msg)
        for index, block in enumerate(self.blocks):
            fault = block_fault(self.blocks, index)
            if fault:
                msg = f"block {block.name!r}: {fault}"
                raise ValueError(msg)
        if self.patch and last.context:
            msg = f"patch is {self.patch}, but block {last.name!r} needs a token table"
            raise ValueError(msg)

    @property
    def is_decoder_only(self) -> bool:
        """Whether this is the causal stack over tokens that profiles know."""
        return not (
            self.blocks or self.patch or self.classes or self.attention != "causal"
        )

    @property
    def biases(self) -> tuple[bool, bool, bool]:
        """Biases of queries, keys and values; of attention's output; of the MLP."""
        own, gpt = self.architecture, self.norm == "layer"
        given = own.qkv_bias, own.out_bias, own.mlp_bias
        qkv, out, mlp = (gpt if each is None else each for each in given)
        return qkv, out, mlp

    @property
    def parts(self) -> tuple[Block, ...]:
        """The blocks; all layers as one block if they are alike."""
        if self.blocks:
            return self.blocks
        sizes = {field: getattr(self, field) for field in _SIZES}
        return (Block(name=LAYER, gated=self.gated, attention=self.attention, **sizes),)

    def starts(self, index: int) -> bool:
        """Whether a block starts from tokens of its own; the first one does not."""
        return _starts(self.blocks, index)

    def tokens(self, index: int, seq_len: int) -> int:
        """Tokens of a block per sequence of ``seq_len`` tokens."""
        tokens = seq_len
        for place in range(len(self.blocks[: index + 1])):
            merged = tokens // self.blocks[place].merge
            tokens = seq_len if self.starts(place) else merged
        return tokens

    def sequence_fault(self, seq_len: int) -> str:
        """Say why sequences of so many tokens do not fit; empty if they do."""
        for index, block in enumerate(self.blocks):
            before = self.tokens(index - 1, seq_len) if index else seq_len
            if before % block.merge:
                return (
                    f"is {seq_len}, which leaves {before} tokens before block "
                    f"{block.name!r}, expected a multiple of merge ({block.merge})"
                )
            tokens = self.tokens(index, seq_len)
            if block.window and tokens % block.window:
                return (
                    f"is {seq_len}, which leaves {tokens} tokens in block "
                    f"{block.name!r}, expected a multiple of window ({block.window})"
                )
        return ""

    def place_of(self, kind: str) -> tuple[int, bool]:
        """Return the block of a kind, and whether it is a first layer's own kind.

        Raises
        ------
        ValueError
            No layer is of this kind.
        """
        first = kind.endswith(FIRST)
        name = kind.removesuffix(FIRST)
        for index, block in enumerate(self.parts):
            if block.name == name and (not first or self._enters(index)):
                return index, first
        msg = f"unknown unit kind {kind!r}"
        raise ValueError(msg)

    def _enters(self, index: int) -> bool:
        """Whether a block's first layer has something to do before."""
        return bool(self.blocks) and (
            self.blocks[index].merge > 1 or self.starts(index)
        )

    @property
    def units(self) -> tuple[str, ...]:
        """Kind of every unit in pipeline order: embedding, body, head."""
        body: list[str] = []
        for index, block in enumerate(self.blocks):
            body += [block.name] * block.layers
            if self._enters(index):
                body[-block.layers] = block.name + FIRST
        if not self.blocks:
            plain, window = [LAYER], [LAYER_WINDOW]
            if self.granularity == "block":
                plain, window = [*BLOCKS], [ATTENTION_WINDOW, *BLOCKS[1:]]
            for has_window in self.architecture.windows(self.layers):
                body += window if has_window else plain
        return (EMBEDDING, *body, HEAD)

    @property
    def cuts(self) -> tuple[str, ...]:
        """Cut class after each unit but the last, length ``len(units) - 1``."""
        if not self.blocks:
            return tuple(
                CUT_FFN if kind == MLP_UP else CUT_HIDDEN for kind in self.units[:-1]
            )
        cuts = [CUT_HIDDEN]
        for block in self.blocks:
            both = block.name + AND + block.context if block.context else block.name
            cuts += [both] * block.layers
        if self.blocks[-1].context:
            # Nothing behind the last layer attends.
            cuts[-1] = self.blocks[-1].name
        return tuple(cuts)

    def cut_tensors(
        self, cut: str, seq_len: int, *, within: bool = False
    ) -> tuple[tuple[int, int], ...]:
        """Return tokens per sequence and width of the tensors of a cut class.

        Parameters
        ----------
        within
            Of those that stay within a stage; otherwise of those that leave it.
        """
        sizes = {CUT_HIDDEN: (seq_len, self.hidden), CUT_FFN: (seq_len, self.ffn)}
        for index, block in enumerate(self.blocks):
            sizes[block.name] = (self.tokens(index, seq_len), block.hidden)
        names = cut.split(ACROSS)[0 if within else -1].split(AND)
        return tuple(sizes[name] for name in names if name)

    @property
    def edges(self) -> tuple[tuple[int, int, str], ...]:
        """(u, v, class): unit u hands a tensor of a cut class to unit v > u; ascending.

        Every unit hands its output to the next, and every layer of a block with a
        context has one from the last layer of that context. Where stages part, the
        context crosses once, with the output of the layer before: not on each of its
        edges.
        """
        edges = []
        for unit, cut in enumerate(self.cuts):
            name = cut.split(AND)[0]
            edges.append((unit, unit + 1, cut if name == cut else name + ACROSS + cut))
        unit, last = 1, {}
        for block in self.blocks:
            start, unit = unit, unit + block.layers
            last[block.name] = unit - 1
            if block.context:
                source = last[block.context]
                edges += [
                    (source, layer, block.context + ACROSS)
                    for layer in range(max(start, source + 2), unit)
                ]
        return tuple(sorted(edges))


def block_fault(blocks: tuple[Block, ...], index: int) -> str:
    """Say why a block cannot stand behind those before it; empty if it can.

    What it says opens with the name of the field that is wrong.
    """
    block = blocks[index]
    if block.name in (other.name for other in blocks[:index]):
        return f"name is {block.name!r} a second time"
    if index == 0:
        if block.context:
            return f"context is {block.context!r}, but no block is before"
        return f"merge is {block.merge}, but no block is before" * (block.merge > 1)
    before = blocks[index - 1]
    if _starts(blocks, index):
        if block.context != before.name:
            return (
                f"context is {block.context!r}, expected the block before, "
                f"{before.name!r}"
            )
        fault = f"merge is {block.merge}, but context starts from new tokens"
        return fault * (block.merge > 1)
    if block.context != before.context:
        what = repr(before.context) if before.context else "none"
        return f"context is {block.context!r}, expected {what}, as of the block before"
    if block.merge == 1 and block.hidden != before.hidden:
        return (
            f"hidden is {block.hidden}, expected {before.hidden} unless merge is given"
        )
    return ""


def _starts(blocks: tuple[Block, ...], index: int) -> bool:
    return bool(index and blocks[index].context and not blocks[index - 1].context)


def _check_sizes(of: Model | Block) -> None:
    for field in _SIZES:
        if getattr(of, field) < 1:
            msg = f"{field} is {getattr(of, field)}, expected at least 1"
            raise ValueError(msg)
    if of.heads % of.kv_heads:
        msg = f"heads ({of.heads}) is not a multiple of kv_heads ({of.kv_heads})"
        raise ValueError(msg)
