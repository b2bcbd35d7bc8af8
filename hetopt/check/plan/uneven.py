"""Times and memory of stages whose chunks differ, unit by unit of the whole model."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.check.plan.pricing import PricedStages
from hetopt.check.plan.schedule.orders import FORWARD, Position, in_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.check.plan.schedule.times import Times
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan


def cuts_findings(table: CostTable, plan: Plan) -> Iterator[str]:
    """Yield what is wrong with where chunks end, if they differ."""
    p, v = len(plan.pipeline.stages), plan.chunks
    cuts, end = plan.cuts, len(table.units)
    if cuts != table.layout:
        said, expected = (each and [*each] for each in (cuts, table.layout))
        yield f"cuts: {said}, the table is of {expected}"
        return
    if cuts is None:
        return
    if len(cuts) != p * v:
        yield f"cuts: {len(cuts)}, expected {v} for each of {counted(p, 'stage')}"
        return
    starts = [0, *cuts]
    if starts != sorted(starts) or cuts[-1] != end:
        yield f"cuts: {[*cuts]}, expected ascending numbers up to {end}"
        return
    reached = 0
    for i, stage in enumerate(plan.pipeline.stages):
        held = sum(cuts[at] - starts[at] for at in range(i, p * v, p))
        if (stage.first_unit, stage.end_unit) != (reached, reached + held):
            yield (
                f"stage {i}: units {stage.first_unit} to {stage.end_unit}, the cuts "
                f"give it {reached} to {reached + held}"
            )
        reached += held


class PricedChunks(PricedStages):
    """Times and memory of a pipeline whose cuts and table rows are valid."""

    def _held(self, i: int) -> list[Sequence[int]]:
        """Return the kinds of the units of each chunk of a stage."""
        chunks = [*pairwise((0, *(self.table.layout or ())))]
        own = chunks[i :: len(self.rows)]
        return [self.table.units[first:end] for first, end in own]

    def _kinds(self, i: int) -> Sequence[int]:
        return [kind for chunk in self._held(i) for kind in chunk]

    def _pass_ns(self, column: str, chunk: int, i: int) -> int:
        own, k = self._costs(i)
        return sum(int(getattr(own, column)[k, kind]) for kind in self._held(i)[chunk])

    def _after(self, i: int, chunk: int = 0) -> tuple[int, int, int]:
        """Return cut class and both layouts where a chunk's activations go."""
        layout, p = self.table.layout or (), len(self.rows)
        # What an empty first chunk passes on is what the embedding gives.
        end = min(max(layout[chunk * p + i], 1), len(self.table.cuts))
        return self.table.cuts[end - 1], self._layout(i), self._layout((i + 1) % p)

    @cached_property
    def times(self) -> Times:
        """What the schedule depends on."""
        p, v, part = len(self.rows), self.table.chunks, self.slice
        kappa, omega = (
            tuple(
                tuple(
                    int(each[self._after(i, chunk)])
                    if (chunk, i) != (v - 1, p - 1)
                    else 0
                    for i in range(p)
                )
                for chunk in range(v)
            )
            for each in (part.transfer_ns, part.occupancy_ns)
        )
        longest = [tuple(map(max, zip(*each, strict=True))) for each in (kappa, omega)]
        around = [*(cluster for cluster, _ in self.rows), self.rows[0][0]]
        return self._times(longest[0], longest[1], around, (kappa, omega))

    def _memory(self, i: int) -> int:
        own, k = self._costs(i)
        p, q, v = len(self.rows), self.pipeline.microbatches, self.table.chunks
        each = [
            sum(int(own.activation_bytes[k, kind]) for kind in kinds)
            for kinds in self._held(i)
        ]
        ahead, held, most = 2 * (p - i - 1) + (v - 1) * p + 1, 0, 0
        for kind, chunk, _ in in_groups(Position(i, p, q, v, ahead)):
            held += each[chunk] if kind == FORWARD else -each[chunk]
            most = max(most, held)
        kinds = self._kinds(i)
        return (
            int(own.fixed_bytes[k])
            + sum(int(own.state_bytes[k, kind]) for kind in kinds)
            + most
            + max(int(own.temporary_bytes[k, kind]) for kind in kinds)
        )
