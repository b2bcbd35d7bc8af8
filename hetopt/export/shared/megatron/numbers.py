"""Numbers among Megatron-LM's settings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from hetopt.base.words import describe
from hetopt.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Returns the error about a setting, from its name and a message.
Wrong = Callable[[str, str], InputError]


def whole(
    settings: Mapping[str, str],
    name: str,
    wrong: Wrong,
    default: int | None = None,
    *,
    least: int = 1,
) -> int:
    """Return a whole number of at least ``least``; InputError for anything else."""
    if name not in settings:
        if default is None:
            raise wrong(name, "is missing")
        return default
    text = settings[name]
    if not re.fullmatch("[0-9]{1,9}", text) or int(text) < least:
        msg = f"is {describe(text)}, expected a whole number of at least {least}"
        raise wrong(name, msg)
    return int(text)


def number(
    settings: Mapping[str, str], name: str, wrong: Wrong, default: float
) -> float:
    """Return a finite number; InputError for anything else."""
    text = settings.get(name, str(default))
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise wrong(name, f"is {describe(text)}, expected a number")
    return found
