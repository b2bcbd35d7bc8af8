"""Words for messages and reports: values, names, counts, and what is probably meant."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from hetopt.base.reading import MOST_DIGITS

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Halves of characters: what Python reads bytes of a name as that are not UTF-8.
_HALVES = "\ud800-\udfff"
_UNENCODABLE = re.compile(f"[{_HALVES}]")
#: These and control characters, except tabs and ends of lines.
_UNWRITABLE = re.compile(f"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{_HALVES}]")
#: These and all ends of lines.
_UNREADABLE = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_HALVES}]")
#: What Python adds to a byte that is not UTF-8 (PEP 383).
_BYTE = 0xDC00


def readable(name: str) -> str:
    r"""Return a file's name as one line of text: what cannot be printed as ``\xff``.

    Names may have any bytes. Files that hetopt writes are UTF-8, so that they can show
    such a name, but not contain it.
    """
    return _UNREADABLE.sub(_escaped, name)


def writable(text: str) -> str:
    """Return lines of which names may be a part, as a UTF-8 file can have them."""
    return _UNWRITABLE.sub(_escaped, text)


def encodable(text: str) -> str:
    """Return text of which names may be a part, as UTF-8 can encode it."""
    return _UNENCODABLE.sub(_escaped, text)


def shell_quoted(word: str) -> str:
    """Return a word for a command line; one that is not readable as bash reads it."""
    if readable(word) == word:
        return shlex.quote(word)
    kept = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"$'{readable(kept)}'"


def command_line(words: Iterable[str]) -> str:
    """Return a command as a user can give it to a shell."""
    return " ".join(map(shell_quoted, words))


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    byte = code - _BYTE if _BYTE + 0x80 <= code <= _BYTE + 0xFF else code
    return f"\\x{byte:02x}" if byte <= 0xFF else f"\\u{byte:04x}"


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


def counted(number: int, noun: str, ending: str = "s") -> str:
    """Return a number with its noun: ``1 stage``, ``2 stages``.

    Parameters
    ----------
    ending
        Of more than one; ``ies`` takes the place of a final y.
    """
    if number == 1:
        return f"{number} {noun}"
    stem = noun.removesuffix("y") if ending == "ies" else noun
    return f"{number} {stem}{ending}"


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
    near = difflib.get_close_matches(wanted, by_lower, n=10, cutoff=alike)
    if not near:
        return None
    # For A100, A100-40GB is a better suggestion than H100.
    return by_lower[min(near, key=lambda item: not item.startswith(wanted))]
