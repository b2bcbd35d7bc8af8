"""YAML and JSON text as plain data in which every value knows its file and line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from hetopt.base.reading import MOST_DIGITS, read_text
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: Path of a value inside a document: keys and list positions from the root.
FieldPath = tuple[str | int, ...]

#: Aliases can make a short file expand without end; no problem is this large.
MAX_VALUES = 100_000
#: No problem or experiment is nested this deep.
MAX_DEPTH = 64
_TOO_DEEP = "is nested too deeply to be a problem"
#: Message of PyYAML's scanner in C, since 6.0.4, about a thousand levels: it counts
#: them before their values are read.
_TOO_DEEP_FOR_C = "exceeded maximum nesting depth"

#: In C where PyYAML was built with it: ten times faster.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: PyYAML's types do not declare the attributes of each kind of event.
_Event = Any

#: Begins the comment of each question of ``hetopt inventory``.
QUESTION = "QUESTION: "
#: A field below a question, and the placeholder of a value.
_ASKED = re.compile(r"#\s+([a-z_]+):")
_PLACEHOLDER = re.compile(r"<[^<>]*>")

#: Most characters of a key that an error shows.
_MOST_KEY = 80

_NULL = "tag:yaml.org,2002:null"
_BOOL = "tag:yaml.org,2002:bool"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_STR = "tag:yaml.org,2002:str"
_SCALARS = frozenset({_NULL, _BOOL, _INT, _FLOAT, _STR})
_CONTAINERS = frozenset({"tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


class _Resolver(yaml.resolver.Resolver):
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
    _Resolver.add_implicit_resolver(_tag, re.compile(_pattern), _first)


@dataclass(frozen=True, slots=True)
class Place:
    """File, as the user named it, and line from 1."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Question:
    """A question of ``hetopt inventory``: its place, and the field it asks for."""

    place: Place
    field: str


@dataclass(slots=True)
class Document:
    """Plain data (dict, list, str, int, float, bool, None) with places.

    ``questions`` are those that are still comments: nobody has answered them.
    """

    data: Any
    places: dict[FieldPath, Place] = field(default_factory=dict)
    questions: list[Question] = field(default_factory=list)

    def place(self, path: FieldPath) -> Place | None:
        """Return the place of the value, or of the nearest value around it."""
        for length in range(len(path), -1, -1):
            found = self.places.get(path[:length])
            if found is not None:
                return found
        return None

    def error(self, path: FieldPath, message: str) -> InputError:
        """Return the error with ``message`` about the value at ``path``."""
        place = self.place(path)
        message = self._unanswered(path, place) or message
        return InputError(
            message,
            file=place.file if place else None,
            line=place.line if place else None,
            field=dotted(path),
        )

    def part(self, key: str) -> Document:
        """Return the value of a key of the root as a document of its own."""
        places = {
            path[1:]: place for path, place in self.places.items() if path[:1] == (key,)
        }
        return Document(self.data[key], places, self.questions)

    def replace(self, path: FieldPath, other: Document) -> None:
        """Replace the value at ``path`` by another document, with its places."""
        target = self.data
        for key in path[:-1]:
            target = target[key]
        target[path[-1]] = other.data
        for old in [old for old in self.places if old[: len(path)] == path]:
            del self.places[old]
        for inner, place in other.places.items():
            self.places[path + inner] = place
        self.questions += other.questions

    def _unanswered(self, path: FieldPath, place: Place | None) -> str | None:
        """Return a message if an inventory's question about the field is open."""
        value = self.data
        for key in path:
            inside = isinstance(value, dict | list) and key in _keys(value)
            value = value[key] if inside else None
        if isinstance(value, str) and _PLACEHOLDER.fullmatch(value.strip()):
            return f"is not answered: put a value in place of {value.strip()}"
        if value is not None or place is None or not path:
            return None
        after = None
        if len(path) > 1 and isinstance(path[-2], int):
            after = self.places.get((*path[:-2], path[-2] + 1))
        lines = [
            question.place.line
            for question in self.questions
            if question.field == path[-1]
            and question.place.file == place.file
            and question.place.line >= place.line
            and (after is None or question.place.line < after.line)
        ]
        if not lines:
            return None
        return f"is missing: the question on line {min(lines)} is not answered"


def _keys(value: dict[str, Any] | list[Any]) -> Iterable[str | int]:
    return value if isinstance(value, dict) else range(len(value))


def _questions(text: str, file: str) -> Iterator[Question]:
    """Yield the fields in the comments below each ``# QUESTION:``."""
    asked: int | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        comment = line.strip()
        if not comment.startswith("#"):
            asked = None
        elif comment.startswith(f"# {QUESTION}"):
            asked = number
        elif asked is not None and (match := _ASKED.match(comment)):
            yield Question(Place(file, asked), match[1])


def dotted(path: FieldPath) -> str | None:
    """Return ``clusters.0.nodes`` for ``("clusters", 0, "nodes")``."""
    text = ".".join(str(part)[:_MOST_KEY] for part in path)
    # An error stays on one line even if a key has line breaks.
    return (text if text.isprintable() else ascii(text)) or None


def load_document(path: str | Path, most_values: int = MAX_VALUES) -> Document:
    """Read a YAML or JSON file; InputError if it cannot be read."""
    text = read_text(path, "a YAML file")
    return parse_document(text, str(path), most_values)


def parse_document(text: str, name: str, most_values: int = MAX_VALUES) -> Document:
    """Read YAML or JSON text; errors give ``name`` as its file."""
    if name.endswith(".json"):
        # JSON permits tabs between tokens and nowhere else; YAML does not.
        text = text.replace("\t", " ")
    try:
        document = _EventReader(text, name, most_values).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(part for part in (error.context, error.problem) if part)
        msg = _TOO_DEEP if _TOO_DEEP_FOR_C in what else f"is not valid YAML: {what}"
        raise InputError(msg, file=name, line=mark.line + 1 if mark else None) from None
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        msg = f"is not valid YAML: {' '.join(str(error).split())}"
        raise InputError(msg, file=name) from None
    if QUESTION in text:
        document.questions += _questions(text, name)
    return document


class _EventReader:
    """Turns YAML events into plain data and notes the place of each value.

    Values and levels are counted while reading, so that reading stops as soon as a text
    is too large or too deep.
    """

    def __init__(self, text: str, file: str, most_values: int) -> None:
        self.file = file
        self.most_values = most_values
        self.places: dict[FieldPath, Place] = {}
        self.resolver: Any = _Resolver()
        self.source: Iterator[_Event] = yaml.parse(text, Loader=_LOADER)
        # Anchor -> its value and where that stands; None until the value has ended.
        self.anchored: dict[str, tuple[Any, FieldPath] | None] = {}

    def document(self) -> Document:
        """Return the only document of the text."""
        next(self.source)
        if isinstance(next(self.source), yaml.StreamEndEvent):
            msg = "is empty, expected a YAML mapping"
            raise InputError(msg, file=self.file, line=1)
        data = self.value(next(self.source), ())
        next(self.source)
        after = next(self.source)
        if not isinstance(after, yaml.StreamEndEvent):
            msg = "is not valid YAML: expected a single document, found another"
            raise self.error((), after.start_mark.line + 1, msg)
        return Document(data, self.places)

    def note(self, path: FieldPath, line: int) -> None:
        """Keep the line of a value, unless its mapping's key has given it one."""
        self.places.setdefault(path, Place(self.file, line))
        if len(self.places) > self.most_values:
            msg = f"holds more than {self.most_values} values; are its aliases right?"
            raise InputError(msg, file=self.file, line=line)
        if len(path) > MAX_DEPTH:
            raise InputError(_TOO_DEEP, file=self.file, line=line)

    def value(self, event: _Event, path: FieldPath) -> Any:
        """Return the value that begins with an event."""
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            return self.aliased(str(event.anchor), path, line)
        self.note(path, line)
        anchor = event.anchor
        if anchor is None:
            return self.plain(event, path, line)
        if anchor in self.anchored:
            msg = f"is not valid YAML: found the anchor {anchor[:40]!r} twice"
            raise self.error(path, line, msg)
        self.anchored[anchor] = None
        result = self.plain(event, path, line)
        self.anchored[anchor] = result, path
        return result

    def aliased(self, name: str, path: FieldPath, line: int) -> Any:
        """Return a copy of the value that an alias names."""
        if name not in self.anchored:
            msg = f"is not valid YAML: found undefined alias {name[:40]!r}"
            raise self.error(path, line, msg)
        named = self.anchored[name]
        if named is None:
            raise self.error(path, line, "contains itself through an alias")
        return self.copied(*named, path)

    def copied(self, value: Any, origin: FieldPath, path: FieldPath) -> Any:
        """Return a copy whose parts have the lines of those at ``origin``."""
        self.note(path, self.places[origin].line)
        if isinstance(value, dict):
            return {
                key: self.copied(part, (*origin, key), (*path, key))
                for key, part in value.items()
            }
        if isinstance(value, list):
            return [
                self.copied(part, (*origin, at), (*path, at))
                for at, part in enumerate(value)
            ]
        return value

    def plain(self, event: _Event, path: FieldPath, line: int) -> Any:
        """Return a value that is no alias."""
        tag = self.tag(event)
        if tag not in _SCALARS | _CONTAINERS:
            raise self.error(path, line, f"has the tag {tag!r}, expected none")
        if isinstance(event, yaml.MappingStartEvent):
            return self.mapping(path)
        if isinstance(event, yaml.SequenceStartEvent):
            result: list[Any] = []
            while not isinstance(item := next(self.source), yaml.SequenceEndEvent):
                result.append(self.value(item, (*path, len(result))))
            return result
        return self.scalar(str(event.value), tag, path, line)

    def tag(self, event: _Event) -> str:
        """Return the tag that an event gives its value, or that its text implies."""
        if event.tag is not None and event.tag != "!":
            return str(event.tag)
        if isinstance(event, yaml.ScalarEvent):
            kind = yaml.ScalarNode
            return str(self.resolver.resolve(kind, event.value, event.implicit))
        return "tag:yaml.org,2002:map"

    def mapping(self, path: FieldPath) -> dict[str, Any]:
        result: dict[str, Any] = {}
        while not isinstance(event := next(self.source), yaml.MappingEndEvent):
            line = event.start_mark.line + 1
            if (
                not isinstance(event, yaml.ScalarEvent)
                or (tag := self.tag(event)) not in _SCALARS
                or tag == _NULL
            ):
                raise self.error(path, line, "has a key that is not text")
            # Names such as 2080 need no quotes: every key is taken as text.
            key = str(event.value)
            where = (*path, key)
            if key in result:
                first = self.places[where].line
                msg = f"is given twice, first on line {first}"
                raise self.error(where, line, msg)
            if key == "<<":
                raise self.error(where, line, "merge keys (<<) are not supported")
            self.places[where] = Place(self.file, line)
            result[key] = self.value(next(self.source), where)
        return result

    def scalar(self, text: str, tag: str, path: FieldPath, line: int) -> Any:
        if tag == _INT and len(text) > MOST_DIGITS:
            msg = f"is a number of more than {MOST_DIGITS} digits"
            raise self.error(path, line, msg)
        try:
            if tag == _NULL:
                return None
            if tag == _BOOL:
                return text.lower() == "true"
            if tag == _INT:
                return int(text)
            if tag == _FLOAT:
                return float(text.replace(".inf", "inf").replace(".nan", "nan"))
        except ValueError:
            msg = f"is {text[:40]!r}, expected {tag.rsplit(':', 1)[-1]}"
            raise self.error(path, line, msg) from None
        return text

    def error(self, path: FieldPath, line: int, message: str) -> InputError:
        return InputError(message, file=self.file, line=line, field=dotted(path))
