"""Reads what a Python file of TorchTitan 0.3 configures, without running it.

A configuration is a function that returns ``Trainer.Config(...)``. Literals, names,
calls of the file's own functions, and assignments to a configuration's fields are
followed; other expressions are kept as text.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.export.shared.python import followed, parse_program

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

#: The most nested calls of a file's functions.
_DEEPEST = 20
#: The most statements that are followed in one file.
_MOST_STATEMENTS = 20_000
TRAINER = "Trainer.Config"


class Computed(str):
    """The text of an expression that is not followed."""

    __slots__ = ()


@dataclass(slots=True)
class Made:
    """What a call of something outside the file makes.

    Attributes
    ----------
    name
        The last two parts of the name that is called.
    fields
        Keyword arguments, ``**`` before the name of a mapping of them, and what is
        assigned to attributes afterwards.
    given
        Positional arguments.
    base
        The object whose method is called, if a call made it.
    """

    name: str
    fields: dict[str, Any] = field(default_factory=dict)
    given: list[Any] = field(default_factory=list)
    base: Made | None = None


@dataclass(frozen=True, slots=True)
class Repeated:
    """A list of ``count`` items that differ only in a running number."""

    item: Any
    count: int


class Program:
    """A parsed file.

    Attributes
    ----------
    undecided
        Conditions and loops whose lines are all followed though they may not all run.
    sources
        Name -> module that it is imported from, with leading dots.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        tree = parse_program(path)
        self.undecided: dict[str, None] = {}
        self.sources: dict[str, str] = {}
        self._left = _MOST_STATEMENTS
        self._depth = 0
        self._functions = {
            each.name: each for each in tree.body if isinstance(each, ast.FunctionDef)
        }
        for each in ast.walk(tree):
            if isinstance(each, ast.ImportFrom):
                module = "." * each.level + (each.module or "")
                names = (alias.asname or alias.name for alias in each.names)
                self.sources |= dict.fromkeys(names, module)
        self._constants: dict[str, Any] = {}
        kept = [each for each in tree.body if isinstance(each, ast.Assign)]
        with followed(self.file):
            self._run(kept, self._constants)

    def configurations(self) -> list[str]:
        """Return the functions that take nothing and return a configuration."""
        return [
            name
            for name, each in self._functions.items()
            if not each.args.args and isinstance(self._quietly(name), Made)
        ]

    def configuration(self, name: str) -> Made:
        """Return what a function makes; InputError if that is no configuration."""
        if name not in self._functions:
            found = ", ".join(self.configurations()[:5]) or "none"
            raise self.wrong(name, f"is not in the file, which configures {found}")
        with followed(self.file):
            made = self._call(self._functions[name], {})
        if isinstance(made, Made) and made.name == TRAINER:
            return made
        what = made.name if isinstance(made, Made) else str(made)[:60]
        msg = f"starts from {what}, expected {TRAINER} or a function of this file"
        raise self.wrong(name, msg)

    def wrong(self, name: str, message: str) -> InputError:
        """Return the error that says ``message`` about a function."""
        return InputError(message, file=self.file, field=name)

    def _quietly(self, name: str) -> Made | None:
        before = dict(self.undecided)
        try:
            return self.configuration(name)
        except InputError:
            return None
        finally:
            self.undecided = before

    def _call(self, function: ast.FunctionDef, given: dict[str, Any]) -> Any:
        if self._depth >= _DEEPEST:
            raise self.wrong(function.name, "calls itself, or too many others")
        names = [each.arg for each in function.args.args + function.args.kwonlyargs]
        known = {name: given.get(name, Computed(name)) for name in names}
        self._depth += 1
        try:
            return self._run(function.body, known)
        finally:
            self._depth -= 1

    def _run(self, body: Iterable[ast.stmt], known: dict[str, Any]) -> Any:
        """Follow statements; return what they return, None if nothing."""
        found = None
        for statement in body:
            self._left -= 1
            if self._left < 0:
                msg = "computes its configuration: write out the values"
                raise InputError(msg, file=self.file)
            match statement:
                case ast.Return(value=ast.expr() as value):
                    return self._value(value, known)
                case ast.Assign(targets=targets, value=value):
                    made = self._value(value, known)
                    for target in targets:
                        self._assign(target, made, known)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._assign(target, self._value(value, known), known)
                case ast.If() | ast.For() | ast.While() | ast.With() | ast.Try():
                    text = ast.unparse(statement).partition("\n")[0]
                    self.undecided[text[:80].rstrip(":")] = None
                    inner = [*statement.body, *getattr(statement, "orelse", ())]
                    found = self._run(inner, known) or found
                case ast.AugAssign(target=target):
                    self._assign(target, Computed(ast.unparse(statement)), known)
                case _:
                    pass
        return found

    def _assign(self, target: ast.expr, made: Any, known: dict[str, Any]) -> None:
        """Assign to a name, to several, or to a field of what a call made."""
        if isinstance(target, ast.Name):
            known[target.id] = made
        elif isinstance(target, ast.Tuple):
            several = isinstance(made, list) and len(made) == len(target.elts)
            for at, each in enumerate(target.elts):
                part = made[at] if several else Computed(ast.unparse(each))
                self._assign(each, part, known)
        elif isinstance(target, ast.Attribute):
            of = self._value(target.value, known, fields=True)
            if isinstance(of, Made):
                of.fields[target.attr] = made

    def _value(
        self, node: ast.expr, known: dict[str, Any], *, fields: bool = False
    ) -> Any:
        """Return what an expression stands for.

        Parameters
        ----------
        fields
            Whether a missing field stands for a section with its defaults.
        """
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                for names in (known, self._constants):
                    if name in names:
                        return names[name]
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item, known) for item in items]
            case ast.UnaryOp(
                op=ast.USub(), operand=ast.Constant(value=int() | float())
            ):
                return ast.literal_eval(node)
            case ast.Attribute(value=of, attr=name):
                made = self._value(of, known, fields=fields)
                if isinstance(made, Made):
                    if fields:
                        made.fields.setdefault(name, Made(f"{name} by default"))
                    return made.fields.get(name, Computed(ast.unparse(node)))
            case ast.ListComp():
                return self._repeated(node, known)
            case ast.Call():
                return self._made(node, known)
        return Computed(ast.unparse(node))

    def _repeated(self, node: ast.ListComp, known: dict[str, Any]) -> Any:
        """Return the list that a comprehension over ``range(count)`` makes."""
        loop = node.generators[0]
        match loop.iter:
            case ast.Call(func=ast.Name(id="range"), args=[count]):
                number = self._value(count, known)
                if type(number) is int and len(node.generators) == 1 and not loop.ifs:
                    return Repeated(self._value(node.elt, dict(known)), number)
        return Computed(ast.unparse(node))

    def _made(self, node: ast.Call, known: dict[str, Any]) -> Any:
        fields: dict[str, Any] = {}
        for each in node.keywords:
            value = self._value(each.value, known)
            name = each.arg or f"**{ast.unparse(each.value)[:60]}"
            fields[name] = value
        function = node.func
        given = [self._value(each, known) for each in node.args]
        if isinstance(function, ast.Name) and function.id in self._functions:
            own = self._functions[function.id]
            names = (each.arg for each in own.args.args)
            return self._call(own, dict(zip(names, given, strict=False)) | fields)
        base = None
        if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Call):
            made = self._value(function.value, known)
            base = made if isinstance(made, Made) else None
            return Made(function.attr, fields, given, base)
        name = ".".join(ast.unparse(function).split(".")[-2:])
        return Made(name, fields, given)
