"""Every code block of the README and of docs/ does what its page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
import yaml

import hetopt
from hetopt.base.record import keys
from hetopt.problem.example import EXAMPLE
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem, read_problem_text
from tests.docs.pages import PAGES, ROOT, blocks_of, prose_of, read_page

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.docs.pages import Block

#: Blocks that no test runs, by page. Each says why in a comment before it.
NOT_RUN = {
    "README.md": 1,
    "docs/explanation/fidelity.md": 1,
    "docs/explanation/measurements.md": 1,
    "docs/how-to/bring-a-model.md": 1,
    "docs/how-to/bring-a-profile.md": 2,
    "docs/how-to/compare.md": 1,
    "docs/how-to/experts.md": 1,
    "docs/how-to/export.md": 1,
    "docs/how-to/measure.md": 6,
    "docs/how-to/replan.md": 1,
    "docs/how-to/run-a-plan.md": 2,
    "docs/how-to/use-another-solver.md": 1,
}
#: Pages whose blocks another test runs, with a package of the page's own.
RUN_ELSEWHERE = {
    "docs/how-to/write-a-solver.md": "tests/solvers/test_own_solvers.py",
    "docs/how-to/write-an-exporter.md": "tests/export/test_own_exporters.py",
}
#: Pages whose commands take long.
SLOW = {
    "docs/explanation/proofs.md",
    "docs/how-to/calibrate.md",
    "docs/how-to/compare.md",
    "docs/how-to/experts.md",
    "docs/how-to/export.md",
    "docs/how-to/rent-nodes.md",
    "docs/how-to/show-a-plan.md",
    "docs/how-to/use-every-device.md",
    "docs/how-to/what-if.md",
}
RUN = [
    pytest.param(page, marks=pytest.mark.slow if page in SLOW else ())
    for page in PAGES
    if page not in RUN_ELSEWHERE and any(b.why_not_run is None for b in blocks_of(page))
]
#: Clusters that the plan of a page's example uses: no device of its fleet is idle.
MIXED_FLEETS = {
    "README.md": {"a100-80gb", "h800"},
    "docs/tutorials/slurm-to-megatron.md": {"a100-80gb", "h800"},
}
#: Seconds, for one block.
LIMIT_S = 300


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("page", RUN)
def test_blocks_run_in_order(page: str, tmp_path: Path) -> None:
    env = _with_hetopt(tmp_path / "bin")
    folder = tmp_path / "page"
    folder.mkdir()
    printed = ""
    for block in blocks_of(page):
        if block.printed:
            assert block.text in printed, f"{block}\n{printed}"
        elif block.why_not_run is None:
            printed = _run(block, folder, env)
    for picture in folder.glob("*.svg"):
        shown = ROOT / Path(page).parent / picture.name
        assert not shown.exists() or _texts(shown) == _texts(picture), picture.name
    if page in MIXED_FLEETS:
        answer = json.loads((folder / "plan.json").read_text())
        (pipeline,) = answer["plan"]["pipelines"]
        assert {stage["cluster"] for stage in pipeline["stages"]} == MIXED_FLEETS[page]


def _run(block: Block, folder: Path, env: Mapping[str, str]) -> str:
    """Run a block, or put it where it belongs; return what it prints."""
    if block.file is not None:
        (folder / block.file).write_text(block.text)
    elif block.language == "sh":
        return _succeed(block, ["sh", "-euc", block.text], folder, env)
    elif block.language == "python":
        python = [sys.executable, "-W", "error", "-c", block.text]
        return _succeed(block, python, folder, env)
    elif block.language == "yaml":
        _read_as_problem(block, folder)
    else:
        assert block.language == "text", f"{block}: nothing runs {block.language!r}"
    return ""


def _texts(picture: Path) -> list[str]:
    """Return all texts of a picture."""
    return [*ElementTree.parse(picture).getroot().itertext()]


def _with_hetopt(folder: Path) -> dict[str, str]:
    """Return an environment in which ``hetopt`` and ``python`` are those under test."""
    folder.mkdir()
    for name, what in (("hetopt", "-m hetopt"), ("python", "")):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" {what} "$@"\n')
        command.chmod(0o755)
    assert hetopt.__file__ is not None
    package = str(Path(hetopt.__file__).parents[1])
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": package}


def _succeed(
    block: Block, command: list[str], folder: Path, env: Mapping[str, str]
) -> str:
    ended = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert ended.returncode == 0, f"{block}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout + ended.stderr


def _read_as_problem(block: Block, folder: Path) -> None:
    """Read a block as a problem; one of some sections replaces the example's."""
    sections = yaml.safe_load(block.text)
    assert sections.keys() <= keys(Problem).keys(), block
    if {"model", "clusters", "training"} <= sections.keys():
        path = folder / "block.yaml"
        path.write_text(block.text)
        read_problem(path)
    else:
        whole = {**yaml.safe_load(EXAMPLE), **sections}
        read_problem_text(yaml.safe_dump(whole))


def test_few_blocks_are_not_run() -> None:
    blocks = [block for page in PAGES for block in blocks_of(page)]
    skipped = [block for block in blocks if block.why_not_run is not None]
    told = "\n".join(f"{block}: {block.why_not_run}" for block in skipped)
    assert Counter(block.page for block in skipped) == NOT_RUN, told
    assert all(len((block.why_not_run or "").split()) > 1 for block in skipped), told
    # What is shown and not run is no excuse for code.
    assert len(skipped) * 3 < len([b for b in blocks if b.language != "text"]), told


@pytest.mark.parametrize("page", PAGES)
def test_code_is_in_fences_that_are_found(page: str) -> None:
    fences = re.findall(r"^```", read_page(page), re.MULTILINE)
    assert len(fences) == 2 * len(blocks_of(page))
    prose = prose_of(page)
    # Four spaces after an empty line would be code as well.
    assert not re.search(r"\n\n(?: {4}|\t)", prose)
    assert "<!-- no-test" not in prose
    assert "<!-- file" not in prose
    assert "<!-- printed" not in prose


@pytest.mark.parametrize("page", RUN_ELSEWHERE)
def test_another_test_runs_the_page(page: str) -> None:
    test = (ROOT / RUN_ELSEWHERE[page]).read_text("utf-8")
    assert f'PAGE = "{page}"' in test
    assert "def test_the_page_works_as_it_is_written" in test


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", prose_of(page)):
        path, _, anchor = target.partition("#")
        if ":" in path:
            continue
        place = (ROOT / page).parent / path if path else ROOT / page
        assert place.exists(), target
        if anchor:
            assert anchor in _anchors(place.read_text("utf-8")), target


def _anchors(text: str) -> set[str]:
    """Return what headings are called in links, as web pages of Markdown do."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize("picture", sorted((ROOT / "docs").rglob("*.svg")))
def test_pictures_are_small_and_whole(picture: Path) -> None:
    assert picture.stat().st_size < 200_000
    assert ElementTree.parse(picture).getroot().tag.endswith("svg")


def test_every_page_is_linked_from_the_first() -> None:
    index: Any = ROOT / "docs" / "index.md"
    linked = {
        (index.parent / target.partition("#")[0]).resolve()
        for target in re.findall(r"\]\(([^)\s]+)\)", index.read_text("utf-8"))
    }
    pages = {
        ROOT / page for page in PAGES if page not in ("README.md", "docs/index.md")
    }
    assert pages <= linked


def test_every_page_is_in_the_menu_of_the_site() -> None:
    """`make docs`, which needs its own environment, refuses a page that is in none."""
    menu = (ROOT / "docs/site/mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r": (\S+\.md)$", menu, re.MULTILINE)
    there = [page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")]
    assert sorted(listed) == sorted(there)
