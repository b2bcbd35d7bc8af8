"""Names of clusters as files without quoting can hold them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)


def labels(names: Iterable[str]) -> dict[str, str]:
    """Return for every name a label of letters, digits and ``. _ -``, no sign first.

    Names that are such labels are their own. The others get one that no name and no
    other label has, by their order: the same names always give the same labels.
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
