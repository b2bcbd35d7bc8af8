"""``Key=value`` text, in which values may contain spaces."""

from __future__ import annotations

import re

_KEY = re.compile(r"([A-Za-z][A-Za-z0-9_/:.-]*)=(.*)", re.ASCII | re.DOTALL)


def read_fields(words: list[str], last: frozenset[str] = frozenset()) -> dict[str, str]:
    """Return fields by name; a word without a key belongs to the value before it.

    The first of two equal keys counts. A field in ``last`` is free text: it and all
    words after it are ignored.
    """
    found: dict[str, str] = {}
    current = ""
    for word in words:
        match = _KEY.fullmatch(word)
        if match is None:
            if current:
                found[current] += f" {word}"
            continue
        key, value = match[1], match[2]
        if key in last:
            break
        current = "" if key in found else key
        if current:
            found[key] = value
    return found
