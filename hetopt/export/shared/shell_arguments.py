"""The arguments of commands in shell scripts, read without running the scripts.

Knows what launch scripts use of the shell: assignments, arrays, ``${NAME}``,
``${NAME:-default}``, ``${ARRAY[@]}``, ``$((A * B))``, quotes, comments, lines continued
with a backslash. Conditions and loops are read as if every line ran once.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from itertools import takewhile
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.reading import read_text
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$(?:\{([A-Za-z_]\w*)(?:\[[@*]\])?(?::?-([^{}]*))?\}|([A-Za-z_]\w*))"
)
#: Arguments that differ between nodes.
_OWN = frozenset({"--node-rank", "--nproc-per-node", "--nnodes"})
#: Arithmetic, in today's and in the old spelling.
_SUM = re.compile(r"\$\(\(([^()]*)\)\)|\$\[([^][]*)\]")

#: Launch scripts have some kilobytes, also with the variables replaced.
MOST_SCRIPT_BYTES = 2**17
_MOST_TEXT = 2**22
#: The shell's numbers have 64 bits.
_MOST_NUMBER = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellArguments:
    """Arguments of a script by name.

    Attributes
    ----------
    file
        Name of the script.
    values
        ``--name`` -> value as written, empty if none follows. Leading dashes stay,
        underscores in a name become dashes.
    lists
        ``--name`` -> every word up to the next argument, if there are several.
    """

    file: str
    values: dict[str, str] = field(default_factory=dict)
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    @property
    def names(self) -> frozenset[str]:
        """Names of all arguments."""
        return frozenset(self.values)

    def count(self, name: str, default: int | None = None) -> int:
        """Return a whole number of at least 1.

        Raises
        ------
        InputError
            It is missing and has no default, or is something else.
        """
        if name not in self.values:
            if default is None:
                raise InputError("is missing", file=self.file, field=name)
            return default
        return self._counted(name, self.values[name])

    def counts(self, name: str) -> tuple[int, ...]:
        """Return one or more whole numbers of at least 1; InputError as ``count``."""
        self.count(name)
        return tuple(self._counted(name, text) for text in self.all_values(name))

    def all_values(self, name: str) -> tuple[str, ...]:
        """Return an argument's value and the whole numbers that follow it."""
        if name not in self.values:
            return ()
        more = takewhile(str.isdecimal, self.lists.get(name, ())[1:])
        return (self.values[name], *more)

    def _counted(self, name: str, text: str) -> int:
        if not re.fullmatch("[0-9]{1,9}", text) or int(text) < 1:
            msg = f"is {describe(text)}, expected a whole number of at least 1"
            if re.fullmatch("[0-9]{10,}", text):
                msg += ", of at most 9 digits"
            raise InputError(msg, file=self.file, field=name)
        return int(text)


def has_script(folder: Path, calls: Callable[[ShellArguments], bool]) -> bool:
    """Whether a script of a folder that can be read calls a runtime."""
    for path in _script_paths(folder):
        try:
            if calls(read_script(path)):
                return True
        except InputError:
            continue
    return False


def calling_scripts(
    folder: Path, calls: Callable[[ShellArguments], bool], what: str
) -> list[ShellArguments]:
    """Return the scripts of a folder and its ``nodes`` folder that call a runtime.

    Parameters
    ----------
    calls
        Whether a script's arguments are the runtime's, which are ``what``.

    Raises
    ------
    InputError
        There are none, or they differ in more than the arguments of a node.
    """
    scripts = [one for one in map(read_script, _script_paths(folder)) if calls(one)]
    if not scripts:
        msg = f"holds no script (*.sh, nodes/*.sh) with {what}"
        raise InputError(msg, file=str(folder))
    first = scripts[0]
    for script in scripts[1:]:
        for name in sorted((first.names | script.names) - _OWN):
            if first.all_values(name) != script.all_values(name):
                msg = f"differs from that of {first.file}, expected the same in both"
                raise InputError(msg, file=script.file, field=name)
    return scripts


def _script_paths(folder: Path) -> list[Path]:
    return [*sorted(folder.glob("*.sh")), *sorted(folder.glob("nodes/*.sh"))]


def read_script(path: Path) -> ShellArguments:
    """Read a script's arguments; the last counts if one is given twice.

    Raises
    ------
    InputError
        The file cannot be read, a quote is not closed, or its variables stand for more
        text or larger numbers than a command takes.
    """
    text = read_text(path, "a shell script", MOST_SCRIPT_BYTES)
    try:
        words = list(_Expansion().words(_tokens(text)))
    except ValueError as error:
        msg = f"cannot be read as a shell script: {error}"
        raise InputError(msg, file=str(path)) from error
    values: dict[str, str] = {}
    lists: dict[str, tuple[str, ...]] = {}
    following: list[str] = []
    # Backwards: what follows an argument is then known when the argument comes.
    for word in reversed(words):
        if not _is_name(word):
            following.append(word)
            continue
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        if name not in values:
            values[name] = value if equals else "".join(following[-1:])
            if not equals and len(following) > 1:
                lists[name] = tuple(reversed(following))
        following = []
    return ShellArguments(file=str(path), values=values, lists=lists)


def _is_name(word: str) -> bool:
    return re.match("--?[A-Za-z]", word) is not None


def _tokens(text: str) -> Iterator[str]:
    """Yield words as the shell splits them, arithmetic kept whole."""
    text = _SUM.sub(lambda match: "".join(match[0].split()), text)
    for token in shlex.split(text.replace("\r\n", "\n"), comments=True):
        # The shell drops a backslash at the end of a line, shlex keeps part of it.
        word = token.replace("\\\n", " ").strip("\n")
        if word or not token:
            yield word


class _Expansion:
    """Replaces variables by what was assigned last, up to ``_MOST_TEXT`` in all."""

    def __init__(self) -> None:
        self.known: dict[str, list[str]] = {}
        self.left = _MOST_TEXT

    def words(self, tokens: Iterable[str]) -> Iterator[str]:
        """Yield the words of commands.

        Raises
        ------
        ValueError
            The variables stand for too much text, or for too large a number.
        """
        array: str | None = None
        for token in tokens:
            if array is not None:
                closes = token.endswith(")") and not token.endswith("))")
                word = token[:-1] if closes else token
                if word:
                    self.known[array] += self._replaced(word)
                if closes:
                    array = None
                continue
            match = _ASSIGNMENT.fullmatch(token)
            if match is None:
                yield from self._replaced(token.rstrip(";"))
                continue
            name, more, value = match.groups()
            if value.startswith("("):
                before = self.known.get(name, []) if more else []
                whole = value.endswith(")")
                inner = value[1:-1] if whole else value[1:]
                self.known[name] = before + (self._replaced(inner) if inner else [])
                array = None if whole else name
                continue
            before = self.known.get(name, []) if more else []
            self._spend(before)
            self.known[name] = ["".join([*before, " ".join(self._replaced(value))])]

    def _spend(self, texts: Iterable[str]) -> None:
        """Count text that a variable was replaced by."""
        for text in texts:
            self.left -= len(text) + 1
        if self.left < 0:
            msg = f"its variables stand for more than {_MOST_TEXT} characters"
            raise ValueError(msg)

    def _replaced(self, word: str) -> list[str]:
        """Return a word with its variables replaced; several words of an array."""
        match = _VARIABLE.fullmatch(word)
        if match is not None:
            name = match[1] or match[3]
            if name in self.known:
                self._spend(self.known[name])
                # Without quotes around it, a variable's text is split into words.
                return [
                    word
                    for text in self.known[name]
                    for word in (
                        text.split() if text.lstrip().startswith("-") else [text]
                    )
                ]
        return [_VARIABLE.sub(self._value, _SUM.sub(self._result, word))]

    def _value(self, match: re.Match[str]) -> str:
        name = match[1] or match[3]
        if name in self.known:
            self._spend(self.known[name])
            return " ".join(self.known[name])
        return match[0] if match[2] is None else match[2]

    def _result(self, match: re.Match[str]) -> str:
        """Return a product or quotient of whole numbers; else the text itself."""
        text = _VARIABLE.sub(self._value, match[1] or match[2] or "")
        parts = re.split(r"([*/])", text)
        numbers = [" ".join(self.known.get(part, [part])) for part in parts[::2]]
        if not all(re.fullmatch("[0-9]{1,19}", number) for number in numbers):
            return match[0]
        result = int(numbers[0])
        for sign, number in zip(parts[1::2], map(int, numbers[1:]), strict=True):
            if sign == "/" and not number:
                return match[0]
            result = result * number if sign == "*" else result // number
            if result > _MOST_NUMBER:
                msg = f"{match[0][:40]} is more than a shell's 64 bits hold"
                raise ValueError(msg)
        return str(result)
