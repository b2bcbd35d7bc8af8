"""The pages of docs/reference are what the parsers and schemas of today say."""

from __future__ import annotations

import runpy

import pytest

from hetopt.base.record import keys
from hetopt.cli.entry import COMMANDS
from hetopt.problem.problem import Problem
from tests.docs.pages import ROOT

FOLDER = ROOT / "docs" / "reference"
PAGES: dict[str, str] = runpy.run_path(str(FOLDER / "generate.py"))["pages"]()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_current(name: str) -> None:
    stale = "run python docs/reference/generate.py"
    assert (FOLDER / name).read_text("utf-8") == PAGES[name], stale


def test_every_page_is_generated() -> None:
    assert {path.name for path in FOLDER.glob("*.md")} == {*PAGES}


def test_every_command_and_section_has_its_place() -> None:
    headings = [line for line in PAGES["commands.md"].splitlines() if line[:3] == "## "]
    assert len(headings) == len(COMMANDS)
    for field in keys(Problem):
        assert f"\n| `{field}` |" in PAGES["problem.md"]
