"""What the page about the papers names is there, and every row of it has a test."""

from __future__ import annotations

import re

from hetopt.problem.catalogue import problem_files
from tests.docs.pages import ROOT, read_page

PAGE = read_page("docs/explanation/papers.md")
TABLES, _, SCOPE = PAGE.partition("\n## Out of scope\n")
#: All that is quoted as code.
NAMED = re.findall(r"`([^`\n]+)`", PAGE)
REFERENCE = read_page("docs/reference/commands.md")
#: Commands and their options, on the page that is generated from the parsers.
COMMANDS = dict(
    section.split("\n", 1)
    for section in re.split(r"^###? ", REFERENCE, flags=re.MULTILINE)
    if section.startswith("hetopt ")
)


def test_paths_are_there() -> None:
    paths = [name for name in NAMED if "/" in name]
    assert len(paths) > 200
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_commands_and_their_options_are_there() -> None:
    for text in NAMED:
        command = text.partition(" --")[0]
        options = COMMANDS[command] if command.startswith("hetopt ") else REFERENCE
        for option in re.findall(r"(?<!\S)--[\w-]+", text):
            assert f"`{option}" in options, text


def test_benchmarks_are_there() -> None:
    modules = re.findall(r"`python -m ([\w.]+)`", PAGE)
    assert modules
    for module in modules:
        assert (ROOT / module.replace(".", "/")).with_suffix(".py").exists(), module


def test_problems_ship() -> None:
    of_a_paper = re.compile(r"(hetauto|hapt|h2|hetu|uniap)-[\w-]+")
    assert {*filter(of_a_paper.fullmatch, NAMED)} <= problem_files().keys()


def test_every_row_names_tests_or_says_that_there_is_nothing() -> None:
    rows = [line.split(" | ") for line in TABLES.splitlines() if line.startswith("| ")]
    listed = [row for row in rows if row[0] != "| capability" and row[0][:4] != "| **"]
    assert len(listed) > 100
    for row in listed:
        _, _, here, _ = row
        assert "`tests/" in here or here == "none", row


def test_the_scope_is_stated_in_one_line_each() -> None:
    rows = [line for line in SCOPE.splitlines() if line.startswith("| ")]
    for what in ("precision", "DiComm", "specialization", "clustering", "per step"):
        assert any(what in row for row in rows), what
