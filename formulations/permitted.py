"""What the user's pins permit, with clusters by number."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.formulations.chain import Chain
    from hetopt.formulations.decision import Decision
    from hetopt.problem.training.pins import Domain, Pins


@dataclass(frozen=True, slots=True)
class Permitted:
    """Pins on clusters, with clusters by number.

    Attributes
    ----------
    stages, units
        How many stages and units a cluster may host, by cluster; units include ends.
    order
        Clusters in pipeline order; None if the order is free. It names all that
        host stages, each once.
    apart
        Pairs of clusters of which the second may not follow the first.
    """

    pins: Pins
    stages: tuple[Domain, ...]
    units: tuple[Domain, ...]
    order: tuple[int, ...] | None
    apart: frozenset[tuple[int, int]]

    @classmethod
    def of(cls, pins: Pins, names: Sequence[str]) -> Permitted:
        """Convert the pins; those on clusters without a name here are left out."""
        number = {name: j for j, name in enumerate(names)}
        own = [pins.of(name) for name in names]
        return cls(
            pins,
            tuple(each.stages for each in own),
            tuple(each.units for each in own),
            None if pins.order is None else tuple(map(number.__getitem__, pins.order)),
            frozenset(
                (number[first], number[second])
                for first, second in pins.forbidden_next
                if first in number and second in number
            ),
        )

    def may_rest(self, j: int) -> bool:
        """Whether a cluster may be unused."""
        return (
            (self.order is None or j not in self.order)
            and self.stages[j].permits(0)
            and self.units[j].permits(0)
        )

    def may_open(self, j: int) -> bool:
        """Whether a cluster may host the first stage."""
        return self.order is None or self.order[0] == j

    def may_close(self, j: int) -> bool:
        """Whether a cluster may host the last stage."""
        return self.order is None or self.order[-1] == j

    def may_follow(self, i: int, j: int) -> bool:
        """Whether cluster j may come directly after cluster i."""
        follows = self.order is None or (i, j) in pairwise(self.order)
        return follows and (i, j) not in self.apart

    def body(self, chain: Chain) -> tuple[int, ...] | None:
        """Return the body units of each stage; None if they are free."""
        if self.pins.units is None:
            return None
        return chain.without_ends(self.pins.units)

    def permits(self, decision: Decision) -> bool:
        """Whether a decision satisfies every pin except those on strategies."""
        pins, first = self.pins, 0
        hosted, held = [0] * len(self.stages), [0] * len(self.units)
        for j, stages in zip(decision.order, decision.hosted, strict=True):
            hosted[j] += stages
            held[j] += sum(decision.units[first : first + stages])
            first += stages
        order = tuple(j for j, _ in groupby(decision.order))
        return (
            pins.stages.permits(decision.stages)
            and pins.microbatches.permits(decision.microbatches)
            and self.order in (None, order)
            and self.apart.isdisjoint(pairwise(order))
            and pins.units in (None, decision.units)
            and all(
                self.stages[j].permits(hosted[j]) and self.units[j].permits(held[j])
                for j in range(len(self.stages))
            )
        )
