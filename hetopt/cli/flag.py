"""What commands take: flags, and what is made of flags."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from hetopt.cli.numbers import whole

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Self

    from hetopt.cli.parsing import Parser


class Taken(Protocol):
    """What a command lists: a flag, or something made of flags."""

    def add(self, command: Parser) -> None:
        """Add it to a command."""


class Flag:
    """An option or a place of commands.

    Parameters
    ----------
    name
        ``--option``, ``-o --option``, or the name of a place.
    text
        Its help.
    value
        What the help calls its value; None if it has none.
    fills
        Fields of ``Search`` that it fills, with spaces between.
    asks
        Function that returns their values for the option's; by default all are equal
        to it.
    role
        Of one that names files: ``reads``, ``writes``, or ``problem``, which is read
        with all that it names (``hetopt.cli.paths.ensure_files``).
    settings
        Further arguments of ``add_argument``.
    """

    def __init__(
        self,
        name: str,
        text: str,
        value: str | tuple[str, ...] | None = None,
        *,
        fills: str = "",
        asks: Callable[[Any], Mapping[str, Any]] | None = None,
        role: str = "",
        **settings: Any,
    ) -> None:
        self.name, self.text, self.role = name, text, role
        self.fills, self._asks = fills.split(), asks
        self.settings = settings if value is None else {"metavar": value, **settings}
        last = name.split()[-1]
        self.dest: str = settings.get("dest", last.lstrip("-").replace("-", "_"))

    def but(
        self, text: str | None = None, name: str | None = None, **settings: Any
    ) -> Self:
        """Return this flag with another help, name, or other settings."""
        changed = copy(self)
        changed.settings = {**self.settings, **settings}
        changed.name, changed.text = name or self.name, text or self.text
        changed.dest = self.dest if name is None else name
        return changed

    def add(self, command: argparse._ActionsContainer) -> None:
        """Add it to a parser, or to a group of one."""
        command.add_argument(*self.name.split(), help=self.text, **self.settings)

    def asked(self, options: argparse.Namespace) -> Mapping[str, Any]:
        """Return the fields of ``Search`` that it fills."""
        value = getattr(options, self.dest)
        return self._asks(value) if self._asks else dict.fromkeys(self.fills, value)


class Group(NamedTuple):
    """Flags under a title of their own in the help."""

    title: str
    flags: tuple[Flag, ...]

    def add(self, command: Parser) -> None:
        """Add them to a command."""
        group = command.add_argument_group(self.title)
        for flag in self.flags:
            flag.add(group)


class Retired(NamedTuple):
    """An option that the command had, and what to write instead."""

    name: str
    instead: str

    def add(self, command: Parser) -> None:
        """Let a command say it."""
        command.retired[self.name] = self.instead


class Action(NamedTuple):
    """A second word of a command, with flags of its own."""

    name: str
    summary: str
    flags: tuple[Flag, ...]

    def add(self, command: Parser) -> None:
        """Add it to a command, as the only one."""
        actions = command.add_subparsers(
            dest="action", metavar=self.name, required=True
        )
        about = f"{self.summary[0].upper()}{self.summary[1:]}."
        action = actions.add_parser(self.name, help=self.summary, description=about)
        for flag in self.flags:
            flag.add(action)


def flags_in(taken: Iterable[Taken]) -> Iterator[Flag]:
    """Yield all flags in what a command lists."""
    for each in taken:
        if isinstance(each, Flag):
            yield each
        elif isinstance(each, Group):
            yield from each.flags


def reads(name: str, text: str, **more: Any) -> Flag:
    """Return an option that names a file to read."""
    return Flag(name, text, "FILE", role="reads", **more)


def writes(name: str, text: str, **more: Any) -> Flag:
    """Return an option that names a file to write."""
    return Flag(name, text, "FILE", role="writes", **more)


def switch(name: str, text: str, **more: Any) -> Flag:
    """Return an option without a value; it is off by default."""
    return Flag(name, text, action="store_true", **more)


def count(
    name: str,
    text: str,
    value: str = "N",
    *,
    least: int = 1,
    most: int | None = None,
    **more: Any,
) -> Flag:
    """Return an option that is a whole number of at least ``least``."""
    return Flag(name, text, value, type=whole(least, most), **more)


def repeated(name: str, value: str | tuple[str, ...], text: str, **more: Any) -> Flag:
    """Return an option that may be given again; [] by default."""
    return Flag(name, text, value, **{"action": "append", "default": [], **more})


def as_json(what: str) -> Flag:
    """Return the option that prints JSON alone."""
    return switch("--json", f"print the {what} as JSON, nothing else")
