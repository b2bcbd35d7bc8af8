"""An option of one of several pipelines, as the program sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hetopt.plans.strategy import Strategy

#: Steps in a nanosecond; the program counts time in steps.
SCALE = 1000


class Host(NamedTuple):
    """The cluster and strategy of a stage."""

    cluster: int
    strategy: Strategy


class Option(NamedTuple):
    """A pipeline with the longest sequences that it takes, or a bound for several.

    Attributes
    ----------
    per_microbatch
        Sequences in a micro-batch.
    longest
        Index of the longest length that it takes; it takes some of that length.
    fixed
        Time besides that of the micro-batches, in steps of 1 / ``SCALE`` ns.
    rates
        Time that a micro-batch of each length adds, from the shortest to the longest;
        -1: it takes none of this length.
    hosts
        Hosts of its stages; empty: this is a bound.
    cut
        First units of its stages, and the number of units.
    """

    per_microbatch: int
    longest: int
    fixed: int
    rates: tuple[int, ...]
    hosts: tuple[Host, ...] = ()
    cut: tuple[int, ...] = ()

    def takes(self, counts: tuple[int, ...]) -> int:
        """Return its time for these numbers of micro-batches of each length."""
        pairs = zip(self.rates, counts, strict=False)
        return self.fixed + sum(rate * count for rate, count in pairs)
