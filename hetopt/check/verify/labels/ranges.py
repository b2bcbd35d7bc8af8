"""Ranges of lambda to search, and the stage counts that are open there."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hetopt.check.verify.labels.data import PS_PER_NS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Node(NamedTuple):
    """A range of lambda in ps, and the stage counts that are open there."""

    low: int
    high: int
    counts: tuple[int, ...]


def cut_alike(
    ranges: Mapping[int, Sequence[tuple[int, int]]], width: int
) -> list[Node]:
    """Cut lambda into the same ranges for all stage counts, to share their labels.

    Parameters
    ----------
    ranges
        By stage count, ranges of lambda in ns.
    width
        Width of a range, in ps.
    """
    cells: dict[int, dict[int, tuple[int, int]]] = {}
    for p, pairs in ranges.items():
        for first, last in pairs:
            low, end = first * PS_PER_NS, last * PS_PER_NS
            for cell in range(low // width, end // width + 1):
                part = max(low, cell * width), min(end, (cell + 1) * width)
                own = cells.setdefault(cell, {})
                known = own.get(p, part)
                own[p] = min(known[0], part[0]), max(known[1], part[1])
    return [
        Node(
            min(low for low, _ in own.values()),
            max(high for _, high in own.values()),
            tuple(own),
        )
        for _, own in sorted(cells.items(), reverse=True)
    ]
