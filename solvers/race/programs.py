"""Slices, bounds and programs of one problem, which a worker computes and caches."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.chunks import with_stages
from hetopt.cost.folding import at_any_stages
from hetopt.formulations.ceiling import within
from hetopt.formulations.chain import Chain
from hetopt.formulations.program import ProgramData
from hetopt.formulations.restricting import restrict
from hetopt.formulations.scale import (
    PERIOD_SCALE,
    scaled_above,
    scaled_below,
    ticks_above,
)
from hetopt.formulations.space import undominated
from hetopt.pricing.price import pipeline_times
from hetopt.solvers.bounds.bound_q import Left, left_within
from hetopt.solvers.bounds.boxes import BoxBounds, largest_box_bounds_bytes
from hetopt.solvers.bounds.by_count import focus, survey
from hetopt.solvers.bounds.relaxation import Relaxation
from hetopt.solvers.decisions.assembly import plan_of, value_of
from hetopt.solvers.decisions.copies import canonical
from hetopt.solvers.decisions.identical import leaders
from hetopt.solvers.race.device_time import least_ns
from hetopt.solvers.race.messages import NO_CUTOFF

if TYPE_CHECKING:
    from hetopt.cost.table.slice import TableSlice
    from hetopt.formulations.decision import Decision
    from hetopt.problem.training.pins import Pins
    from hetopt.problem.training.principles import Principles
    from hetopt.solvers.race.messages import Payload

#: Relaxations that are cached where consecutive tasks mostly have the same q.
_RELAXATIONS = 4

#: With more strategies at a q, dominated ones are removed before it is bounded.
_MANY = 4000

#: Once the cutoff falls below this share of the last one, strategies are removed again.
_KEPT = 0.98


class Programs:
    """Slices, bounds and programs of one problem.

    Parameters
    ----------
    most_bytes
        Memory of the worker; it limits how many bounds on boxes are cached.
    keep_all
        Whether tasks go from one q to another, so that all relaxations are kept.
    """

    def __init__(self, payload: Payload, most_bytes: int, *, keep_all: bool) -> None:
        self.problem = payload.problem
        self.table = payload.table
        self.top = payload.top
        self.principles = payload.principles
        self._whole_q = payload.whole_q
        self.chain = Chain.of(payload.table)
        kept = most_bytes // (2 * largest_box_bounds_bytes(self.table))
        self._cutoff = NO_CUTOFF
        self.part = lru_cache(maxsize=None)(self._part)
        self._undominated = lru_cache(maxsize=None)(self._undominated_of)
        self._worthwhile = lru_cache(maxsize=None)(self._worthwhile_of)
        self._left = lru_cache(maxsize=None)(self._left_of)
        relaxations = None if keep_all else _RELAXATIONS
        self.relaxation = lru_cache(maxsize=relaxations)(self._relaxation)
        self.box_bounds = lru_cache(maxsize=max(2, kept))(self._box_bounds)
        self.leaders = lru_cache(maxsize=None)(self._leaders)

    def answer_within(self, cutoff: int) -> None:
        """Remove strategies that no plan within a cutoff may use.

        Cached values stay if the cutoff is hardly smaller than the last one.
        """
        if not _KEPT * self._cutoff <= cutoff <= self._cutoff:
            self.part.cache_clear()
            self._worthwhile.cache_clear()
            self._left.cache_clear()
            self.relaxation.cache_clear()
            self._cutoff = cutoff

    def _part(self, microbatches: int) -> TableSlice:
        part = self._worthwhile(microbatches)
        left = self._left(microbatches)
        return part if left is None else restrict(part, left.keep)

    def _left_of(self, microbatches: int) -> Left | None:
        """Return what bounds on the whole q leave within the cutoff, if they apply."""
        if not self._whole_q or self._cutoff == NO_CUTOFF:
            return None
        bounds = self._boxes_of(self._worthwhile(microbatches))
        return left_within(bounds, ticks_above(self._cutoff))

    def _undominated_of(self, microbatches: int) -> TableSlice:
        """Return a slice, without its dominated strategies if it has many.

        With degrees of experts, one strategy in thirty is left. Removing the others
        pays for bounds on a whole q, which read each strategy many times.
        """
        part = self.table.at(microbatches)
        # The next best plans may use strategies that a better one dominates.
        if self.top > 1 or not self._whole_q or part.strategy_count <= _MANY:
            return part
        return undominated(self.table, part, self.chain, self.principles)

    def _worthwhile_of(self, microbatches: int) -> TableSlice:
        """Return a slice without strategies that are dominated or beyond the cutoff."""
        part = self._undominated(microbatches)
        if self._cutoff != NO_CUTOFF and self.principles.sharing == "one":
            limit = ticks_above(self._cutoff)
            least = least_ns(part, self.chain)
            part = restrict(part, [np.flatnonzero(own <= limit) for own in least])
        if self.top > 1:
            # The next best plans may use strategies that a better one dominates.
            return part
        return undominated(self.table, part, self.chain, self.principles)

    def _box_bounds(self, microbatches: int) -> BoxBounds:
        return self._boxes_of(self._undominated(microbatches))

    def _boxes_of(self, part: TableSlice) -> BoxBounds:
        return BoxBounds(
            table=self.table,
            part=at_any_stages(part),
            chain=self.chain,
            pins=self.problem.rules,
            most_stages=self._most_stages(),
        )

    def _most_stages(self) -> int:
        counts = self.problem.stage_counts
        return max(p for p in counts if p <= self.chain.length)

    def _relaxation(self, microbatches: int) -> Relaxation:
        return self.relaxed(microbatches, self.principles)

    def relaxed(self, microbatches: int, principles: Principles) -> Relaxation:
        """Return the relaxation of one q under these principles."""
        return Relaxation(
            table=self.table,
            part=at_any_stages(self.part(microbatches)),
            chain=self.chain,
            pins=self.problem.rules,
            most_stages=self._most_stages(),
            principles=principles,
        )

    def at_stages(self, microbatches: int, stages: int) -> Relaxation:
        """Return the relaxation of plans of p = ``stages``; valid for no other p.

        It knows the passes that every stage holds ahead, the more the larger p is
        (``hetopt.cost.chunks.with_stages``).
        """
        chain = self.chain
        lead, trail = (np.array(end) > 0 for end in (chain.lead, chain.trail))
        part = with_stages(self.part(microbatches), lead, trail, stages)
        return Relaxation(
            table=self.table,
            part=part,
            chain=chain,
            pins=self.problem.rules,
            most_stages=stages,
            principles=self.principles,
        )

    def data(
        self, part: TableSlice, pins: Pins, stages: int, cutoff: int
    ) -> ProgramData:
        """Return the program of one (p, q) within a cutoff."""
        return replace(
            ProgramData.of(
                self.table, part, self.chain, pins, stages=stages, cutoff=cutoff
            ),
            principles=self.principles,
            leaders=self.leaders(part.microbatches),
        )

    def focused(
        self, microbatches: int, stages: int, cutoff: int
    ) -> ProgramData | None:
        """Return the program within the cutoff, or None when a bound refutes it."""
        relaxation = self.relaxation(microbatches)
        # Rounded up, as the relaxation adds up floats.
        limit = ticks_above(cutoff)
        narrowed = focus(relaxation, stages, cutoff=limit)
        if narrowed.bound > limit:
            return None
        part = within(restrict(self.part(microbatches), narrowed.keep), cutoff)
        least, most = narrowed.period_min, narrowed.period_max
        left = self._left(microbatches)
        if left is not None:
            least, most = max(least, left.low), min(most, left.high)
        longest = int(min(most * PERIOD_SCALE, cutoff))
        return replace(
            self.data(part, self.problem.rules, stages, cutoff),
            objective_min=scaled_below(narrowed.bound),
            period_min=scaled_below(least),
            period_max=scaled_above(longest),
        )

    def least(self, microbatches: int, stages: int) -> int:
        """Return a lower bound on one program; NO_CUTOFF if it has no plan."""
        found = survey(self.relaxation(microbatches), cutoff=None)
        bound = found.bound[stages]
        return int(bound * PERIOD_SCALE) if np.isfinite(bound) else NO_CUTOFF

    def canonical(self, decision: Decision) -> Decision:
        """Return the copy of a plan that the tie rule prefers."""
        return canonical(decision, self.leaders(decision.microbatches))

    def _leaders(self, microbatches: int) -> tuple[int, ...]:
        return leaders(
            self.table,
            self.table.at(microbatches),
            self.problem.rules,
            self.principles,
        )

    def value(self, decision: Decision) -> int:
        """Return a decision's exact objective."""
        return value_of(pipeline_times(plan_of(decision, self.table, ""), self.table))
