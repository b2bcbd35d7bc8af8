"""Slurm's lists of nodes: ``gpu[01-03,07],login1`` names five."""

from __future__ import annotations

import re
from itertools import product
from math import prod

#: No site has more nodes; a range beyond it is a typing error.
MAX_HOSTS = 100_000

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)
#: Commas that are not inside brackets.
_COMMA = re.compile(r",(?![^\[]*\])")


def expand_hosts(text: str) -> list[str]:
    """Return the hosts a list names, in its order.

    Numbers keep their zeros, and several brackets are expanded like nested loops, the
    last one fastest (Slurm's ``scontrol show hostnames``).

    Raises
    ------
    ValueError
        A bracket is not closed, or is not a list of numbers and rising ranges.
    """
    hosts: list[str] = []
    for part in _COMMA.split(text):
        # Every second piece was in brackets.
        pieces = _BRACKETS.split(part)
        if not part or any("[" in piece or "]" in piece for piece in pieces):
            msg = f"is {text[:80]!r}, expected hosts such as 'gpu[01-03,07],login1'"
            raise ValueError(msg)
        choices = [
            _numbers(piece, text) if index % 2 else [piece]
            for index, piece in enumerate(pieces)
        ]
        if len(hosts) + prod(map(len, choices)) > MAX_HOSTS:
            msg = f"is {text[:80]!r}, which is more than {MAX_HOSTS} hosts"
            raise ValueError(msg)
        hosts.extend("".join(names) for names in product(*choices))
    return hosts


def _numbers(inside: str, text: str) -> list[str]:
    numbers: list[str] = []
    for item in inside.split(","):
        match = _RANGE.fullmatch(item.strip())
        if match is None:
            msg = f"is {text[:80]!r}, whose [{inside[:40]}] is not numbers and ranges"
            raise ValueError(msg)
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last:
            msg = f"is {text[:80]!r}, whose range {item} does not rise"
            raise ValueError(msg)
        if last - first >= MAX_HOSTS:
            msg = f"is {text[:80]!r}, which is more than {MAX_HOSTS} hosts"
            raise ValueError(msg)
        numbers.extend(str(n).zfill(len(match[1])) for n in range(first, last + 1))
    return numbers
