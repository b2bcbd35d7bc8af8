"""Lower limits of the numbers in a record."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def ensure_least(record: object, least: int, names: Iterable[str]) -> None:
    """Raise ValueError if one of a record's fields is below ``least``."""
    for name in names:
        if getattr(record, name) < least:
            msg = f"{name} is {getattr(record, name)}, expected at least {least}"
            raise ValueError(msg)
