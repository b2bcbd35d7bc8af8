"""Times and memory of a plan's stages, from the rows of its latency table."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.check.plan.rules import pin_findings
from hetopt.check.plan.schedule.chunks import Rounds, most_held
from hetopt.check.plan.schedule.folding import Folded, pair_bytes
from hetopt.check.plan.schedule.meeting import Alone, ways_of
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.plan.schedule.times import Times, warmups
from hetopt.check.plan.schedule.weights import split_bytes
from hetopt.problem.training.choices import RESHARDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.check.plan.schedule.folding import Step
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Pipeline
    from hetopt.problem.problem import Problem


def rows_of(
    problem: Problem, table: CostTable, pipeline: Pipeline
) -> tuple[list[tuple[int, int]], list[str]]:
    """Return (cluster, strategy index) of every stage, and faults of the table."""
    names = [cluster.name for cluster in problem.clusters]
    parts = [s for s in table.slices if s.microbatches == pipeline.microbatches]
    if not parts:
        return [], [f"table: no entry for {pipeline.microbatches} microbatches"]
    rows, missing = [], []
    for i, stage in enumerate(pipeline.stages):
        if stage.cluster not in names:
            missing.append(f"stage {i}: no costs for cluster {stage.cluster!r}")
            continue
        cluster = names.index(stage.cluster)
        own = parts[0].clusters[cluster]
        if stage.strategy not in own.strategies:
            missing.append(
                f"stage {i}: the table has no {stage.strategy} on {stage.cluster!r} "
                f"with {pipeline.microbatches} microbatches"
            )
            continue
        k = own.strategies.index(stage.strategy)
        share = problem.training.global_batch // pipeline.microbatches
        if int(own.microbatch[k]) * stage.strategy.dp != share:
            missing.append(
                f"table: micro-batch {own.microbatch[k]} of {stage.strategy} on "
                f"{stage.cluster!r} with {pipeline.microbatches} microbatches does "
                f"not use the global batch exactly"
            )
        rows.append((cluster, k))
    return rows, missing


class PricedStages:
    """Times and memory of a pipeline whose units and table rows are valid."""

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        pipeline: Pipeline,
        rows: Sequence[tuple[int, int]],
    ) -> None:
        self.problem = problem
        self.table = table
        self.pipeline = pipeline
        self.rows = rows
        self.slice: TableSlice = table.at(pipeline.microbatches)
        self.warmups = tuple(stage.warmup for stage in pipeline.stages)
        self.times = self._times()
        self.memory_bytes = tuple(self._memory(i) for i in range(len(pipeline.stages)))

    def _kinds(self, i: int) -> Sequence[int]:
        stage = self.pipeline.stages[i]
        return self.table.units[stage.first_unit : stage.end_unit]

    def _costs(self, i: int) -> tuple[ClusterTable, int]:
        cluster, k = self.rows[i]
        return self.slice.clusters[cluster], k

    def _layout(self, i: int) -> int:
        own, k = self._costs(i)
        return int(own.layout[k])

    def _boundary(self, i: int) -> tuple[int, int, int]:
        """Return cut class and both layouts of the boundary after stage i."""
        cut = self.table.cuts[self.pipeline.stages[i].end_unit - 1]
        return cut, self._layout(i), self._layout(i + 1)

    def _way_back(self, cut: int) -> tuple[int, int, int]:
        """Return cut class and both layouts from the last stage to the first."""
        return cut, self._layout(len(self.rows) - 1), self._layout(0)

    def _times(self) -> Times:
        p = len(self.rows)
        forward, backward, sync = [], [], []
        later: list[int] = []
        for i in range(p):
            own, k = self._costs(i)
            kinds = self._kinds(i)
            forward.append(sum(int(own.forward_ns[k, kind]) for kind in kinds))
            backward.append(sum(int(own.backward_ns[k, kind]) for kind in kinds))
            if own.weight_ns is not None:
                later.append(sum(int(own.weight_ns[k, kind]) for kind in kinds))
            units = sum(int(own.sync_unit_ns[k, kind]) for kind in kinds)
            sync.append(int(own.sync_ns[k]) + units)
        tied = self.slice.tied_ns
        if tied is not None and p > 1:
            extra = int(tied[self._layout(0), self._layout(p - 1)])
            sync[0] += extra
            sync[-1] += extra
        cuts = [self._boundary(i) for i in range(p - 1)]
        clusters = [cluster for cluster, _ in self.rows]
        alone = Alone(
            in_phases=STEPS[self.problem.training.schedule].all_first,
            occupancy=tuple(int(self.slice.occupancy_ns[cut]) for cut in cuts),
            ways=ways_of(self.slice, clusters),
        )
        if self.table.way_back is not None:
            return self._times_of_chunks(cuts, forward, backward, sync)
        return Times(
            schedule=self.problem.training.schedule,
            microbatches=self.pipeline.microbatches,
            forward=tuple(forward),
            backward=tuple(backward),
            transfer=tuple(int(self.slice.transfer_ns[cut]) for cut in cuts),
            occupancy=alone.together(),
            sync=tuple(sync),
            alone=alone if any(alone.ways) else None,
            later=None if self.table.pairs else tuple(later) or None,
            folded=self._folded() if self.table.pairs else None,
        )

    def _pair(self, kind: int) -> tuple[int, int]:
        """Return the kinds of the two model units that a paired kind stands for."""
        assert self.table.pairs is not None
        return self.table.pairs[kind - len(self.table.kinds)]

    def _folded(self) -> Folded:
        """Return the times of folded stages, from the units of their pairs."""
        took, between, fill = [], [], []
        for i in range(len(self.rows)):
            own, k = self._costs(i)
            assert own.weight_ns is not None
            forward, backward, weight = own.forward_ns, own.backward_ns, own.weight_ns
            spent: dict[Step, int] = defaultdict(int)
            between.append(0)
            fill.append(0)
            for kind in self._kinds(i):
                f = b = w = 0
                for up, unit in enumerate(self._pair(kind)):
                    spent["forward", bool(up)] += int(forward[k, unit])
                    later, back = int(weight[k, unit]), int(backward[k, unit])
                    spent["weight", bool(up)] += later
                    spent["backward", bool(up)] += back - later
                    f, b, w = f + int(forward[k, unit]), b + back - later, w + later
                between[-1] += max(f, b)
                fill[-1] += max(-(-b // 2), b - w, f - b // 2)
            took.append(spent)
        return Folded(tuple(took), tuple(between), tuple(fill))

    def _times_of_chunks(
        self,
        cuts: list[tuple[int, int, int]],
        forward: list[int],
        backward: list[int],
        sync: list[int],
    ) -> Times:
        """Return the times of stages of several chunks.

        Parameters
        ----------
        cuts
            All boundaries but the way back.
        forward, backward, sync
            Times of every stage.
        """
        p, chunks = len(self.rows), self.table.chunks
        assert self.table.way_back is not None
        every = [*cuts, self._way_back(self.table.way_back)]
        around = [cluster for cluster, _ in (*self.rows, self.rows[0])]
        occupancy = [int(self.slice.occupancy_ns[cut]) for cut in every]
        # the closed form counts links and uplinks twice, whether they are shared or not
        twice = [
            max([alone, *(2 * way.keeps for way in ways)])
            for alone, ways in zip(
                occupancy, ways_of(self.slice, around, meeting=False), strict=True
            )
        ]
        transfer = [int(self.slice.transfer_ns[cut]) for cut in every]
        rounds = Rounds(
            chunks=chunks,
            back=(transfer[-1], twice[-1]),
            first=self._end_times(0),
            last=self._end_times(p - 1),
            occupancy=tuple(occupancy),
            ways=ways_of(self.slice, around),
        )
        return Times(
            schedule=self.problem.training.schedule,
            microbatches=self.pipeline.microbatches,
            forward=tuple(forward),
            backward=tuple(backward),
            transfer=tuple(transfer[:-1]),
            occupancy=tuple(twice[:-1]),
            sync=tuple(sync),
            rounds=rounds,
        )

    def _end_times(self, i: int) -> tuple[int, int]:
        """Return v times the table's times of the stage's units outside the body."""
        own, k = self._costs(i)
        kinds = [kind for kind in self._kinds(i) if not self.table.body[kind]]
        return (
            self.table.chunks * sum(int(own.forward_ns[k, kind]) for kind in kinds),
            self.table.chunks * sum(int(own.backward_ns[k, kind]) for kind in kinds),
        )

    def _activations(self, i: int, kind: int) -> int:
        """Return the bytes of a unit's activations in flight, with what waits for w."""
        own, k = self._costs(i)
        each = int(own.activation_bytes[k, kind])
        if own.weight_bytes is None:
            return self._held(i, kind) * each
        waits, p = int(own.weight_bytes[k, kind]), len(self.rows)
        q = self.pipeline.microbatches
        if self.table.pairs is not None:
            held = p, q, self.warmups[i], not self.table.body[kind]
            return pair_bytes(own, k, self._pair(kind), held)
        return split_bytes(each, waits, self.warmups[i], p, q)

    def _held(self, i: int, kind: int) -> int:
        """Return how many activations of a unit the stage holds at once."""
        p, q, v = len(self.rows), self.pipeline.microbatches, self.table.chunks
        if v > 1 and not self.table.body[kind]:
            return most_held(p, q, v, i, 0 if i == 0 else v - 1)
        return min(self.warmups[i], q * v)

    def _memory(self, i: int) -> int:
        own, k = self._costs(i)
        kinds = self._kinds(i)
        held = {kind: self._activations(i, kind) for kind in set(kinds)}
        return (
            int(own.fixed_bytes[k])
            + sum(int(own.state_bytes[k, kind]) for kind in kinds)
            + sum(held[kind] for kind in kinds)
            + max(int(own.temporary_bytes[k, kind]) for kind in kinds)
        )

    def findings(self) -> Iterator[str]:
        """Yield wrong warm-ups, memory and resharding."""
        stages = self.pipeline.stages
        clusters = [stage.cluster for stage in stages]
        # under auto the plan chooses its warm-ups
        free = STEPS[self.times.schedule].free
        epsilon = self.problem.training.epsilon
        expected = self.warmups if free else warmups(self.times, clusters, epsilon)
        for i, (before, after) in enumerate(pairwise(self.warmups), start=1):
            if free and after > before:
                yield f"stage {i}: warmup {after}, more than {before} before it"
        for i, stage in enumerate(stages):
            if stage.warmup != expected[i]:
                yield (
                    f"stage {i}: warmup {stage.warmup}, {self.times.schedule} gives "
                    f"{expected[i]}"
                )
            usable = self.table.usable_bytes[self.rows[i][0]]
            if self.memory_bytes[i] > usable:
                yield (
                    f"stage {i}: memory {self.memory_bytes[i]} bytes, {usable} are "
                    f"usable on {stage.cluster!r}"
                )
            yield from self._resharding_findings(i)

    def _resharding_findings(self, i: int) -> Iterator[str]:
        """Yield findings on the resharding at the boundary after a stage."""
        written = self.pipeline.stages[i].resharding
        if i < len(self.rows) - 1:
            boundary = self._boundary(i)
        elif self.table.way_back is not None:
            boundary = self._way_back(self.table.way_back)
        else:
            if written is not None:
                said = f"stage {i}: resharding {written}"
                yield f"{said}, but no stage follows the last one"
            return
        chosen = RESHARDING[int(self.slice.resharding[boundary])]
        if written != chosen:
            yield f"stage {i}: resharding {written}, the table says {chosen}"
        yield from pin_findings("resharding", self.problem.pins.resharding, chosen)
