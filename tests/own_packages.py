"""What the tests of users' own launchers and solvers share."""

from __future__ import annotations

from importlib import invalidate_caches
from typing import TYPE_CHECKING

from tests.docs.pages import blocks_of

if TYPE_CHECKING:
    from pathlib import Path


def blocks(page: str, language: str) -> list[str]:
    """Return the code blocks of a page in one language."""
    found = [block.text for block in blocks_of(page) if block.language == language]
    assert found
    return found


def install(folder: Path, name: str, module: str, group: str, entry: str) -> None:
    """Write what installing a package with one module leaves in a folder."""
    (folder / f"{name}.py").write_text(module)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    invalidate_caches()
