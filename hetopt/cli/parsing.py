"""Parsers of commands: errors are one line that says what was meant, help is short."""

from __future__ import annotations

import argparse
import sys
import textwrap
from typing import TYPE_CHECKING, Any, NoReturn

from hetopt.base.words import suggest
from hetopt.cli.exit_codes import BAD_INPUT
from hetopt.cli.output import complain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    #: Commands by the title of their group: name -> summary.
    Groups = Mapping[str, Mapping[str, str]]

#: What argparse writes before a usage.
_USAGE = "usage: "
#: Column at which the summaries of commands begin, as the longest name needs.
_INDENT = 20


class Parser(argparse.ArgumentParser):
    """A parser of one command.

    Attributes
    ----------
    retired
        Options that the command had -> what to write instead.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("allow_abbrev", False)
        super().__init__(**settings)
        self.retired: dict[str, str] = {}

    def error(self, message: str) -> NoReturn:
        """Print one line, and exit with the code for bad input."""
        complain(f"{self.prog}: {message.removeprefix('argument ')}")
        raise SystemExit(BAD_INPUT)

    # argparse declares overloads, one for each way to give a namespace.
    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments; one that has no place is an error here."""
        given = sys.argv[1:] if args is None else list(args)
        if self._subparsers is None and (flag := self._unknown(given)) is not None:
            # Before argparse misses what the user may have meant by it.
            self.error(self._out_of_place([flag]))
        found, left = super().parse_known_args(args, namespace)
        if left and not any(map(_is_option, left)):
            left = self._placed(found, left)
        if left:
            self.error(self._out_of_place(left))
        return found, left

    def format_help(self) -> str:
        """Return the help; its usage names what must be given, and no option."""
        width = self._get_formatter()._width - len(_USAGE)
        lines = textwrap.wrap(self._usage(), width)
        self.usage = f"\n{' ' * len(_USAGE)}".join(lines)
        return super().format_help()

    def _unknown(self, given: Sequence[str]) -> str | None:
        """Return the first long option that there is not; None if all are known."""
        for text in given:
            if text == "--":
                return None
            name = text.partition("=")[0]
            known = name in self._option_string_actions
            if text.startswith("--") and " " not in text and not known:
                return name
        return None

    def _placed(self, found: argparse.Namespace, left: list[str]) -> list[str]:
        """Give arguments that are left over to optional ones without a value.

        Python 3.11 and 3.12 leave them over if an option stands before them.
        """
        for action in self._get_positional_actions():
            if left and action.nargs == "?" and getattr(found, action.dest) is None:
                setattr(found, action.dest, left.pop(0))
        return left

    def _out_of_place(self, left: Sequence[str]) -> str:
        """Say what is wrong with arguments that are left over."""
        flag = next(filter(_is_option, left), None)
        if flag is None:
            taken = " ".join(map(_shown, self._get_positional_actions()))
            return f"{left[0]!r} is one argument too many, expected {taken or 'none'}"
        flag = flag.partition("=")[0]
        if flag in self.retired:
            return f"{flag}: {self.retired[flag]}"
        hint = suggest(flag, {*self._option_string_actions} - {"--help"})
        return f"there is no option {flag}{hint}: see {self.prog} --help"

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a value that is no choice, and name a similar one."""
        if action.choices is None or value in action.choices:
            return
        known = [str(choice) for choice in action.choices]
        hint = suggest(str(value), known)
        if isinstance(action, argparse._SubParsersAction):
            msg = f"there is no command {value!r}{hint}: see {self.prog} --help"
            raise argparse.ArgumentError(None, msg)
        msg = f"is {value!r}{hint}, expected one of {', '.join(known)}"
        raise argparse.ArgumentError(action, msg)

    def _usage(self) -> str:
        """Return the arguments that must be given, and that there are options."""
        required = [
            f"{action.option_strings[0]} {_shown(action)}"
            for action in self._get_optional_actions()
            if action.required
        ]
        places = map(_shown, self._get_positional_actions())
        return " ".join((self.prog, *places, *required, "[options]"))


class Root(Parser):
    """The parser of the command line, whose help shows commands in groups."""

    def __init__(self, groups: Groups, **settings: Any) -> None:
        super().__init__(**settings)
        self.groups = groups

    def format_help(self) -> str:
        """Return the help: commands by group, then options."""
        formatter = argparse.HelpFormatter(self.prog, max_help_position=_INDENT)
        formatter.add_usage("hetopt COMMAND [options]", (), ())
        formatter.add_text(self.description)
        for title, commands in self.groups.items():
            formatter.start_section(title)
            for name, summary in commands.items():
                formatter.add_argument(argparse.Action((), name, help=summary))
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments(self._get_optional_actions())
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def _is_option(text: str) -> bool:
    return text.startswith("-") and text != "-"


def _shown(action: argparse.Action) -> str:
    """Return an argument's value as the usage shows it."""
    name = action.metavar or action.dest.upper()
    if isinstance(name, tuple):
        name = " ".join(name)
    if action.nargs == "?":
        return f"[{name}]"
    if action.nargs == "+":
        return f"{name}..."
    return f"{name} ..." if action.nargs == argparse.PARSER else name
