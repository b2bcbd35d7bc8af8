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
    near = closest(name, known)
    return "" if near is None else f" (did you mean {near!r}?)"


def closest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """Return the known name that another was probably meant to be; None if none is.

    Parameters
    ----------
    alike
        Least share of characters that both have in common, from 0 to 1.
    """
    import difflib

    by_lower = {item.lower(): item for item in known}
    wanted = name[:80].lower()
    near = difflib.get_close_matches(wanted, by_lower, n=3, cutoff=alike)
    if not near:
        return None
    # For A100, A100-40GB is a better suggestion than H100.
    return by_lower[min(near, key=lambda item: not item.startswith(wanted))]
