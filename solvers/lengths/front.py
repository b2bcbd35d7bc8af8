"""Pipelines that no other one dominates: is never slower than, for any sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.shapes import Floats, Ints
    from hetopt.formulations.lengths.option import Option

    Bools = NDArray[np.bool_]


class Front:
    """Options that no other one dominates; of equal options the first is kept."""

    def __init__(self) -> None:
        self._of: dict[int, _Kept] = {}

    def passes(self, options: Sequence[Option]) -> bool:
        """Whether some option is not dominated by any pipeline so far."""
        return any(
            option.longest not in self._of
            or not self._of[option.longest].beaten(option)
            for option in options
        )

    def add(self, options: Iterable[Option]) -> None:
        """Add options, and drop those that they dominate."""
        for option in options:
            if option.longest not in self._of:
                self._of[option.longest] = _Kept(option)
            else:
                self._of[option.longest].add(option)

    def options(self) -> list[Option]:
        """Return the options that are left, those of the shortest sequences first."""
        return [each for n in sorted(self._of) for each in self._of[n].options]


class _Kept:
    """Options of one longest length, also as arrays."""

    def __init__(self, option: Option) -> None:
        self.options = [option]
        self._size, self._fixed, self._rates = _arrays([option])
        self._real = np.array([bool(option.hosts)])

    def slower(self, option: Option) -> tuple[Bools, Bools]:
        """Return which kept options dominate this one, and which it dominates."""
        size, fixed, rates = _arrays([option])
        before = np.asarray(
            (self._fixed <= fixed) & _paced(self._size, self._rates, size, rates)
        )
        after = np.asarray(
            (fixed <= self._fixed) & _paced(size, rates, self._size, self._rates)
        )
        return before, after

    def add(self, option: Option) -> None:
        before, after = self.slower(option)
        # A bound is not a pipeline, so it cannot replace one.
        if (before if not option.hosts else before & self._real).any():
            return
        self.options = [
            each
            for each, worse in zip(self.options, after, strict=True)
            if not worse or (each.hosts and not option.hosts)
        ]
        self.options.append(option)
        self._size, self._fixed, self._rates = _arrays(self.options)
        self._real = np.array([bool(each.hosts) for each in self.options])

    def beaten(self, option: Option) -> bool:
        """Whether some pipeline, which is not just a bound, dominates this option."""
        return bool((self.slower(option)[0] & self._real).any())


def _arrays(options: Sequence[Option]) -> tuple[Ints, Ints, Floats]:
    rates = np.array([each.rates for each in options], dtype=np.float64)
    rates[rates < 0] = np.inf
    size = np.array([each.per_microbatch for each in options], dtype=np.int64)
    return size, np.array([each.fixed for each in options], dtype=np.int64), rates


def _paced(size: Ints, rates: Floats, others: Ints, other_rates: Floats) -> Bools:
    """Return where micro-batches of ``size`` are never slower than those of ``others``.

    If ``size`` divides ``others``, there are at most their quotient as many of them; if
    it is a multiple, there are no more of them.
    """
    more = np.where(
        others % size == 0,
        others // size,
        np.where(size % others == 0, 1.0, np.inf),
    )
    paced: Bools = np.all(rates * more[:, None] <= other_rates, axis=1)
    return paced
