"""What a reader of files says to every document with one change: its snapshot.

``HETOPT_UPDATE_SNAPSHOTS=1 pytest tests/readers`` writes the snapshots again.
"""

from __future__ import annotations

import difflib
import json
import os
import pathlib
import re
import reprlib
from collections import defaultdict
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.words import describe
from hetopt.errors import InputError
from hetopt.problem.document.document import dotted, load_document
from tests.mutations import Mutation, Path, mutations, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

DOCUMENTS = pathlib.Path(__file__).parent / "documents"
SNAPSHOTS = pathlib.Path(__file__).parent / "snapshots"
UPDATE = "HETOPT_UPDATE_SNAPSHOTS"


def document(name: str) -> Any:
    """Return a valid document; CSV and lines of words as their text."""
    for path in (DOCUMENTS / f"{name}.csv", DOCUMENTS / f"{name}.txt"):
        if path.exists():
            return path.read_text("utf-8")
    return load_document(path.with_suffix(".yaml")).data


@dataclass(frozen=True)
class Reader:
    """A reader of files.

    Attributes
    ----------
    read
        Returns what the reader makes of a document, to be compared.
    document
        A valid one that has as many of the fields as it can; None: the one of its name.
    file
        The name of a file that has the document, whose path ``read`` takes instead.
    beside
        Other files that are read with it, with their texts by path.
    within
        Places at and below which the document is changed.
    closed
        Keys whose values are only replaced as a whole: other snapshots have them.
    changes
        Returns the documents with one change at or below a place.
    elsewhere
        Keys that other fields refer to or need, with a pattern of the refusals that
        name those fields instead.
    """

    name: str
    read: Callable[[Any], Any]
    _: KW_ONLY
    document: Any = None
    file: str = ""
    beside: Mapping[str, str] = field(default_factory=dict)
    within: tuple[Path, ...] = ((),)
    closed: tuple[str, ...] = ()
    changes: Callable[..., Iterable[Mutation]] = mutations
    elsewhere: dict[str, str] = field(default_factory=dict)


def check(reader: Reader, folder: pathlib.Path) -> None:
    """Compare what a reader says with its snapshot, or write that."""
    if reader.file:
        reader = replace(reader, read=_of_file(reader, folder))
    path = SNAPSHOTS / f"{reader.name}.txt"
    found = "".join(f"{line}\n" for line in said(reader))
    found = re.sub("[0-9a-f]{64}", "DIGEST", found.replace(str(folder), "FOLDER"))
    if os.environ.get(UPDATE):
        path.write_text(found, "utf-8")
    known = path.read_text("utf-8") if path.exists() else ""
    if found != known:
        lines = difflib.unified_diff(
            known.splitlines(), found.splitlines(), str(path), "now", lineterm="", n=1
        )
        told = "\n".join(lines)
        pytest.fail(f"{told}\n{UPDATE}=1 writes it again", pytrace=False)


def _of_file(reader: Reader, folder: pathlib.Path) -> Callable[[Any], Any]:
    """Return a reader of documents that it finds in a file."""
    for path, text in reader.beside.items():
        _write(folder / path, text)

    def read(given: Any) -> Any:
        text = given if isinstance(given, str) else json.dumps(given)
        if reader.file.endswith(".jsonl") and isinstance(given, list):
            text = "".join(f"{json.dumps(line)}\n" for line in given)
        _write(folder / reader.file, text)
        return reader.read(folder / reader.file)

    return read


def _write(path: pathlib.Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def said(reader: Reader) -> Iterator[str]:
    """Yield places, then what is said of each change there, one line an answer."""
    right_one = reader.document or document(reader.name)
    right = reader.read(right_one)
    unclear = []
    answers: defaultdict[str, defaultdict[str, list[str]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for mutation in chain.from_iterable(
        reader.changes(right_one, place, reader.closed) for place in reader.within
    ):
        place = dotted(mutation.path) or "the whole"
        try:
            answer = _answer(reader, mutation, right)
        except AssertionError as error:
            unclear.append(f"{place}: {mutation.what}: {error}")
            continue
        except Exception as error:
            error.add_note(f"{reader.name}: {place}: {mutation.what}")
            raise
        answers[place][answer].append(mutation.what)
    assert not unclear, "\n".join(unclear)
    lines = {
        place: [f"    {', '.join(whats)}: {answer}" for answer, whats in own.items()]
        for place, own in answers.items()
    }
    for own, places in groupby(lines, key=lambda place: lines[place]):
        yield from places
        yield from own


def _answer(reader: Reader, mutation: Mutation, right: Any) -> str:
    try:
        found = reader.read(mutation.document)
    except InputError as error:
        _ensure_clear(error, mutation, reader.elsewhere)
        own = dotted(mutation.path) or ""
        field = "" if error.field in (None, own) else f"{error.field}: "
        if own:
            field = re.sub(rf"^{re.escape(own)}(?=\.)", "", field)
        return f"refused, {field}{_without_value(error.message, mutation.value)}"
    return "the same" if found == right else "another"


def _ensure_clear(
    error: InputError, mutation: Mutation, elsewhere: dict[str, str]
) -> None:
    """Raise AssertionError unless a refusal is one line that names the field."""
    text = f"{error.field}: {error.message}"
    if not text.isprintable():
        raise AssertionError(text)
    # Arguments of a command are spelled with _ or -.
    names = [name.replace("_", "-") for name in (mutation.key, mutation.slip) if name]
    if names and not any(name in text.replace("_", "-") for name in names):
        other = elsewhere.get(mutation.key)
        if other is None or re.search(other, text) is None:
            raise AssertionError(text)


def _without_value(message: str, value: Any) -> str:
    """Return a message with ``_`` in place of the value that it begins with."""
    forms = [describe(value), str(value), repr(value), shown(value)]
    forms += [reprlib.repr(value), describe(json.dumps(value))]
    with suppress(TypeError, ValueError, OverflowError):
        forms += [str(float(value)), f"{float(value):g}"]
    if value != value:
        # In YAML JSON's NaN is a text.
        forms.append("'NaN'")
    for text in forms:
        begin = re.match(rf"(is |names )?{re.escape(text)}(?=,| (?!of))", message)
        if text and begin is not None:
            return f"{begin[1] or ''}_{message[begin.end() :]}"
    if isinstance(value, str) and value:
        return message.replace(repr(value), "_").replace(f" {value},", " _,")
    return message
