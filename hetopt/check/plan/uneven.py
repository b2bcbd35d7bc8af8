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
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Pipeline, Plan
    from hetopt.problem.problem import Problem


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
    if not cuts[0] or cuts[-2] == end:
        yield f"cuts: {[*cuts]}, expected the embedding first and the head last"
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


def kinds_by_chunk(table: CostTable) -> list[list[Sequence[int]]]:
    """Return the kinds of the units of each chunk, by stage."""
    chunks = [*pairwise((0, *(table.layout or ())))]
    held: list[Sequence[int]] = [table.units[first:end] for first, end in chunks]
    p = len(held) // table.chunks
    return [[*held[i::p]] for i in range(p)]


def chunk_bytes(
    own: ClusterTable, k: int, chunks: list[Sequence[int]], p: int, q: int, i: int
) -> int:
    """Return the bytes that a device of stage i of p needs, if it holds these kinds."""
    each = [sum(int(own.activation_bytes[k, f]) for f in kinds) for kinds in chunks]
    v, held, most = len(chunks), 0, 0
    ahead = 2 * (p - i - 1) + (v - 1) * p + 1
    for kind, chunk, _ in in_groups(Position(i, p, q, v, ahead)):
        held += each[chunk] if kind == FORWARD else -each[chunk]
        most = max(most, held)
    units = [kind for kinds in chunks for kind in kinds]
    return (
        int(own.fixed_bytes[k])
        + sum(int(own.state_bytes[k, kind]) for kind in units)
        + most
        + max(int(own.temporary_bytes[k, kind]) for kind in units)
    )


class PricedChunks(PricedStages):
    """Times and memory of a pipeline whose cuts and table rows are valid."""

    def _chunks(self, i: int) -> list[Sequence[int]]:
        """Return the kinds of the units of each chunk of a stage."""
        return kinds_by_chunk(self.table)[i]

    def _kinds(self, i: int) -> Sequence[int]:
        return [kind for chunk in self._chunks(i) for kind in chunk]

    def _pass_ns(self, column: str, chunk: int, i: int) -> int:
        own, k = self._costs(i)
        return sum(
            int(getattr(own, column)[k, kind]) for kind in self._chunks(i)[chunk]
        )

    def _after(self, i: int, chunk: int = 0) -> tuple[int, int, int]:
        """Return cut class and both layouts where a chunk's activations go."""
        layout, p = self.table.layout or (), len(self.rows)
        cut = self.table.cuts[layout[chunk * p + i] - 1]
        return cut, self._layout(i), self._layout((i + 1) % p)

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
        p, q = len(self.rows), self.pipeline.microbatches
        return chunk_bytes(own, k, self._chunks(i), p, q, i)


def priced_stages(
    problem: Problem,
    table: CostTable,
    pipeline: Pipeline,
    rows: Sequence[tuple[int, int]],
) -> PricedStages:
    """Return times and memory of a pipeline whose units and table rows are valid."""
    kind = PricedStages if table.layout is None else PricedChunks
    return kind(problem, table, pipeline, rows)
