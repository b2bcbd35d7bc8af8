"""The commands that a shell script runs, with variables replaced by their values.

Handles assignments, arrays, ``${NAME}``, ``${NAME:-default}``, ``${ARRAY[@]}``, integer
arithmetic, here-documents, tests of known values (``if``, ``while``, ``[ ] &&``). In
all other conditions and loops every line is read as if it ran once, and commands that
use variables from there record it. The script gets no arguments.
"""

from __future__ import annotations

import ast
import operator
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from hetopt.export.shared.shell.words import Token, tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=(.*)", re.DOTALL)
_VARIABLE = re.compile(
    r"\$(?:\{(#|[A-Za-z_]\w*|[0-9]+)(?:\[[@*]\])?(?::?[-=]\"?([^{}\"]*)\"?)?\}"
    r"|(#|[A-Za-z_]\w*))"
)
#: Arithmetic, in today's and in the old spelling.
_SUM = re.compile(r"\$\(\(([^()]*)\)\)|\$\[([^][]*)\]")
_MOST_TEXT = 2**22
#: The shell's numbers have 64 bits.
_MOST_NUMBER = 2**63 - 1
_MOST_SUM = 400
_ARITHMETIC: dict[type, Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_TESTS: dict[str, Callable[[str, str], bool]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}
_NUMBER_TESTS: dict[str, Callable[[int, int], bool]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-gt": operator.gt,
    "-ge": operator.ge,
    "-lt": operator.lt,
    "-le": operator.le,
}
_PASSED = frozenset({"then", "else", "do", "{", "export", "local", "readonly"})


@dataclass(slots=True)
class _Block:
    """A condition or loop: whether its lines run, and whether that is certain."""

    text: str
    runs: bool
    decided: bool
    #: Whether a branch of an ``if`` ran already, for certain.
    done: bool
    outer: bool


class _Asked(NamedTuple):
    """An unfinished condition: its value so far, and what joins the rest."""

    kind: str
    found: bool | None
    end: str
    text: str


class Command(NamedTuple):
    """The words of a command.

    ``undecided`` has the conditions and loops that hetopt cannot decide and that set
    variables of the command.
    """

    words: tuple[str, ...]
    undecided: tuple[str, ...]


@dataclass(slots=True)
class Script:
    """What a script runs.

    Attributes
    ----------
    commands
        In the order of their lines.
    documents
        File -> text of the here-document that goes there.
    """

    commands: list[Command] = field(default_factory=list)
    documents: dict[str, str] = field(default_factory=dict)


def run(text: str) -> Script:
    """Return the commands of a script.

    Raises
    ------
    ValueError
        A quote is not closed, or variables stand for too much text or too large
        numbers.
    """
    shell = _Shell()
    command: list[Token] = []
    for token in tokens(text):
        if token.kind == "end":
            shell.command(command, token.text)
            command = []
        elif token.kind == "document":
            shell.document(token.text)
        else:
            command.append(token)
    return shell.script


class _Shell:
    """Replaces variables by their last value, up to ``_MOST_TEXT`` letters in all."""

    def __init__(self) -> None:
        self.script = Script()
        self._known: dict[str, list[str]] = {"#": ["0"]}
        self._left = _MOST_TEXT
        self._blocks: list[_Block] = []
        self._into = ""
        self._asked: _Asked | None = None
        #: Variable -> the undecided conditions and loops that its value depends on.
        self._doubts: dict[str, tuple[str, ...]] = {}
        #: Those of all variables that were replaced since the command began.
        self._met: dict[str, None] = {}

    def document(self, text: str) -> None:
        """Store a here-document for the file named last."""
        if self._into:
            self._spend([text])
            self.script.documents[self._into] = self._text(text)

    def command(self, command: list[Token], end: str) -> None:
        """Run one command, which ends with the character ``end``."""
        if self._asked is not None and command:
            self._ask(self._asked.kind, command, end)
            return
        while command and command[0].text in _PASSED | {"if", "elif", "while"}:
            word = command.pop(0).text
            if word in ("if", "elif", "while"):
                self._ask(word, command, end)
                return
            if word == "else":
                self._turn(True)
        first = command[0].text if command else ""
        if first in ("for", "case", "until", "select"):
            words = " ".join(token.text for token in command)
            outer = self._runs
            self._blocks.append(_Block(words, outer, False, False, outer))
            return
        if first in ("fi", "done", "esac") and self._blocks:
            self._blocks.pop()
            command = command[1:]
        if first in ("[", "[[") and end in "&|":
            self._ask(end, command, end)
        elif command and self._runs:
            self._execute(command)

    def _ask(self, kind: str, command: list[Token], end: str) -> None:
        """Read a test of a condition; if the condition is complete, enter its block.

        ``kind`` is the keyword before it or, without one, the operator after it, as in
        ``test && command``.
        """
        found = self._test(command)
        text = " ".join(token.text for token in command)
        before, self._asked = self._asked, None
        if kind in ("&", "|"):
            if before is None:
                self._asked = _Asked(kind, found, end, text)
            elif command[0].text in ("[", "[["):
                # A chain of tests.
                self._asked = _Asked(kind, None, end, f"{before.text} {text}")
            else:
                self._execute_if(before, command)
            return
        if before is not None:
            text = f"{before.text} {2 * before.end} {text}"
            decides = before.end == "|"
            if decides in (before.found, found):
                found = decides
            elif before.found is None:
                found = None
        if end in ("&", "|"):
            self._asked = _Asked(kind, found, end, text)
        elif kind == "elif":
            self._turn(found)
        else:
            runs = self._runs and found is not False
            block = _Block(text, runs, found is not None, bool(found), self._runs)
            self._blocks.append(block)

    def _execute_if(self, asked: _Asked, command: list[Token]) -> None:
        """Run a command after a test, unless the test excludes it."""
        found = asked.found
        if found is not None and found != (asked.kind == "&"):
            return
        if self._runs:
            block = _Block(asked.text, True, found is not None, True, True)
            self._blocks.append(block)
            self._execute(command)
            self._blocks.remove(block)

    @property
    def _runs(self) -> bool:
        return self._blocks[-1].runs if self._blocks else True

    def _turn(self, found: bool | None) -> None:
        """Go to the next branch of an ``if``, whose own condition is ``found``."""
        if not self._blocks:
            return
        block = self._blocks[-1]
        if not block.decided:
            return
        block.runs = block.outer and not block.done and found is not False
        block.decided = block.done or found is not None
        block.done = block.done or bool(found)

    def _test(self, command: list[Token]) -> bool | None:
        """Return the result of a single test; None if it is not known."""
        words = [" ".join(self._replaced(token)) for token in command]
        if len(words) < 3 or (words[0], words[-1]) not in (("[", "]"), ("[[", "]]")):
            return None
        inner = words[1:-1]
        no = inner[0] == "!" and len(inner) > 1
        inner = inner[1:] if no else inner
        if any("$" in word or "`" in word for word in inner):
            return None
        found: bool | None = None
        if len(inner) == 2 and inner[0] in ("-z", "-n"):
            found = (inner[1] == "") == (inner[0] == "-z")
        elif len(inner) == 3 and inner[1] in _TESTS and "*" not in inner[2]:
            found = _TESTS[inner[1]](inner[0], inner[2])
        elif re.fullmatch("-?[0-9]{1,18} -[a-z]{2} -?[0-9]{1,18}", " ".join(inner)):
            compares = _NUMBER_TESTS.get(inner[1])
            found = compares and compares(int(inner[0]), int(inner[2]))
        return found if found is None else found != no

    def _execute(self, command: list[Token]) -> None:
        """Carry out assignments, and store the other words as a command."""
        self._met = {}
        words: list[str] = []
        array: tuple[str, list[str]] | None = None
        into = False
        for token in command:
            if into:
                self._into, into = self._text(token.text), False
            elif token.kind == "into":
                into = True
            elif token.kind == "array":
                name, more, _ = token.text.partition("+")
                array = (name.rstrip("="), [])
                if more and name in self._known:
                    self._meet(name)
                    array[1].extend(self._known[name])
            elif token.kind == "close" and array is not None:
                self._assign(*array)
                array = None
            elif array is not None:
                array[1].extend(self._replaced(token))
            elif match := _ASSIGNMENT.fullmatch(token.text):
                name, more, value = match.groups()
                before = ""
                if more and name in self._known:
                    self._meet(name)
                    before = "".join(self._known[name])
                self._assign(name, [before + self._text(value)])
            else:
                words += self._replaced(token)
        if words:
            self.script.commands.append(Command(tuple(words), tuple(self._met)))

    def _assign(self, name: str, value: list[str]) -> None:
        self._known[name] = value
        blocks = (block.text for block in self._blocks if not block.decided)
        self._doubts[name] = tuple(dict.fromkeys((*self._met, *blocks)))

    def _meet(self, name: str) -> None:
        """Record that a variable is replaced, and what its value depends on."""
        self._spend(self._known[name])
        self._met |= dict.fromkeys(self._doubts.get(name, ()))

    def _spend(self, texts: Iterable[str]) -> None:
        """Count the text of a replaced variable; ValueError above the limit."""
        for text in texts:
            self._left -= len(text) + 1
        if self._left < 0:
            msg = f"its variables stand for more than {_MOST_TEXT} characters"
            raise ValueError(msg)

    def _replaced(self, token: Token) -> list[str]:
        """Return the words that a token expands to."""
        match = _VARIABLE.fullmatch(token.text)
        name = (match[1] or match[3]) if match else ""
        if match and name in self._known:
            self._meet(name)
            texts = list(self._known[name])
        else:
            texts = [self._text(token.text)]
        splits = match is not None and token.kind == "word"
        return [word for text in texts for word in _split(text, splits)]

    def _text(self, word: str) -> str:
        """Return a word with its variables and arithmetic replaced."""
        for _ in range(5):
            before = word
            word = _VARIABLE.sub(self._value, _SUM.sub(self._result, word))
            if word == before:
                break
        return word

    def _value(self, match: re.Match[str]) -> str:
        name = match[1] or match[3]
        if name in self._known:
            self._meet(name)
            return " ".join(self._known[name])
        return match[0] if match[2] is None else match[2]

    def _result(self, match: re.Match[str]) -> str:
        """Return the value of integer arithmetic; the text itself for anything else."""
        text = match[1] or match[2] or ""
        if len(text) > _MOST_SUM:
            return match[0]
        text = _VARIABLE.sub(self._value, text).strip()
        try:
            tree = ast.parse(text.replace("/", "//"), mode="eval").body
            return str(self._number(tree, match[0]))
        except (SyntaxError, LookupError, ZeroDivisionError, RecursionError):
            return match[0]

    def _number(self, tree: ast.expr, whole: str) -> int:
        """Return the value of an expression; LookupError if it is not arithmetic."""
        match tree:
            case ast.Constant(value=int() as number):
                pass
            case ast.Name(id=name):
                self._met |= dict.fromkeys(self._doubts.get(name, ()))
                text = self._known[name][0]
                if not re.fullmatch("[0-9]{1,19}", text):
                    raise LookupError
                number = int(text)
            case ast.BinOp(left=left, op=op, right=right):
                number = _ARITHMETIC[type(op)](
                    self._number(left, whole), self._number(right, whole)
                )
            case _:
                raise LookupError
        if abs(number) > _MOST_NUMBER:
            msg = f"{whole[:40]} is more than a shell's 64 bits hold"
            raise ValueError(msg)
        return number


def _split(text: str, splits: bool) -> Iterator[str]:
    """Yield the words of a text.

    Parameters
    ----------
    splits
        Whether the shell splits it, as the value of an unquoted variable. Other text
        with options is split too: it is an option with its value, or a command that
        another command runs.
    """
    if not splits and not re.search(r"(?:^|\s)-{1,2}[A-Za-z]\S*", text):
        yield text
        return
    if not re.search(r"\s", text):
        if text or not splits:
            yield text
        return
    if len(text) < 2**17 and re.search("['\"]", text):
        try:
            yield from shlex.split(text)
        except ValueError:
            yield from text.split()
        return
    yield from text.split()
