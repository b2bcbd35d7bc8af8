"""Layers of one kind, and how layers of several kinds follow one another."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hetopt.base.checked import checked
from hetopt.base.least import ensure_least
from hetopt.problem.model.kinds import FIRST, TAKEN

Attention = Literal["causal", "bidirectional"]

#: Sizes that blocks and models have.
SIZES = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn")


@checked
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
        Tokens that attend to each other, such as 49 in Swin; 0: the whole sequence.
    merge
        Tokens of the block before that a matrix, which may change the width, makes one
        token of this block, such as 4 in Swin.
    context
        Name of the block whose output every layer attends to besides its own tokens.
        The first such block starts from its own tokens, as many as the sequence has,
        looked up in the token table (T5's decoder). Empty: none.
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
        check_sizes({field: getattr(self, field) for field in SIZES})
        if not re.fullmatch("[a-z][a-z0-9-]*", self.name) or len(self.name) > 40:
            msg = f"name is {self.name!r}, expected lower-case letters, digits and -"
            raise ValueError(msg)
        if self.name in TAKEN or self.name.endswith(FIRST):
            msg = f"name is {self.name!r}, which is taken, expected another"
            raise ValueError(msg)
        ensure_least(self, 0, ("window",))
        ensure_least(self, 1, ("merge",))
        if self.window and self.attention == "causal":
            msg = f"window is {self.window}, but attention is causal, not bidirectional"
            raise ValueError(msg)


def block_fault(blocks: tuple[Block, ...], index: int) -> str:
    """Return why a block cannot follow those before it; empty if it can.

    The text begins with the name of the wrong field.
    """
    block = blocks[index]
    if block.name in (other.name for other in blocks[:index]):
        return f"name is {block.name!r} a second time"
    if index == 0:
        if block.context:
            return f"context is {block.context!r}, but no block is before"
        return f"merge is {block.merge}, but no block is before" * (block.merge > 1)
    before = blocks[index - 1]
    if starts(blocks, index):
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


def starts(blocks: tuple[Block, ...], index: int) -> bool:
    """Whether a block starts from its own tokens; False for the first block."""
    return bool(index and blocks[index].context and not blocks[index - 1].context)


def check_sizes(sizes: Mapping[str, int]) -> None:
    """Raise ValueError if one of ``SIZES`` is too small or heads do not divide."""
    for field, size in sizes.items():
        if size < 1:
            msg = f"{field} is {size}, expected at least 1"
            raise ValueError(msg)
    heads, kv_heads = sizes["heads"], sizes["kv_heads"]
    if heads % kv_heads:
        msg = f"heads ({heads}) is not a multiple of kv_heads ({kv_heads})"
        raise ValueError(msg)
