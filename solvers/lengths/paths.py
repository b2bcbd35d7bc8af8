"""Bounds on the simulated time of pipelines, for many ways to cut the units at once.

Paths through stage i (``hetopt.schedule.paths``), with L the longest length, n_l
micro-batches of length l, and the longest first. The first micro-batch comes to stage i
directly, or goes all the way and back to it; the stage runs its passes, in the second
case without W_i forwards and the first backward; the last micro-batch goes back to the
first stage, which ends with its g. The lengths of the W_i forwards, and of the last
micro-batch, are not known: they count with the largest phi, and the least beta and
kappa. So the time is at least

    ahead_i + sum over l of n_l tau_i(l)    and
    fill_i - W_i max phi_i - beta_i(L) + sum over l of n_l tau_i(l).

A weighted mean over the stages is a bound, too. Those of all cuts have weights in
proportion to how quick stages are, so that it hardly matters which stage a unit is on:
each unit is where it adds the least. If the n_l are known, weights are such that it
matters still less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.lengths.option import SCALE
from hetopt.solvers.lengths.prices import (
    ROUNDING,
    Alone,
    Costs,
    Prices,
    Pricing,
    evenly,
    rates_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.shapes import Floats, Ints


class PathPricing(Pricing):
    """Prices pipelines by a path through the stage that has the most to do.

    Attributes
    ----------
    takes_all
        Whether there is one pipeline, whose numbers of micro-batches are known.
    """

    takes_all = False

    def _prices(
        self, costs: dict[int, Costs], sync: Ints, warmups: Sequence[int]
    ) -> dict[int, Prices]:
        found, held = {}, np.array(warmups)
        for longest, own in costs.items():
            taken = {n: each for n, each in costs.items() if n <= longest}
            phi = np.max([each.forward for each in taken.values()], axis=0)
            beta = np.min([each.backward for each in taken.values()], axis=0)
            kappa = np.min([each.kappa for each in taken.values()], axis=0)
            back = _before(own.backward - beta) + _across(own.kappa - kappa)
            fixed = np.concatenate(
                [
                    _before(own.forward + beta) + _across(own.kappa + kappa),
                    own.fill[:, None] - back - held * phi - own.backward,
                ],
                axis=1,
            )
            fixed += sync[:, :1]
            tau = {
                n: np.tile(each.forward + each.backward, 2) for n, each in taken.items()
            }
            whole = fixed + sum(self.counts[n] * each for n, each in tau.items())
            rows, most = np.arange(len(whole)), whole.argmax(axis=1)
            rates = {n: SCALE * each[rows, most] for n, each in tau.items()}
            found[longest] = Prices(
                SCALE * fixed[rows, most], rates_of(rates, longest), own.fits
            )
        return found

    def _least(
        self, known: dict[int, Alone], warmups: Ints
    ) -> tuple[int, tuple[int, ...]]:
        longest, hops = known[max(known)], min(own.hops for own in known.values())
        back = np.min([own.backward for own in known.values()], axis=0)
        most = np.max([own.forward for own in known.values()], axis=0)
        all_way = longest.forward + back, longest.backward - back
        fixed = _mean(longest.shares, *all_way, -warmups * most - back, hops)
        rates = [-1] * (max(known) + 1)
        for n, own in known.items():
            rates[n] = evenly(own, longest.shares)
        fixed = max(0, fixed)
        if not self.takes_all or len(known) < len(self.lengths):
            return fixed, tuple(rates)
        passes, later = -back, np.zeros_like(warmups)
        for n, count in reversed([*enumerate(self.counts)]):
            # Those of the first W_i that have this length are not waited for.
            held = np.clip(warmups - later, 0, count)
            later = later + count
            passes = passes + (count - held) * known[n].forward
            passes = passes + count * known[n].backward
        level = _levelled(*all_way, passes)
        if level is not None:
            spent = sum(map(int.__mul__, rates, self.counts))
            fixed = max(fixed, _mean(level, *all_way, passes, hops) - spent)
        return fixed, tuple(rates)


def _levelled(alone: Floats, before: Floats, own: Floats) -> Floats | None:
    """Return the weights with which all units may be on any stage alike; (p, 1).

    All units on stage i add alone_i + own_i times its weight + before_i times the
    weights before it. None if no weights of at least 0 do that.

    Parameters
    ----------
    alone, before, own
        By stage and unit; (p, U).
    """
    sums, rows, most = np.zeros(2), [], own.sum(axis=1)
    if most.min() <= 0:
        return None
    for i, each in enumerate(most):
        # The weight as a multiple of what all units add, and a constant.
        rest = np.array([1.0, -alone[i].sum()]) - before[i].sum() * sums
        rows.append(rest / each)
        sums = sums + rows[-1]
    if sums[0] <= 0:
        return None
    weights = np.array(rows) @ [(1 - sums[1]) / sums[0], 1.0]
    if min(weights) < 0 or not weights.sum() > 0:
        return None
    found: Floats = (weights / weights.sum())[:, None]
    return found


def _mean(
    weights: Floats, alone: Floats, before: Floats, own: Floats, hops: int
) -> int:
    """Return the weighted mean that no cut falls below, in steps; see ``_levelled``."""
    ahead = np.cumsum(weights)[:, None] - weights
    each = alone + ahead * before + weights * own
    slack = float(np.abs(each).max(axis=0).sum()) * ROUNDING
    return int((float(each.min(axis=0).sum()) + hops - slack) * SCALE) - 1


def _before(each: Ints) -> Ints:
    """Return the sum over the stages before each; (S, p)."""
    sums: Ints = np.cumsum(each, axis=1) - each
    return sums


def _across(each: Ints) -> Ints:
    """Return the sum over the boundaries before each stage; (S, p)."""
    return np.pad(np.cumsum(each, axis=1), ((0, 0), (1, 0)))
