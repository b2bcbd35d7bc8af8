"""Errors about fields, whose places in the file the reader looks up."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from hetopt.problem.schema.fields import unknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.problem.document.document import FieldPath

_T = TypeVar("_T")


class FieldError(ValueError):
    """The field at ``path`` cannot be used; ``message`` says why."""

    def __init__(self, path: FieldPath, message: str) -> None:
        self.path = path
        self.message = message
        super().__init__(message)


def check_cluster(name: str, names: tuple[str, ...], path: FieldPath) -> None:
    """Raise FieldError unless the problem has a cluster of this name."""
    if name not in names:
        raise FieldError(path, unknown(name, "a cluster of this problem", names))


def raised_at(path: FieldPath, make: Callable[[], _T]) -> _T:
    """Call ``make``; its ValueError becomes a FieldError about the field it names."""
    try:
        return make()
    except FieldError:
        raise
    except ValueError as error:
        raise fault_at(path, str(error)) from error


def fault_at(path: FieldPath, fault: str) -> FieldError:
    """Return a fault, whose first word may be a field of ``path``, as an error."""
    field, verb, rest = fault.partition(" is ")
    if verb and field.isidentifier():
        return FieldError((*path, field), f"is {rest}")
    return FieldError(path, fault)
