"""Names that need no quotes in a file."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def labels(names: Iterable[str]) -> dict[str, str]:
    """Return a label for each name, made of letters, digits and ``. _ -``.

    A label starts with a letter or digit. A name that is a label is kept. The others
    get labels that differ from these and from each other; the same names in the same
    order give the same labels.
    """
    names = list(names)
    spelled = {name: name for name in names if _LABEL.fullmatch(name)}
    for name in names:
        if name not in spelled:
            base = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("._-") or "cluster"
            label, number = base, 1
            while label in spelled.values():
                number += 1
                label = f"{base}-{number}"
            spelled[name] = label
    return spelled
