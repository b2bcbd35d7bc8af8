"""What an answer was asked: options of ``hetopt plan`` as plain JSON data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Options whose flag is not their name in Python.
_FLAGS = {"launcher": "--for"}
#: What is no option, or is named where the command is shown.
_APART = ("problem", "table")


def arguments(asked: Mapping[str, Any]) -> list[str]:
    """Return the options on the command line."""
    found = []
    for name, value in asked.items():
        if name in _APART:
            continue
        found.append(_FLAGS.get(name, f"--{name.replace('_', '-')}"))
        if isinstance(value, list):
            found.append(",".join(map(str, value)))
        elif value is not True:
            found.append(str(value))
    return found
