"""The program that divides sequences among pipelines.

============  ==========================================================================
symbol        meaning
============  ==========================================================================
r, o, l       a pipeline, one of its options, a length (the shortest first)
n_l           sequences of length l in an iteration
b_o           sequences of a micro-batch
F_o           time of an option besides its micro-batches: fill - lambda(longest) + g
lambda_o(l)   time that a micro-batch of length l adds
y_ro          whether pipeline r is option o
m_rol         its micro-batches of length l
T             time of the longest pipeline
============  ==========================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ortools.sat.python import cp_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.formulations.lengths.option import Option


class LengthsProgram:
    """Choose an option and the sequences of every pipeline.

    Parameters
    ----------
    seats
        Options of every pipeline.
    sequences
        n_l, the shortest first.
    cutoff
        Only plans that take less are of interest, in steps of 1 / ``SCALE`` ns.
    alike
        Pairs (r, r') of pipelines that could be exchanged.

    Attributes
    ----------
    model
        Minimises T.
    """

    def __init__(
        self,
        seats: Sequence[Sequence[Option]],
        sequences: Sequence[int],
        cutoff: int,
        alike: Sequence[tuple[int, int]] = (),
    ) -> None:
        self.model = cp_model.CpModel()
        self._seats, self._sequences = seats, sequences
        self._chosen = [
            [self.model.new_bool_var(f"y_{r}_{o}") for o in range(len(options))]
            for r, options in enumerate(seats)
        ]
        self._taken = [
            [self._counts(r, o, option) for o, option in enumerate(options)]
            for r, options in enumerate(seats)
        ]
        self._time = self.model.new_int_var(0, max(0, cutoff - 1), "T")
        self._one_option()
        self._all_sequences()
        self._longest()
        self._times()
        self._exchanged(alike)
        self.model.minimize(self._time)

    def _counts(self, r: int, o: int, option: Option) -> list[cp_model.IntVar]:
        """Return m_rol, at most what all sequences of a length make."""
        return [
            self.model.new_int_var(
                0,
                0 if rate < 0 else -(-n // option.per_microbatch),
                f"m_{r}_{o}_{length}",
            )
            for length, (rate, n) in enumerate(
                zip(option.rates, self._sequences, strict=False)
            )
        ]

    def _one_option(self) -> None:
        """y_ro = 1 for one o; m_rol <= ceil(n_l / b_o) y_ro."""
        for chosen, taken, options in zip(
            self._chosen, self._taken, self._seats, strict=True
        ):
            self.model.add_exactly_one(chosen)
            for one, counts, option in zip(chosen, taken, options, strict=True):
                for n, count in zip(self._sequences, counts, strict=False):
                    most = -(-n // option.per_microbatch)
                    self.model.add(count <= most * one)

    def _all_sequences(self) -> None:
        """Sum over r, o of b_o m_rol >= n_l: the last micro-batch may not be full."""
        for length, n in enumerate(self._sequences):
            room = [
                option.per_microbatch * counts[length]
                for taken, options in zip(self._taken, self._seats, strict=True)
                for counts, option in zip(taken, options, strict=True)
                if length < len(counts)
            ]
            self.model.add(sum(room) >= n)

    def _longest(self) -> None:
        """m_rol >= y_ro for the longest l of an option; at most n_l options have it."""
        of: list[list[cp_model.IntVar]] = [[] for _ in self._sequences]
        for chosen, taken, options in zip(
            self._chosen, self._taken, self._seats, strict=True
        ):
            for one, counts, option in zip(chosen, taken, options, strict=True):
                self.model.add(counts[option.longest] >= one)
                of[option.longest].append(one)
        for n, having in zip(self._sequences, of, strict=True):
            self.model.add(sum(having) <= n)

    def _times(self) -> None:
        """T >= sum over o of F_o y_ro + sum over l of lambda_o(l) m_rol."""
        for r in range(len(self._seats)):
            self.model.add(self._time >= self._spent(r))

    def _exchanged(self, alike: Sequence[tuple[int, int]]) -> None:
        """Require that of two exchangeable pipelines the first takes no less."""
        for first, other in alike:
            self.model.add(self._spent(first) >= self._spent(other))

    def _spent(self, r: int) -> cp_model.LinearExprT:
        terms, factors = [], []
        for one, counts, option in zip(
            self._chosen[r], self._taken[r], self._seats[r], strict=True
        ):
            terms += [one, *counts]
            factors += [option.fixed, *(max(rate, 0) for rate in option.rates)]
        return cp_model.LinearExpr.weighted_sum(terms, factors)

    def extract(
        self, value: Callable[[cp_model.IntVar], int]
    ) -> list[tuple[Option, tuple[int, ...]]]:
        """Return the option of every pipeline, and its micro-batches by length.

        Parameters
        ----------
        value
            Value of a variable in a solution.
        """
        found = []
        for chosen, taken, options in zip(
            self._chosen, self._taken, self._seats, strict=True
        ):
            o = next(o for o, one in enumerate(chosen) if value(one))
            counts = tuple(value(count) for count in taken[o])
            missing = len(self._sequences) - len(counts)
            found.append((options[o], (*counts, *(0,) * missing)))
        return found
