"""What flags say of themselves agrees with the searches that they ask for."""

from __future__ import annotations

from importlib import import_module

import pytest

from hetopt.cli.entry import COMMANDS, module_name
from hetopt.cli.flag import Flag, flags_in
from hetopt.cli.flags import OF_PLAN
from hetopt.planning.asked import Search
from hetopt.results.asked import Options


def flags_of(command: str) -> list[Flag]:
    return [*flags_in(import_module(module_name(command)).TAKES)]


@pytest.mark.parametrize("command", COMMANDS)
def test_they_fill_fields_of_a_search(command: str) -> None:
    fills = [field for flag in flags_of(command) for field in flag.fills]
    assert {*fills} <= {*Search.__dataclass_fields__}


@pytest.mark.parametrize("command", COMMANDS)
def test_each_is_taken_once(command: str) -> None:
    names = [flag.name for flag in flags_of(command)]
    assert len({*names}) == len(names)


def test_answers_name_what_was_asked_by_its_flags() -> None:
    assert {*Options.__annotations__} <= {flag.dest for flag in flags_in(OF_PLAN)}


def test_a_changed_flag_leaves_the_first_as_it_was() -> None:
    first = Flag("--top", "how many", "K", fills="top", default=1)
    other = first.but("more", name="--most", default=2)
    assert (first.name, first.text, first.settings["default"]) == (
        "--top",
        "how many",
        1,
    )
    assert (other.name, other.text, other.settings["default"]) == ("--most", "more", 2)
    assert other.fills == first.fills == ["top"]
