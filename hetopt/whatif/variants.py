"""The variants of a problem that the options of ``hetopt whatif`` ask for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.problem.document.document import Document, load_document
from hetopt.problem.document.edits import (
    Dropped,
    Edit,
    NodesAdded,
    Setting,
    edited,
    plain_value,
)
from hetopt.problem.reading import problem_of
from hetopt.problem.training.choices import ADAPTIVE, ANY, INTERLEAVED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.problem.problem import Problem

#: The variant that is the unchanged problem.
BASE = "as it is"
#: Most keys of a grid.
_MOST_SWEPT = 2
_OPENING, _CLOSING = "[{(", "]})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A problem with some changes.

    Attributes
    ----------
    change
        What is changed, in words.
    problem
        None if the changed problem is not valid.
    failure
        Why it is not valid.
    """

    change: str
    problem: Problem | None
    failure: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Change:
    """The change that one option asks for.

    Attributes
    ----------
    text
        The option's value as the user wrote it.
    words
        The variant's name.
    """

    flag: str
    text: str
    words: str
    edits: tuple[Edit, ...]


class Variants:
    """Makes variants of one problem file.

    Parameters
    ----------
    path
        The problem file.
    schedule, chunks
        Replace those of the file; None keeps them.

    Raises
    ------
    InputError
        The file is no valid problem.
    """

    def __init__(
        self, path: str, schedule: str | None = None, chunks: int | None = None
    ) -> None:
        self._path = path
        self._document: Document = load_document(path)
        self.base = problem_of(self._document, path)
        settings = []
        if schedule is not None:
            settings.append(Setting(key="training.schedule", value=schedule))
            if schedule not in (ADAPTIVE, ANY):
                settings.append(Setting(key="training.warmup_epsilon", value=None))
            # The file's number of chunks does not apply to another schedule.
            chunks = chunks or (None if schedule in (INTERLEAVED, ANY) else 1)
        if chunks is not None:
            settings.append(Setting(key="training.chunks", value=chunks))
        if settings:
            self._document = edited(self._document, settings)
            self.base = problem_of(self._document, path)

    def all(
        self,
        *,
        drop_each: bool,
        added: Sequence[str],
        settings: Sequence[str],
        sweeps: Sequence[str],
    ) -> list[Variant]:
        """Return the problem itself and the variants that options ask for.

        Raises
        ------
        InputError
            An option cannot be read, or the problem it makes is not valid.
        """
        asked = [_added(text) for text in added]
        asked += [_set(text) for text in settings]
        asked += _swept(sweeps)
        found = [self._variant(change) for change in asked]
        dropped = self._dropped() if drop_each else ()
        return [Variant(change=BASE, problem=self.base), *dropped, *found]

    def _variant(self, change: _Change) -> Variant:
        try:
            problem = problem_of(edited(self._document, change.edits), self._path)
        except InputError as error:
            field = f"{change.flag} {change.text}"
            field += f": {error.field}" if error.field else ""
            raise InputError(error.message, field=field) from None
        return Variant(change=change.words, problem=problem)

    def _dropped(self) -> Iterator[Variant]:
        """Yield the problem without each cluster, and with one node less of each."""
        clusters = self.base.clusters
        if len(clusters) == 1 and clusters[0].nodes == 1:
            msg = "leaves nothing: the only cluster has one node; use --add or --set"
            raise InputError(msg, field="--drop-each")
        for each in clusters:
            edits: list[tuple[str, Edit]] = []
            if len(clusters) > 1:
                edits.append((f"without {each.name}", Dropped(cluster=each.name)))
            if each.nodes > 1:
                less = NodesAdded(cluster=each.name, nodes=-1)
                edits.append((f"{each.name}:-1", less))
            for text, edit in edits:
                change = _Change(
                    flag="--drop-each", text=text, words=text, edits=(edit,)
                )
                try:
                    yield self._variant(change)
                except InputError as error:
                    # For example, pins may need what was dropped.
                    yield Variant(change=text, problem=None, failure=str(error))


def _added(text: str) -> _Change:
    """Read ``--add``: clusters and nodes, as in h100:2,a100:1."""
    edits = []
    for part in _parts(text):
        cluster, colon, count = part.rpartition(":")
        if not colon or not count.isascii() or not count.isdigit() or int(count) == 0:
            msg = f"is {part!r}, expected a cluster and its new nodes, such as h100:2"
            raise InputError(msg, field=f"--add {text}")
        edits.append(NodesAdded(cluster=cluster.strip(), nodes=int(count)))
    words = ", ".join(f"{each.cluster}:+{each.nodes}" for each in edits)
    return _Change(flag="--add", text=text, words=words, edits=tuple(edits))


def _set(text: str) -> _Change:
    """Read ``--set``: one key and its value, or several between commas."""
    edits = tuple(
        Setting(key=key, value=_value(value, f"--set {text}"))
        for key, value in (_pair(part, "--set", text) for part in _parts(text))
    )
    return _Change(flag="--set", text=text, words=text, edits=edits)


def _swept(texts: Sequence[str]) -> list[_Change]:
    """Read ``--sweep``: a key and several values; of two keys, every combination."""
    if len(texts) > _MOST_SWEPT:
        msg = f"is given {len(texts)} times, expected at most {_MOST_SWEPT}: a grid"
        raise InputError(msg, field="--sweep")
    axes = []
    for text in texts:
        key, values = _pair(text, "--sweep", text)
        given = [value.strip() for value in _parts(values)]
        if not all(given):
            msg = f"has an empty value, expected {key}=a,b,c"
            raise InputError(msg, field=f"--sweep {text}")
        axes.append([(key, value) for value in given])
    changes = []
    for point in product(*axes) if axes else ():
        words = ",".join(f"{key}={value}" for key, value in point)
        edits = tuple(
            Setting(key=key, value=_value(value, f"--sweep {key}={value}"))
            for key, value in point
        )
        changes.append(_Change(flag="--sweep", text=words, words=words, edits=edits))
    return changes


def _pair(part: str, flag: str, text: str) -> tuple[str, str]:
    key, equals, value = part.partition("=")
    if not equals or not key.strip():
        msg = (
            f"is {part!r}, expected KEY=VALUE, such as "
            "links.default.bandwidth=25Gbps; lists stand in brackets"
        )
        raise InputError(msg, field=f"{flag} {text}")
    return key.strip(), value


def _value(text: str, field: str) -> object:
    try:
        return plain_value(text)
    except InputError as error:
        raise InputError(f"{text!r} {error.message}", field=field) from None


def _parts(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts
