"""Price a plan whose units have their own strategies.

Passes, states, activations and synchronisation of a stage are sums over its units,
each with its own strategy; what a stage needs once (buffers, temporary memory, the
part of g that does not depend on units) is the maximum over its units. A tensor between
units of one stage is resharded forward, and its gradient backward; a tensor that leaves
the stage crosses every boundary on its way, from its sender's layout to its receiver's,
one tensor after the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.errors import InputError
from hetopt.schedule.period import check_warmups_fall
from hetopt.schedule.times import PipelineTimes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable, UnitTable
    from hetopt.plans.plan import Plan, Stage


class UnitPrice:
    """Costs of one pipeline on the only cluster of a table.

    Attributes
    ----------
    times
        Times of the pipeline, with the plan's warm-up counts.
    memory_bytes
        Memory per device of every stage.
    activation_bytes
        Part of it for one micro-batch in flight.
    recompute_ns
        Part of each stage's backward time that recomputes activations; see ``Price``.
    uniap_ns
        UniAP's objective: sum p + sum o + (c - 1) max(p, o).

    Raises
    ------
    InputError
        The table lacks something that the plan names, or stages and units do not match.
    """

    def __init__(self, plan: Plan, table: CostTable) -> None:
        pipeline = plan.pipeline
        if table.per_unit is None:
            msg = "the latency table has no costs per unit"
            raise InputError(msg, field="pipelines.0.stages.0.unit_strategies")
        self._table, self._costs, self._pipeline = table, table.per_unit, pipeline
        self._part = _slice(self._costs, pipeline.microbatches)
        self._rows: list[int] = []
        self._stage_of: list[int] = []
        for number, stage in enumerate(pipeline.stages):
            self._rows += self._find(stage, f"pipelines.0.stages.{number}")
            self._stage_of += [number] * stage.units
        self._layouts = self._part.clusters[0].layout[self._rows].tolist()
        self.times = self._times(plan)
        self.activation_bytes = tuple(
            self._sum("activation_bytes", units) for units in self._units
        )
        self.recompute_ns = tuple(map(self._recompute, self._units))
        self.memory_bytes = tuple(
            self._memory(units, inflight)
            for units, inflight in zip(self._units, self.times.inflight, strict=True)
        )
        self.uniap_ns = self._uniap()

    def _find(self, stage: Stage, field: str) -> Iterator[int]:
        """Yield the row of every unit of a stage."""
        strategies = stage.unit_strategies
        if strategies is None or len(strategies) != stage.units:
            found = "none" if strategies is None else str(len(strategies))
            msg = f"{found} for {stage.units} units, expected one for each"
            raise InputError(msg, field=f"{field}.unit_strategies")
        if stage.cluster != self._table.cluster_names[0]:
            msg = f"cluster {stage.cluster!r} is not in the latency table"
            raise InputError(msg, field=f"{field}.cluster")
        known = self._part.clusters[0].strategies
        for place, strategy in enumerate(strategies):
            where = f"{field}.unit_strategies.{place}"
            if strategy not in known:
                at = counted(self._pipeline.microbatches, "micro-batch", "es")
                msg = (
                    f"{strategy} at {at} is not among the latency table's strategies "
                    "per unit"
                )
                raise InputError(msg, field=where)
            if strategy.devices != stage.strategy.devices:
                msg = (
                    f"{strategy} takes {counted(strategy.devices, 'device')}, the "
                    f"stage {stage.strategy.devices}"
                )
                raise InputError(msg, field=where)
            yield known.index(strategy)

    @property
    def _units(self) -> list[range]:
        return [
            range(stage.first_unit, stage.end_unit) for stage in self._pipeline.stages
        ]

    def _sum(self, name: str, units: range) -> int:
        """Return the sum of one coefficient over units, each with its strategy."""
        values = getattr(self._part.clusters[0], name)
        return sum(int(values[self._rows[u], self._table.units[u]]) for u in units)

    def _most(self, name: str, units: range) -> int:
        """Return the largest of a coefficient that strategies of these units have."""
        values = getattr(self._part.clusters[0], name)
        return max(int(values[self._rows[u]]) for u in units)

    def _tensors(self) -> Iterator[tuple[int, int, tuple[int, int, int]]]:
        """Yield sender's stage, receiver's stage, and index into the matrices."""
        for u, v, tensor in self._costs.edges:
            place = (tensor, self._layouts[u], self._layouts[v])
            yield self._stage_of[u], self._stage_of[v], place

    def _times(self, plan: Plan) -> PipelineTimes:
        part, units = self._part, self._units
        count = len(units)
        within = [0] * count
        transfer, occupancy = [0] * (count - 1), [0] * (count - 1)
        for i, j, place in self._tensors():
            if i == j and part.within_ns is not None:
                within[i] += int(part.within_ns[place])
            for boundary in range(i, j):
                transfer[boundary] += int(part.transfer_ns[place])
                occupancy[boundary] += int(part.occupancy_ns[place])
        sync = [
            self._most("sync_ns", held) + self._sum("sync_unit_ns", held)
            for held in units
        ]
        if part.tied_ns is not None and count > 1:
            tied = int(part.tied_ns[self._layouts[0], self._layouts[-1]])
            sync[0] += tied
            sync[-1] += tied
        forward = [self._sum("forward_ns", held) for held in units]
        backward = [self._sum("backward_ns", held) for held in units]
        warmups = tuple(stage.warmup for stage in self._pipeline.stages)
        try:
            check_warmups_fall(warmups)
            return PipelineTimes(
                schedule=plan.schedule,
                microbatches=self._pipeline.microbatches,
                forward_ns=tuple(map(sum, zip(forward, within, strict=True))),
                backward_ns=tuple(map(sum, zip(backward, within, strict=True))),
                transfer_ns=tuple(transfer),
                occupancy_ns=tuple(occupancy),
                sync_ns=tuple(sync),
                warmups=warmups,
            )
        except ValueError as error:
            raise InputError(str(error), field="pipelines.0.stages") from error

    def _memory(self, units: range, inflight: int) -> int:
        temporary = self._part.clusters[0].temporary_bytes
        return (
            self._most("fixed_bytes", units)
            + self._sum("state_bytes", units)
            + inflight * self._sum("activation_bytes", units)
            + max(int(temporary[self._rows[u], self._table.units[u]]) for u in units)
        )

    def _recompute(self, units: range) -> int | None:
        """Return the time that recomputation adds to backward; None if unknown."""
        costs, more = self._part.clusters[0], 0
        for u in units:
            strategy = costs.strategies[self._rows[u]]
            try:
                plain = costs.row(replace(strategy, recompute="none"))
            except KeyError:
                return None
            times = costs.backward_ns[:, self._table.units[u]]
            more += int(times[self._rows[u]]) - int(times[plain])
        return more if more >= 0 else None

    def _uniap(self) -> int:
        """Return the objective, with each unit's part of g spread over all c."""
        count = self._pipeline.microbatches
        shares = self._part.clusters[0].sync_unit_ns
        stages = [
            both
            + sum(
                -(-int(shares[self._rows[u], self._table.units[u]]) // count)
                for u in units
            )
            for both, units in zip(self.times.round_trip_ns, self._units, strict=True)
        ]
        boundaries = [2 * transfer for transfer in self.times.transfer_ns]
        slowest = max(*stages, *boundaries, 0)
        return sum(stages) + sum(boundaries) + (count - 1) * slowest


def crossing(costs: UnitTable, end_unit: int) -> tuple[int, int, int] | None:
    """Return the edge whose resharding is reported for the boundary before a unit.

    Of all edges that cross it, the one with the nearest ends; None if there is none.
    """
    edges = [edge for edge in costs.edges if edge[0] < end_unit <= edge[1]]
    return max(edges, key=lambda edge: (edge[0], -edge[1]), default=None)


def _slice(costs: UnitTable, microbatches: int) -> TableSlice:
    try:
        return costs.at(microbatches)
    except KeyError:
        known = ", ".join(str(part.microbatches) for part in costs.slices)
        msg = (
            f"is {microbatches}, expected one for which the latency table has "
            "strategies "
            f"per unit: {known or 'none'}"
        )
        raise InputError(msg, field="pipelines.0.microbatches") from None
