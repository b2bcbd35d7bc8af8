"""What files of a runtime say that hetopt does not know or cannot price."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetopt.base.file_record import FileRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported(FileRecord):
    """An argument that the price of a plan leaves out.

    Attributes
    ----------
    argument
        As its file spells it.
    kind
        ``unknown``, or ``not priced`` if hetopt knows what it does.
    why
        What hetopt prices in its place, or that hetopt does not know the argument.
    """

    argument: str
    kind: Literal["unknown", "not priced"]
    why: str

    def __str__(self) -> str:
        return f"{self.argument}: {self.why}"
