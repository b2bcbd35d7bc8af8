"""What one of several pipelines may be, as the program sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hetopt.plans.strategy import Strategy

#: Steps of a nanosecond, in which the program counts time.
SCALE = 1000


class Host(NamedTuple):
    """What hosts a stage."""

    cluster: int
    strategy: Strategy


class Option(NamedTuple):
    """A pipeline with the longest sequences that it takes, or a bound on several.

    Attributes
    ----------
    per_microbatch
        Sequences.
    longest
        Position of the longest length that it takes, of which it takes some.
    fixed
        Time beside what micro-batches add, in steps of ``SCALE``.
    rates
        What a micro-batch of each length adds, from the shortest to the longest; -1:
        it takes none of this length.
    hosts
        Of its stages; empty: this is a bound.
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
        """Return its time with so many micro-batches of each length."""
        pairs = zip(self.rates, counts, strict=False)
        return self.fixed + sum(rate * count for rate, count in pairs)
