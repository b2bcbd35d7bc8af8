"""What ``--help`` shows, and ``hetopt`` alone."""

from __future__ import annotations

import argparse

import pytest

from hetopt.cli import main
from hetopt.cli.entry import COMMANDS, GROUPS, parser

#: Lines and columns of a terminal.
SCREEN, WIDTH = 50, 80


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))


def test_hetopt_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    alone = capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    assert alone == capsys.readouterr()
    assert alone.err == ""


def test_every_command_is_in_one_group_and_in_one_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    places = [lines.index(f"{title}:") for title in GROUPS]
    assert places == sorted(places)
    for title, commands in GROUPS.items():
        first = lines.index(f"{title}:") + 1
        shown = lines[first : first + len(commands)]
        assert [line.split()[0] for line in shown] == list(commands)
    assert len(COMMANDS) == sum(map(len, GROUPS.values()))
    assert len(lines) <= SCREEN


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command_fits_screens(name: str) -> None:
    command = _command(name)
    text = command.format_help()
    assert max(map(len, text.splitlines())) <= WIDTH
    assert len(text.partition("\n\n")[0].splitlines()) <= 2
    for part in text.split("\n\n"):
        assert len(part.splitlines()) <= SCREEN


def test_the_options_of_plan_are_in_groups() -> None:
    text = _command("plan").format_help()
    for title in ("which plan is best", "which plans are searched", "how to search"):
        assert f"\n\n{title}:\n" in text


@pytest.mark.parametrize(
    "words",
    [
        ["explain", "p.yaml", "plan.json", "--jobs", "1"],
        ["explain", "p.yaml", "--jobs", "1", "plan.json"],
        ["explain", "--jobs", "1", "p.yaml", "plan.json"],
    ],
)
def test_options_may_stand_anywhere(words: list[str]) -> None:
    found = parser().parse_args(words)
    assert (found.problem, found.plan, found.jobs) == ("p.yaml", "plan.json", 1)


def _command(name: str) -> argparse.ArgumentParser:
    commands = next(
        action
        for action in parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    )
    found: argparse.ArgumentParser = commands.choices[name]
    return found
