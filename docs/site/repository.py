"""Bring files that pages link to, but that lie outside of docs/, into the site.

Pages name them as they lie in the repository, ``../../benchmarks/results/speed.md``, so
that links work where the repository is read. In the site they lie below its root.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from mkdocs.structure.files import File, InclusionLevel

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
_LINK = re.compile(r"\]\(([^):#\s]+)(?=[)#])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what pages link to, and what these link to in turn."""
    waiting = ["docs/" + page.src_uri for page in files.documentation_pages()]
    seen = set(waiting)
    for page in waiting:
        for target in _LINK.findall((ROOT / page).read_text("utf-8")):
            name = _named(page, target)
            # What does not exist is a broken link, which mkdocs reports.
            if name in seen or name.startswith("docs/") or not (ROOT / name).exists():
                continue
            seen.add(name)
            files.append(_file(name, config))
            if name.endswith(".md"):
                waiting.append(name)
    return files


def on_page_markdown(markdown: str, /, *, page: Page, **_: object) -> str:
    """Lead links out of docs/ to where these files lie in the site."""
    source = page.file.src_uri
    if not (ROOT / "docs" / source).exists():
        # It came from outside itself, with all it links to.
        return markdown

    def inside(match: re.Match[str]) -> str:
        name = _named("docs/" + source, match[1])
        if name.startswith("docs/"):
            return match[0]
        return "](" + "../" * source.count("/") + name

    return _LINK.sub(inside, markdown)


def _named(page: str, target: str) -> str:
    """Return the path from the root of what a link of a page leads to."""
    path = (ROOT / PurePosixPath(page).parent / target).resolve()
    return path.relative_to(ROOT).as_posix()


def _file(name: str, config: MkDocsConfig) -> File:
    """Return a file of the repository at the same place in the site."""
    return File.generated(
        config,
        name,
        abs_src_path=str(ROOT / name),
        inclusion=InclusionLevel.NOT_IN_NAV,
    )
