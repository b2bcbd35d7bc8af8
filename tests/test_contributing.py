"""The places that docs/contributing.md names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "contributing.md").read_text("utf-8")
PLACES = re.findall(r"`((?:[\w.]+/)+[\w.]*)`(?:: `(\w+)`)?", PAGE)


def test_the_page_names_places() -> None:
    assert len(PLACES) > 15


@pytest.mark.parametrize(
    ("path", "name"), [place for place in PLACES if "NAME" not in place[0]]
)
def test_a_place_exists(path: str, name: str) -> None:
    place = ROOT / path
    assert place.exists(), path
    if name:
        defined = rf"^\s*(?:(?:def|class) {name}\b|{name}\b.*=)"
        assert re.search(defined, place.read_text("utf-8"), re.MULTILINE), name


@pytest.mark.parametrize(
    "folder",
    sorted(
        path.parent.name
        for path in (ROOT / "hetopt").glob("*/__init__.py")
        if not path.parent.is_symlink()
    ),
)
def test_a_package_has_a_row(folder: str) -> None:
    assert f"| `hetopt/{folder}/` |" in PAGE
