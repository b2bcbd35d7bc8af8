"""How problems, tables, plans and results look: in a shell, printed, in a notebook."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar


class Shown:
    """Objects that another module shows, which is loaded when one is shown.

    Attributes
    ----------
    presenter
        Name of that module, set by the package: it has ``line``, ``text`` and
        ``notebook``.
    """

    __slots__ = ()

    presenter: ClassVar[str]

    def __repr__(self) -> str:
        return str(self._presenter().line(self))

    def __str__(self) -> str:
        return str(self._presenter().text(self))

    def _repr_html_(self) -> str:
        return str(self._presenter().notebook(self))

    def _presenter(self) -> Any:
        return import_module(self.presenter)
