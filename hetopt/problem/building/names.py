"""Names of clusters, wherever a problem has them."""

from __future__ import annotations

from hetopt.base.fields import unknown
from hetopt.base.record import Fault


def check_cluster(
    name: str, names: tuple[str, ...], path: tuple[str | int, ...]
) -> None:
    """Raise Fault unless the problem has a cluster of this name."""
    if name not in names:
        raise Fault(unknown(name, "a cluster of this problem", names), *path)
