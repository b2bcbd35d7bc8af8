"""Copies of a plan: the plans that exchanging identical clusters gives."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hetopt.formulations.decision import Decision


def canonical(decision: Decision, groups: Sequence[int]) -> Decision:
    """Return the plan's canonical copy."""
    return replace(decision, order=dealt(decision.order, groups))


def last_first(decision: Decision, groups: Sequence[int]) -> Decision:
    """Return the copy that uses each group's last cluster first, from the end."""
    order = dealt(decision.order[::-1], groups, backwards=True)
    return replace(decision, order=order[::-1])


def dealt(
    order: Sequence[int], groups: Sequence[int], *, backwards: bool = False
) -> tuple[int, ...]:
    """Replace every cluster of an order by the next unused one of its group.

    A cluster that occurs again gets the same replacement.

    Parameters
    ----------
    backwards
        Whether groups are used from their last cluster to the first.
    """
    left: dict[int, list[int]] = {leader: [] for leader in groups}
    names = range(len(groups))
    for j in names if backwards else reversed(names):
        left[groups[j]].append(j)
    named: dict[int, int] = {}
    for j in order:
        if j not in named:
            named[j] = left[groups[j]].pop()
    return tuple(named[j] for j in order)


def all_copies(
    decisions: Iterable[Decision], groups: Sequence[int]
) -> Iterator[Decision]:
    """Yield every copy of these plans among identical clusters.

    Parameters
    ----------
    decisions
        Plans of which none is another's copy; they are among those yielded.
    groups
        Leader of each cluster's group; empty if groups were not looked for.
    """
    for decision in decisions:
        yield from _copies(decision, groups)


def _copies(decision: Decision, groups: Sequence[int]) -> Iterator[Decision]:
    used = sorted({groups[j] for j in decision.order}) if groups else []
    places = [
        [place for place, j in enumerate(decision.order) if groups[j] == leader]
        for leader in used
    ]
    if all(groups.count(leader) == 1 for leader in used):
        yield decision
        return
    chosen = [
        permutations([j for j, own in enumerate(groups) if own == leader], len(own))
        for leader, own in zip(used, places, strict=True)
    ]
    for names in product(*chosen):
        order = list(decision.order)
        for where, own in zip(places, names, strict=True):
            for place, j in zip(where, own, strict=True):
                order[place] = j
        yield replace(decision, order=tuple(order))
