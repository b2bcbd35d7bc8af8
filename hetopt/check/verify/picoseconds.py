"""Times of a certificate: whole numbers of picoseconds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.check.verify.tasks import TOO_LONG_PS
from hetopt.cost.table.ticks import LONGEST_S
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping


def picoseconds(data: Mapping[str, Any], key: str, field: str) -> int | None:
    """Return a number of picoseconds, or None for null.

    Parameters
    ----------
    field
        Where ``data`` is in the file.

    Raises
    ------
    InputError
        It is missing, or no time that an iteration may take.
    """
    place = f"{field}.{key}" if field else key
    if key not in data:
        raise InputError("is missing", field=place)
    value = data[key]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(
            f"{value!r} is not a whole number of picoseconds or null", field=place
        )
    if value >= TOO_LONG_PS:
        raise InputError(
            f"is more than {TOO_LONG_PS - 1}, the {LONGEST_S} s that an iteration may "
            "take",
            field=place,
        )
    return value
