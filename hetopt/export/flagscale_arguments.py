"""Finds FlagScale's experiment in a folder, and reads its arguments one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.problem.document import Document, FieldPath, load_document
from hetopt.problem.fields import MAX_WHOLE
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Parts of the training configuration that become arguments, in this order.
_PARTS = ("system", "model", "data")


class Arguments:
    """The arguments FlagScale makes of a training part: keys of all nested mappings.

    Of keys that are there twice the later wins, as on the command line.
    """

    def __init__(self, document: Document) -> None:
        self._document = document
        self._values: dict[str, tuple[FieldPath, Any]] = {}
        if not isinstance(document.data, dict):
            raise document.error((), "is no mapping, expected system, model and data")
        for part in _PARTS:
            section = document.data.get(part)
            if section is None:
                continue
            if not isinstance(section, dict):
                raise document.error((part,), "is no mapping")
            for path, value in _leaves((part,), section):
                self._values[str(path[-1]).replace("-", "_")] = (path, value)

    def has(self, key: str) -> bool:
        """Whether there is such a key, with a value."""
        return key in self._values and self._values[key][1] is not None

    def flag(self, key: str) -> bool:
        """Return true or false; false where it is left out."""
        value = self._value(key, False)
        if not isinstance(value, bool):
            raise self.wrong(key, f"is {_shown(value)}, expected true or false")
        return value

    def number(self, key: str, default: int | None = None) -> int:
        """Return a whole number of at least 1; InputError if it is left out."""
        value = self._value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.wrong(
                key, f"is {_shown(value)}, expected a whole number above 0"
            )
        if value > MAX_WHOLE:
            raise self.wrong(key, f"is {value}, expected at most {MAX_WHOLE}")
        return value

    def numbers(self, key: str) -> tuple[int, ...]:
        """Return a list of whole numbers."""
        value = self._value(key, None)
        if not isinstance(value, list):
            raise self.wrong(key, f"is {_shown(value)}, expected a list of numbers")
        for item in value:
            if isinstance(item, bool) or not isinstance(item, int):
                raise self.wrong(key, f"holds {_shown(item)}, expected whole numbers")
            if item > MAX_WHOLE:
                raise self.wrong(key, f"holds {item}, expected at most {MAX_WHOLE}")
        return tuple(value)

    def rows(self, key: str) -> list[Any] | None:
        """Return a list as it is; None where it is left out."""
        value = self._value(key, []) if self.has(key) else None
        if value is not None and not isinstance(value, list):
            raise self.wrong(key, f"is {_shown(value)}, expected a list")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """Return a list of names; numbers are taken as they are written."""
        value = self._value(key, None)
        if not isinstance(value, list) or not value:
            raise self.wrong(key, f"is {_shown(value)}, expected a list of names")
        return tuple(str(item) for item in value)

    def text(self, key: str, default: str) -> str:
        """Return a text."""
        return str(self._value(key, default))

    def wrong(self, key: str, message: str) -> InputError:
        """Return the error that says ``message`` about a key."""
        path = self._values[key][0] if key in self._values else ("system", key)
        return self._document.error(path, message)

    def _value(self, key: str, default: Any) -> Any:
        return self._values[key][1] if self.has(key) else default


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment, or a training part alone.

    Attributes
    ----------
    folder
        Where its relative paths may start.
    document
        The experiment's file; None if there is only a training part.
    """

    folder: Path
    document: Document | None
    train: Arguments


def find_experiment(folder: Path) -> Experiment:
    """Find the one experiment of a folder, in it or in its ``conf``.

    Raises
    ------
    InputError
        There is none or more than one, or its training part is missing.
    """
    homes = [home for home in (folder, folder / "conf") if home.is_dir()]
    documents = [
        (home, load_document(path))
        for home in homes
        for path in sorted(home.glob("*.yaml"))
    ]
    experiments = [
        (home, document)
        for home, document in documents
        if isinstance(document.data, dict) and "experiment" in document.data
    ]
    if len(experiments) == 1:
        home, document = experiments[0]
        return Experiment(
            folder=folder, document=document, train=_train(home, document)
        )
    if experiments:
        names = " and ".join(_name(document) for _, document in experiments)
        msg = (
            f"holds several experiments, {names}: put the one meant into its own folder"
        )
        raise InputError(msg, file=str(folder))
    trains = [document for _, document in documents if _is_train(document)]
    for home in homes:
        for path in sorted((home / "train").glob("*.yaml")):
            document = load_document(path)
            trains += [document] if _is_train(document) else []
    if len(trains) != 1:
        what = "several training parts" if trains else "no experiment of FlagScale"
        msg = f"holds {what}, expected one YAML file with `experiment`"
        raise InputError(msg, file=str(folder))
    return Experiment(folder=folder, document=None, train=Arguments(trains[0]))


def _train(home: Path, document: Document) -> Arguments:
    """Return the training part that an experiment names."""
    defaults = document.data.get("defaults")
    if not isinstance(defaults, list):
        defaults = []
    for item in defaults:
        if isinstance(item, dict) and isinstance(item.get("train"), str | int):
            path = home / "train" / f"{item['train']}.yaml"
            if not path.is_file():
                msg = f"names {item['train']}, but there is no {path}"
                raise document.error(("defaults",), msg)
            return Arguments(load_document(path))
    if isinstance(document.data.get("train"), dict):
        part = Document(
            document.data["train"],
            {
                path[1:]: place
                for path, place in document.places.items()
                if path[:1] == ("train",)
            },
        )
        return Arguments(part)
    raise document.error(("defaults",), "names no train, expected {train: NAME}")


def _is_train(document: Document) -> bool:
    return isinstance(document.data, dict) and isinstance(
        document.data.get("system"), dict
    )


def _name(document: Document) -> str:
    place = document.place(())
    return place.file if place else "?"


def _leaves(path: FieldPath, data: dict[str, Any]) -> Iterator[tuple[FieldPath, Any]]:
    for key, value in data.items():
        here = (*path, key)
        if isinstance(value, dict):
            yield from _leaves(here, value)
        else:
            yield here, value


def _shown(value: object) -> str:
    return "left out" if value is None else describe(value)
