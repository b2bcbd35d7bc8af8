"""Batches that are given in tokens."""

from __future__ import annotations

from hetopt.base.faults import Fault
from hetopt.base.words import describe

#: Token budgets are powers of two: 2M tokens are 2 * 2**20.
_TOKEN_PREFIXES = {"k": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "B": 2**30}


def tokens_of(text: str) -> int:
    """Return the number of tokens in "2M tokens" or "2097152 tokens"; or Fault."""
    words = text.split()
    if len(words) == 3:
        words = [words[0] + words[1], words[2]]
    if len(words) == 2 and words[1] in ("tokens", "token"):
        number, factor = words[0], _TOKEN_PREFIXES.get(words[0][-1], 1)
        digits = number[:-1] if factor > 1 else number
        if digits.isascii() and digits.isdigit() and 0 < len(digits) < 16:
            tokens = int(digits) * factor
            if tokens > 0:
                return tokens
    raise Fault(f"is {describe(text)}, expected sequences such as 128 or '2M tokens'")
