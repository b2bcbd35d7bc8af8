"""The pages of the documentation, and the code blocks in them.

What stands in a comment on the line before a block says what becomes of it:
``<!-- no-test: REASON -->``, it is not run; ``<!-- file: NAME -->``, it is written to
that file, in the folder in which the page's other blocks run; ``<!-- printed: BY -->``,
it is what the block of commands before it prints, or a part of that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Every page, by its path from the root of the repository.
PAGES = (
    "README.md",
    *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md")),
)

_FENCE = re.compile(
    r"(?:^<!-- (?P<mark>no-test|file|printed): (?P<told>.+) -->\n)?"
    r"^```(?P<language>.*)\n(?P<text>(?:(?!```).*\n)*)^```$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One code block of a page.

    Attributes
    ----------
    line
        Of its first fence, counted from 1.
    why_not_run
        The reason that the page gives; None: it is run.
    file
        The file that it is written to, if any.
    printed
        Whether the last commands before it print it.
    """

    page: str
    line: int
    language: str
    text: str
    why_not_run: str | None
    file: str | None
    printed: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read_page(page: str) -> str:
    """Return the text of a page."""
    return (ROOT / page).read_text("utf-8")


def blocks_of(page: str) -> list[Block]:
    """Return all code blocks of a page, in order."""
    text = read_page(page)
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start("language")) + 1,
            language=match["language"],
            text=match["text"],
            why_not_run=match["told"] if match["mark"] == "no-test" else None,
            file=match["told"] if match["mark"] == "file" else None,
            printed=match["mark"] == "printed",
        )
        for match in _FENCE.finditer(text)
    ]


def prose_of(page: str) -> str:
    """Return a page without its code blocks."""
    return _FENCE.sub("", read_page(page))
