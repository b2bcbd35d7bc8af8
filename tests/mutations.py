"""Documents with one thing changed: a value, a key, or an item of a list.

A document is what JSON and YAML hold. Of items of a list that are alike only the first
is changed.
"""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

Path = tuple[str | int, ...]

#: What takes the place of any value.
ANYTHING: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 10**18, 10**60, float("nan"), float("inf")),
    *("", "x", "1", []),
)
#: Of a list or mapping, too.
CONTAINERS: tuple[Any, ...] = (None, 3, "x", [], {}, [None])
_QUANTITY = re.compile(r"([\d.]+) ?(\D+)")
UNKNOWN = "unknown"


class Mutation(NamedTuple):
    """A changed document.

    Attributes
    ----------
    path
        Keys and positions that lead to what is changed.
    what
        What is changed there: ``missing``, or the value that is there instead.
    value
        That value; None if there is none.
    key
        The key that a refusal has to name; "" where only the root is changed.
    slip
        What the key is called instead, which a refusal may name as well.
    """

    path: Path
    what: str
    value: Any
    key: str
    document: Any
    slip: str = ""


def mutations(
    document: Any, within: Path = (), closed: Container[str] = ()
) -> Iterator[Mutation]:
    """Yield documents with one change each, in their order.

    Parameters
    ----------
    within
        The place at or below which they are changed.
    closed
        Keys whose values are only replaced as a whole.
    """
    document = json.loads(json.dumps(document))
    for path, value in places(document, closed):
        if path[: len(within)] != within:
            continue
        names = [key for key in path if isinstance(key, str)]
        key = names[-1] if names else ""
        if path and isinstance(path[-1], str):
            yield Mutation(path, "missing", None, key, _without(document, path))
        for other in _others(value):
            changed = _replaced(document, path, other)
            yield Mutation(path, shown(other), other, key, changed)
        if isinstance(value, list) and value:
            yield from _other_lists(document, path, value, key)
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            yield from _other_keys(document, path, value)


def places(
    data: Any, closed: Container[str] = (), path: Path = ()
) -> Iterator[tuple[Path, Any]]:
    """Yield every value with its path; of items that are alike, the first."""
    yield path, data
    if path and path[-1] in closed:
        return
    if isinstance(data, dict):
        for key, value in data.items():
            yield from places(value, closed, (*path, key))
    elif isinstance(data, list):
        known = set()
        for index, value in enumerate(data):
            if (shape := _shape(value)) not in known:
                known.add(shape)
                yield from places(value, closed, (*path, index))


def shown(value: Any) -> str:
    """Return a value as a snapshot has it."""
    if isinstance(value, int) and value >= 10**18:
        return f"1e{len(str(value)) - 1}"
    words = {"None": "null", "True": "true", "False": "false"}
    text = repr(value)
    return words.get(text, text if len(text) <= 40 else f"{text[:37]}...")


def _shape(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}:{each is None}" for key, each in sorted(value.items()))
    return type(value).__name__


def _others(value: Any) -> Iterator[Any]:
    """Yield what takes the place of a value: of its type, and of others."""
    if isinstance(value, dict | list):
        yield from (each for each in CONTAINERS if each != value)
        return
    own = type(value)
    for other in (False, *ANYTHING) if value is True else ANYTHING:
        if type(other) is not own or other != value:
            yield other
    if isinstance(value, str):
        yield from _other_texts(value)


def _other_texts(value: str) -> Iterator[str]:
    """Yield a text with a slip; of a quantity, other numbers and units."""
    found = _QUANTITY.fullmatch(value)
    if found is None:
        if len(value) > 2:
            yield slipped(value)
        return
    number, unit = found.groups()
    for other in ("0", "-1", "1e30"):
        yield f"{other} {unit}"
    yield f"{number} parsecs"
    yield number


def slipped(word: str) -> str:
    """Return a word whose last letters have changed places."""
    return f"{word[:-2]}{word[-1]}{word[-2]}" if word[-1] != word[-2] else word[:-1]


def _other_lists(
    document: Any, path: Path, value: list[Any], key: str
) -> Iterator[Mutation]:
    changes = [("its last item twice", [*value, value[-1]])]
    if len(value) > 1:
        changes.append(("without its last item", value[:-1]))
    for what, other in changes:
        changed = _replaced(document, path, other)
        yield Mutation(path, what, other, key, changed)


def _other_keys(document: Any, path: Path, value: dict[str, Any]) -> Iterator[Mutation]:
    changed = _replaced(document, path, {**value, UNKNOWN: 1})
    yield Mutation(path, "an unknown key", None, UNKNOWN, changed)
    if not value:
        return
    longest = max(value, key=len)
    slip = slipped(longest) if len(longest) > 2 else f"{longest}x"
    renamed = {slip if key == longest else key: value[key] for key in value}
    changed = _replaced(document, path, renamed)
    yield Mutation(path, f"{longest} is {slip}", None, longest, changed, slip)


def _replaced(document: Any, path: Path, value: Any) -> Any:
    if not path:
        return copy.deepcopy(value)
    changed = copy.deepcopy(document)
    _around(changed, path)[path[-1]] = copy.deepcopy(value)
    return changed


def _without(document: Any, path: Path) -> Any:
    changed = copy.deepcopy(document)
    del _around(changed, path)[path[-1]]
    return changed


def _around(document: Any, path: Path) -> Any:
    for key in path[:-1]:
        document = document[key]
    return document


#: What takes the place of a cell of a CSV file.
CELLS = ("", "x", "-1", "0", "1.5", "1e18", "9" * 60, "nan", "inf", "true")


def csv_mutations(
    text: str, within: Path = (), closed: Container[str] = ()
) -> Iterator[Mutation]:
    """Yield CSV texts with one change: in the header above, in columns or cells.

    Rows with the same empty cells are alike: of those the first is changed.
    """
    lines = [line.rstrip() for line in text.splitlines()]
    first = next(n for n, line in enumerate(lines) if not line.startswith("#"))
    table = [line.split(",") for line in lines[first:]]

    def changed(key: str, what: str, value: Any, new: list[str]) -> Mutation:
        return Mutation((key,), what, value, key, "\n".join(new) + "\n")

    for number, line in enumerate(lines[:first]):
        before, after = lines[:number], lines[number + 1 :]
        key, _, value = (part.strip() for part in line[1:].partition(":"))
        yield changed(key, "missing", None, [*before, *after])
        yield changed(key, "twice", None, [*before, line, line, *after])
        for other in ("", "x", "-1", slipped(value)):
            yield changed(
                key, shown(other), other, [*before, f"# {key}: {other}", *after]
            )
    for number, column in enumerate(table[0]):
        without = [",".join(row[:number] + row[number + 1 :]) for row in table]
        twice = [",".join(row[: number + 1] + row[number:]) for row in table]
        for what, rows in (("missing", without), ("twice", twice)):
            yield changed(column, what, None, [*lines[:first], *rows])
    known = set()
    for place, row in enumerate(table[1:], start=first + 1):
        before, after = lines[:place], lines[place + 1 :]
        if (shape := tuple(map(bool, row))) in known:
            continue
        known.add(shape)
        line = lines[place]
        yield changed("", "a row twice", None, [*before, line, line, *after])
        yield changed(
            "", "a row with a cell more", None, [*before, f"{line},1", *after]
        )
        yield changed(
            "",
            "a row with a cell fewer",
            None,
            [*before, line[: line.rindex(",")], *after],
        )
        for number, column in enumerate(table[0]):
            for cell in (*CELLS, slipped(row[number]) if len(row[number]) > 2 else "1"):
                if cell != row[number]:
                    new = ",".join([*row[:number], cell, *row[number + 1 :]])
                    yield changed(column, shown(cell), cell, [*before, new, *after])
    yield changed("", "no rows", None, lines[: first + 1])
    yield changed("", "no columns", None, lines[:first])


_FLAG = re.compile(r"(\s+--)([\w-]+)((?: [^\\]*?)?)( \\)?")


def flag_mutations(
    text: str, within: Path = (), closed: Container[str] = ()
) -> Iterator[Mutation]:
    """Yield scripts with one flag changed, where each has a line of its own."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        found = _FLAG.fullmatch(line)
        if found is None:
            continue
        before, flag, value, after = (part or "" for part in found.groups())
        changes: list[tuple[str, str | None, list[str]]]
        changes = [("missing", None, []), ("twice", None, [line, line])]
        for other in dict.fromkeys((*CELLS, "", "1 2", "true") if value else ("", "1")):
            if f" {other}".rstrip() != value:
                own = f"{before}{flag} {other}".rstrip() + after
                changes.append((shown(other), other, [own]))
        slip = slipped(flag)
        changes.append((f"is {slip}", None, [f"{before}{slip}{value}{after}"]))
        for what, given, new in changes:
            changed = "\n".join([*lines[:number], *new, *lines[number + 1 :]]) + "\n"
            yield Mutation((f"--{flag}",), what, given, flag, changed, slip)


_WORD = re.compile(r"\S+")
#: A key of a word, up to the last =.
_KEY = re.compile(r"([A-Za-z_]\w*)=")


def word_mutations(
    text: str, within: Path = (), closed: Container[str] = ()
) -> Iterator[Mutation]:
    """Yield texts with one word changed, or the value of a word ``key=value``."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        for found in _WORD.finditer(line):
            word = found[0]
            known = _KEY.match(word)
            key = known[0] if known else ""
            place = (f"line {number + 1}", known[1] if known else word)
            for cell in (None, *(("",) if key else ()), "x", "-1", "9" * 60):
                other = "" if cell is None else f"{key}{cell}"
                own = line[: found.start()] + other + line[found.end() :]
                new = "\n".join([*lines[:number], own, *lines[number + 1 :]]) + "\n"
                what = "missing" if cell is None else shown(cell)
                yield Mutation(place, what, cell, "", new)
        doubled = "\n".join([*lines[: number + 1], *lines[number:]]) + "\n"
        yield Mutation((f"line {number + 1}",), "twice", None, "", doubled)
