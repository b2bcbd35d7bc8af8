"""YAML and JSON text as plain data in which every value knows its file and line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from hetopt.errors import InputError

#: Where a value stands inside a document: keys and list positions from the root.
FieldPath = tuple[str | int, ...]

#: Aliases can make a short file stand for an endless one; no problem is this large.
MAX_VALUES = 100_000

_NULL = "tag:yaml.org,2002:null"
_BOOL = "tag:yaml.org,2002:bool"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_STR = "tag:yaml.org,2002:str"
_SCALARS = frozenset({_NULL, _BOOL, _INT, _FLOAT, _STR})
_CONTAINERS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


class _Loader(yaml.SafeLoader):
    """Scalars of YAML 1.2's core schema: ``no`` and ``1:30`` stay text."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


for _tag, _pattern, _first in (
    (_NULL, r"^(?:~|null|Null|NULL|)$", ["~", "n", "N", ""]),
    (_BOOL, r"^(?:true|True|TRUE|false|False|FALSE)$", list("tTfF")),
    (_INT, r"^[-+]?[0-9]+$", list("-+0123456789")),
    (
        _FLOAT,
        r"^[-+]?(?:(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|\.(?:inf|Inf|INF))$"
        r"|^\.(?:nan|NaN|NAN)$",
        list("-+.0123456789"),
    ),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), _first)


@dataclass(frozen=True, slots=True)
class Place:
    """File, as the user named it, and line from 1."""

    file: str
    line: int


@dataclass(slots=True)
class Document:
    """Plain data (dict, list, str, int, float, bool, None) with places."""

    data: Any
    places: dict[FieldPath, Place] = field(default_factory=dict)

    def place(self, path: FieldPath) -> Place | None:
        """Return the place of the value, or of the nearest value around it."""
        for length in range(len(path), -1, -1):
            found = self.places.get(path[:length])
            if found is not None:
                return found
        return None

    def error(self, path: FieldPath, message: str) -> InputError:
        """Return the error that says ``message`` about the value at ``path``."""
        place = self.place(path)
        return InputError(
            message,
            file=place.file if place else None,
            line=place.line if place else None,
            field=dotted(path),
        )

    def part(self, key: str) -> Document:
        """Return what stands under a key of the root, as a document of its own."""
        places = {
            path[1:]: place for path, place in self.places.items() if path[:1] == (key,)
        }
        return Document(self.data[key], places)

    def replace(self, path: FieldPath, other: Document) -> None:
        """Put another document's data and places where ``path`` leads."""
        target = self.data
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = other.data
        for old in [old for old in self.places if old[: len(path)] == path]:
            del self.places[old]
        for inner, place in other.places.items():
            self.places[path + inner] = place


def dotted(path: FieldPath) -> str | None:
    """Return ``clusters.0.nodes`` for ``("clusters", 0, "nodes")``."""
    text = ".".join(str(part) for part in path)
    # An error stays on one line whatever a key is made of.
    return (text if text.isprintable() else ascii(text)) or None


def load_document(path: str | Path) -> Document:
    """Read a YAML or JSON file; raises InputError for whatever is wrong with it."""
    name = str(path)
    try:
        raw = Path(path).read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", file=name) from None
    except IsADirectoryError:
        msg = "is a directory, expected a YAML file"
        raise InputError(msg, file=name) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot be read: {reason}", file=name) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        msg = f"byte {raw[error.start]:#04x} is not UTF-8 text, expected a YAML file"
        raise InputError(msg, file=name, line=line) from None
    return parse_document(text, name)


def parse_document(text: str, name: str) -> Document:
    """Read YAML or JSON text; ``name`` is what errors call its file."""
    if name.endswith(".json"):
        # JSON permits tabs between tokens and nowhere else; YAML does not.
        text = text.replace("\t", " ")
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        msg = f"is not valid YAML: {what}"
        raise InputError(msg, file=name, line=mark.line + 1 if mark else None) from None
    except yaml.YAMLError as error:
        msg = f"is not valid YAML: {' '.join(str(error).split())}"
        raise InputError(msg, file=name) from None
    except RecursionError:
        msg = "is nested too deeply to be a problem"
        raise InputError(msg, file=name) from None
    if node is None:
        raise InputError("is empty, expected a YAML mapping", file=name, line=1)
    document = Document(None)
    reader = _NodeReader(document, name)
    try:
        document.data = reader.value(node, ())
    except RecursionError:
        msg = "is nested too deeply to be a problem"
        raise InputError(msg, file=name) from None
    return document


class _NodeReader:
    """Turns YAML nodes into plain data and notes where each stands."""

    def __init__(self, document: Document, file: str) -> None:
        self.document = document
        self.file = file
        self.open: set[int] = set()

    def value(self, node: yaml.Node, path: FieldPath) -> Any:
        line = node.start_mark.line + 1
        # A mapping's key has noted the line already: a block value starts below it.
        self.document.places.setdefault(path, Place(self.file, line))
        if len(self.document.places) > MAX_VALUES:
            msg = f"holds more than {MAX_VALUES} values; are its aliases right?"
            raise InputError(msg, file=self.file, line=line)
        if id(node) in self.open:
            msg = "contains itself through an alias"
            raise self.error(path, line, msg)
        if node.tag not in _SCALARS | _CONTAINERS:
            raise self.error(path, line, f"has the tag {node.tag!r}, expected none")
        self.open.add(id(node))
        result: Any
        if isinstance(node, yaml.MappingNode):
            result = self.mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            result = [
                self.value(item, (*path, index))
                for index, item in enumerate(node.value)
            ]
        else:
            result = self.scalar(node, path, line)
        self.open.discard(id(node))
        return result

    def mapping(self, node: yaml.MappingNode, path: FieldPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if key_node.tag not in _SCALARS or key_node.tag == _NULL:
                raise self.error(path, line, "has a key that is not text")
            # Names such as 2080 need no quotes: every key is taken as it is written.
            key = str(key_node.value)
            where = (*path, key)
            if key in result:
                first = self.document.places[where].line
                msg = f"is given twice, first on line {first}"
                raise self.error(where, line, msg)
            if key == "<<":
                raise self.error(where, line, "merge keys (<<) are not supported")
            self.document.places[where] = Place(self.file, line)
            result[key] = self.value(value_node, where)
        return result

    def scalar(self, node: yaml.Node, path: FieldPath, line: int) -> Any:
        text = str(node.value)
        try:
            if node.tag == _NULL:
                return None
            if node.tag == _BOOL:
                return text.lower() == "true"
            if node.tag == _INT:
                return int(text)
            if node.tag == _FLOAT:
                return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            msg = f"is {text[:40]!r}, expected {node.tag.rsplit(':', 1)[-1]}"
            raise self.error(path, line, msg) from None
        return text

    def error(self, path: FieldPath, line: int, message: str) -> InputError:
        return InputError(message, file=self.file, line=line, field=dotted(path))
