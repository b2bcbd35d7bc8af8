"""Layers of one kind, and how layers of several kinds follow one another."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from hetopt.base.faults import Fault, inside
from hetopt.base.fields import Count, Flag, Name, Whole, whole
from hetopt.base.record import derived, record
from hetopt.problem.model.experts import MAX_LAYERS
from hetopt.problem.model.kinds import FIRST, TAKEN

Attention = Literal["causal", "bidirectional"]

#: Sizes that blocks and models have.
SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn")
#: Fields that a block takes from the whole model unless it has its own.
SHARED = (*SIZES[1:], "gated", "attention")

LayerCount = Annotated[int, Field(ge=1), BeforeValidator(whole(1, MAX_LAYERS))]


def inner_size(sizes: Mapping[str, Any]) -> int:
    """Return the usual inner size of an MLP of the same hidden size."""
    hidden: int = sizes["hidden"]
    return 256 * math.ceil(8 * hidden / (3 * 256)) if sizes["gated"] else 4 * hidden


def ensure_groups(heads: int, kv_heads: int) -> None:
    """Raise Fault if key-value heads are not shared by equally many heads."""
    if heads % kv_heads:
        msg = f"is {kv_heads}, which does not divide heads ({heads})"
        raise Fault(msg, "kv_heads")


@record
class Block:
    """Layers of one kind; sizes that it does not give are those of the whole model.

    Attributes
    ----------
    name
        The kind of its layers: lower-case letters, digits and -.
    layers
        The number of layers.
    hidden
        Hidden size.
    heads
        Attention heads.
    kv_heads
        Default: heads.
    head_dim
        Default: hidden / heads.
    gated
        true: an MLP of three matrices.
    ffn
        Inner size of the MLP.
    attention
        causal (default) or bidirectional.
    window
        Tokens that attend to each other, such as 49 in Swin; default: 0, the whole
        sequence.
    merge
        Tokens of the block before that become one token here, by a matrix that may
        change the width, such as 4 in Swin; default: 1.
    context
        Block before, whose output every layer here attends to as well; the first
        such block starts from tokens of its own, as many as the sequence has (an
        encoder's decoder).
    """

    elsewhere: ClassVar = ("hidden", "heads")

    name: Name
    layers: LayerCount
    hidden: Count
    heads: Count
    kv_heads: Count = derived(factory=lambda sizes: sizes["heads"])
    head_dim: Count = derived(factory=lambda sizes: sizes["hidden"] // sizes["heads"])
    gated: Flag = True
    ffn: Count = derived(factory=inner_size)
    attention: Attention = "causal"
    window: Whole = 0
    merge: Count = 1
    context: Name = ""

    def __post_init__(self) -> None:
        ensure_groups(self.heads, self.kv_heads)
        if not re.fullmatch("[a-z][a-z0-9-]*", self.name) or len(self.name) > 40:
            msg = f"is {self.name!r}, expected lower-case letters, digits and -"
            raise Fault(msg, "name")
        if self.name in TAKEN or self.name.endswith(FIRST):
            raise Fault(f"is {self.name!r}, which is taken, expected another", "name")
        if self.window and self.attention == "causal":
            msg = f"is {self.window}, but attention is causal, not bidirectional"
            raise Fault(msg, "window")


def ensure_in_order(blocks: tuple[Block, ...]) -> None:
    """Raise Fault, with the block's position, if one cannot follow those before it."""
    for index in range(len(blocks)):
        with inside("blocks", index):
            _ensure_follows(blocks, index)


def _ensure_follows(blocks: tuple[Block, ...], index: int) -> None:
    block = blocks[index]
    context, merge = block.context, block.merge
    if block.name in (other.name for other in blocks[:index]):
        raise Fault(f"is {block.name!r} a second time", "name")
    if index == 0:
        if context:
            raise Fault(f"is {context!r}, but no block is before", "context")
        if merge > 1:
            raise Fault(f"is {merge}, but no block is before", "merge")
        return
    before = blocks[index - 1]
    if starts(blocks, index):
        if context != before.name:
            msg = f"is {context!r}, expected the block before, {before.name!r}"
            raise Fault(msg, "context")
        if merge > 1:
            raise Fault(f"is {merge}, but context starts from new tokens", "merge")
    elif context != before.context:
        what = repr(before.context) if before.context else "none"
        msg = f"is {context!r}, expected {what}, as of the block before"
        raise Fault(msg, "context")
    elif merge == 1 and block.hidden != before.hidden:
        msg = f"is {block.hidden}, expected {before.hidden} unless merge is given"
        raise Fault(msg, "hidden")


def starts(blocks: tuple[Block, ...], index: int) -> bool:
    """Whether a block starts from its own tokens; False for the first block."""
    return bool(index and blocks[index].context and not blocks[index - 1].context)
