"""Check and price plans whose units have strategies of their own.

Nothing is shared with ``hetopt.pricing.units``: here stages are walked unit by unit.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.check.plan.packing import packing_findings
from hetopt.check.plan.rules import mesh_findings, pin_findings
from hetopt.check.plan.schedule.closed_form import closed_form
from hetopt.check.plan.schedule.times import Times, warmups
from hetopt.problem.training.choices import RESHARDING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Pipeline, Stage
    from hetopt.plans.strategy import Strategy
    from hetopt.problem.problem import Problem


def unit_findings(
    problem: Problem, table: CostTable, pipeline: Pipeline
) -> Iterator[str]:
    """Yield missing costs of units and the rules that their strategies break."""
    cluster = problem.clusters[0]
    if table.per_unit is None or len(problem.clusters) > 1:
        yield "table: no costs per unit, but units have strategies of their own"
        return
    parts = [
        part
        for part in table.per_unit.slices
        if part.microbatches == pipeline.microbatches
    ]
    if not parts:
        yield f"table: no costs per unit for {pipeline.microbatches} microbatches"
        return
    own = parts[0].clusters[0]
    known = dict(zip(own.strategies, own.microbatch.tolist(), strict=True))
    share = problem.training.global_batch // pipeline.microbatches
    seen: list[Strategy] = []
    for i, stage in enumerate(pipeline.stages):
        yield from _stage_findings(i, stage)
        if stage.cluster != cluster.name:
            yield f"cluster {stage.cluster!r}: unknown, expected {cluster.name}"
        for strategy in stage.unit_strategies or ():
            if strategy in seen:
                continue
            seen.append(strategy)
            if strategy not in known:
                yield (
                    f"stage {i}: the table has no {strategy} for a unit with "
                    f"{pipeline.microbatches} microbatches"
                )
            elif known[strategy] * strategy.dp != share:
                yield (
                    f"table: micro-batch {known[strategy]} of {strategy} does not use "
                    "the global batch exactly"
                )
            yield from mesh_findings(problem, cluster, strategy, pipeline.microbatches)
    hosted = [stage.strategy for stage in pipeline.stages]
    yield from packing_findings(cluster, hosted)


def _stage_findings(i: int, stage: Stage) -> Iterator[str]:
    """Yield contradictions between a stage and the strategies of its units."""
    strategies = stage.unit_strategies
    if strategies is None:
        yield f"stage {i}: no strategies per unit, other stages have some"
        return
    if len(strategies) != stage.end_unit - stage.first_unit:
        yield (
            f"stage {i}: {counted(len(strategies), 'strategy', 'ies')} for "
            f"{counted(stage.end_unit - stage.first_unit, 'unit')}"
        )
    counts = Counter(strategies)
    if not counts or counts[stage.strategy] < max(counts.values()):
        yield f"stage {i}: {stage.strategy} is not the strategy of the most units"
    for strategy in counts:
        if strategy.devices != stage.strategy.devices:
            yield (
                f"stage {i}: {strategy} takes {counted(strategy.devices, 'device')}, "
                f"the stage {stage.strategy.devices}"
            )


class PricedUnits:
    """Times, memory and UniAP's objective of a plan that passed ``unit_findings``."""

    def __init__(self, problem: Problem, table: CostTable, pipeline: Pipeline) -> None:
        assert table.per_unit is not None
        self.problem = problem
        self.table = table
        self.pipeline = pipeline
        self.edges = table.per_unit.edges
        self.slice: TableSlice = table.per_unit.at(pipeline.microbatches)
        self.warmups = tuple(stage.warmup for stage in pipeline.stages)
        own = self.slice.clusters[0]
        self.home: list[int] = []
        self.row: list[int] = []
        for i, stage in enumerate(pipeline.stages):
            for strategy in stage.unit_strategies or ():
                self.home.append(i)
                self.row.append(own.strategies.index(strategy))
        self.times = self._times()
        self.memory_bytes = self._memory()

    def _place(self, edge: tuple[int, int, int]) -> tuple[int, int, int]:
        layout = self.slice.clusters[0].layout
        u, v, tensor = edge
        return tensor, int(layout[self.row[u]]), int(layout[self.row[v]])

    def _crossing(self, boundary: int) -> list[tuple[int, int, int]]:
        return [
            edge
            for edge in self.edges
            if self.home[edge[0]] <= boundary < self.home[edge[1]]
        ]

    def _times(self) -> Times:
        own, p = self.slice.clusters[0], len(self.pipeline.stages)
        forward, backward, sync, once = [0] * p, [0] * p, [0] * p, [0] * p
        for unit, (i, row) in enumerate(zip(self.home, self.row, strict=True)):
            kind = self.table.units[unit]
            forward[i] += int(own.forward_ns[row, kind])
            backward[i] += int(own.backward_ns[row, kind])
            sync[i] += int(own.sync_unit_ns[row, kind])
            once[i] = max(once[i], int(own.sync_ns[row]))
        for edge in self.edges:
            i = self.home[edge[0]]
            if i == self.home[edge[1]]:
                assert self.slice.within_ns is not None
                moved = int(self.slice.within_ns[self._place(edge)])
                forward[i] += moved
                backward[i] += moved
        sync = [units + stage for units, stage in zip(sync, once, strict=True)]
        if self.slice.tied_ns is not None and p > 1:
            ends = (own.layout[self.row[0]], own.layout[self.row[-1]])
            for i in (0, p - 1):
                sync[i] += int(self.slice.tied_ns[ends])
        crossing = [self._crossing(j) for j in range(p - 1)]

        def total(name: str) -> tuple[int, ...]:
            matrix = getattr(self.slice, name)
            return tuple(
                sum(int(matrix[self._place(edge)]) for edge in edges)
                for edges in crossing
            )

        return Times(
            schedule=self.problem.training.schedule,
            microbatches=self.pipeline.microbatches,
            forward=(tuple(forward),),
            backward=(tuple(backward),),
            transfer=total("transfer_ns"),
            occupancy=total("occupancy_ns"),
            sync=tuple(sync),
        )

    def _memory(self) -> tuple[int, ...]:
        own, needs = self.slice.clusters[0], []
        for i, stage in enumerate(self.pipeline.stages):
            in_flight = min(self.warmups[i], self.pipeline.microbatches)
            kept, buffers, shortly = 0, 0, 0
            for unit in range(stage.first_unit, stage.end_unit):
                row, kind = self.row[unit], self.table.units[unit]
                kept += int(own.state_bytes[row, kind])
                kept += in_flight * int(own.activation_bytes[row, kind])
                buffers = max(buffers, int(own.fixed_bytes[row]))
                shortly = max(shortly, int(own.temporary_bytes[row, kind]))
            needs.append(kept + buffers + shortly)
        return tuple(needs)

    @property
    def uniap_ns(self) -> int:
        """Sum p + sum o + (c - 1) max(p, o); c micro-batches share the gradients."""
        own, c = self.slice.clusters[0], self.pipeline.microbatches
        costs = list(self.times.both)
        for unit, (i, row) in enumerate(zip(self.home, self.row, strict=True)):
            shared = int(own.sync_unit_ns[row, self.table.units[unit]])
            costs[i] += (shared + c - 1) // c
        costs += [2 * one_way for one_way in self.times.transfer]
        return sum(costs) + (c - 1) * max(costs)

    @property
    def closed_form_ns(self) -> Fraction:
        """The closed form in nanoseconds."""
        return closed_form([self.times], self.warmups)

    def findings(self) -> Iterator[str]:
        """Yield wrong warm-ups, memory and resharding."""
        stages = self.pipeline.stages
        expected = warmups(self.times, [stage.cluster for stage in stages])
        usable = self.table.usable_bytes[0]
        for i, stage in enumerate(stages):
            if stage.warmup != expected[i]:
                yield (
                    f"stage {i}: warmup {stage.warmup}, {self.times.schedule} gives "
                    f"{expected[i]}"
                )
            if self.memory_bytes[i] > usable:
                yield (
                    f"stage {i}: memory {self.memory_bytes[i]} bytes, {usable} are "
                    f"usable on {stage.cluster!r}"
                )
            chosen = self._resharding(i)
            if stage.resharding != chosen:
                yield f"stage {i}: resharding {stage.resharding}, expected {chosen}"
            if chosen is not None:
                domain = self.problem.pins.resharding
                yield from pin_findings("resharding", domain, chosen)

    def _resharding(self, i: int) -> str | None:
        """Return the resharding of the tensor nearest to the boundary after stage i."""
        edges = self._crossing(i)
        if not edges:
            return None
        u = max(edge[0] for edge in edges)
        nearest = min(edge for edge in edges if edge[0] == u)
        return RESHARDING[int(self.slice.resharding[self._place(nearest)])]
