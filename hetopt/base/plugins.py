"""Records that users add to hetopt, by an installed package or in this process."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from importlib.metadata import EntryPoint


class Named(Protocol):
    """A record that is found by its name."""

    @property
    def name(self) -> str:
        """The name that users give."""
        ...


_Record = TypeVar("_Record", bound=Named)


class Plugins(Generic[_Record]):
    """Records of one kind that are not hetopt's own.

    Parameters
    ----------
    group
        Packages name their records under this group of entry points.
    kind
        Class of the records.
    shipped
        Names that are hetopt's own.
    """

    def __init__(
        self, group: str, kind: type[_Record], shipped: Collection[str]
    ) -> None:
        self.group = group
        self._kind = kind
        self._shipped = shipped
        self._registered: dict[str, _Record] = {}

    def register(self, record: _Record) -> None:
        """Add a record for this process; one of the same name is replaced.

        Raises
        ------
        InputError
            One of hetopt's own has this name.
        """
        self._ensure_free(record.name, f"the {self._word}")
        self._registered[record.name] = record

    def names(self) -> tuple[str, ...]:
        """Return the names of all records; none is loaded."""
        return tuple(dict.fromkeys((*self._registered, *self._entry_points)))

    def find(self, name: str) -> _Record | None:
        """Return a record by name, None if there is none.

        Raises
        ------
        InputError
            The package that names it does not provide it.
        """
        if name in self._registered:
            return self._registered[name]
        if name not in self._entry_points:
            return None
        return self._loaded(self._entry_points[name])

    def forget(self) -> None:
        """Forget what was registered, and look for installed packages again."""
        self._registered.clear()
        self.__dict__.pop("_entry_points", None)

    @property
    def _word(self) -> str:
        return self._kind.__name__.lower()

    @cached_property
    def _entry_points(self) -> Mapping[str, EntryPoint]:
        from importlib.metadata import entry_points

        found = {point.name: point for point in entry_points(group=self.group)}
        for name, point in found.items():
            self._ensure_free(name, point.value)
        return found

    def _loaded(self, point: EntryPoint) -> _Record:
        where = f"{self.group}.{point.name}"
        try:
            found = point.load()
        except Exception as error:
            # Loading runs the package's code, which may raise anything.
            reason = str(error).partition("\n")[0]
            msg = f"{point.value} cannot be loaded: {reason}"
            raise InputError(msg, field=where) from error
        if not isinstance(found, self._kind) or found.name != point.name:
            msg = f"{point.value} is not a {self._kind.__name__} named {point.name!r}"
            raise InputError(msg, field=where)
        return found

    def _ensure_free(self, name: str, what: str) -> None:
        if name in self._shipped:
            msg = f"{what} has the name of one of hetopt's, {name!r}: rename it"
            raise InputError(msg, field=self.group)
