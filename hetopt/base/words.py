"""Words for error messages: a value that the user wrote, and one probably meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.reading import MOST_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable


def describe(value: object) -> str:
    """Return a short description of a value, in at most 60 characters."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        return f"a number of more than {MOST_DIGITS} digits"
    text = repr(value[:60] if isinstance(value, str | bytes) else value)
    return text if len(text) <= 60 else text[:57] + "..."


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)``, or nothing if no known name is near."""
    import difflib

    by_lower = {item.lower(): item for item in known}
    wanted = name[:80].lower()
    near = difflib.get_close_matches(wanted, by_lower, n=3, cutoff=0.6)
    if not near:
        return ""
    # For A100, A100-40GB is a better suggestion than H100.
    best = min(near, key=lambda item: not item.startswith(wanted))
    return f" (did you mean {by_lower[best]!r}?)"
