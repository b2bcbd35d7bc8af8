"""Times and memory of a plan's stages, from the rows of its latency table."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

from hetopt.check.plan.rules import pin_findings
from hetopt.check.plan.schedule.closed_form import closed_form
from hetopt.check.plan.schedule.meeting import Alone, ways_of
from hetopt.check.plan.schedule.orders import most_held
from hetopt.check.plan.schedule.schedules import STEPS
from hetopt.check.plan.schedule.times import Times, alike, warmups
from hetopt.problem.training.choices import RESHARDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from fractions import Fraction

    from hetopt.check.plan.schedule.times import ByChunk
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Pipeline
    from hetopt.problem.problem import Problem


def split_bytes(kept: int, waits: int, warm: int, p: int, q: int) -> int:
    """Return the bytes that one unit of a stage holds if gradients of weights wait.

    Parameters
    ----------
    kept, waits
        Bytes of a micro-batch until B, and from then on until w.
    warm
        Forwards before its first backward.
    """
    before = min(warm, q)
    # While B runs, one of these may already hold what waits for w.
    return before * max(kept, waits) + (min(p, q) - before) * waits


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

    @cached_property
    def memory_bytes(self) -> tuple[int, ...]:
        """Of a device of each stage."""
        return tuple(self._memory(i) for i in range(len(self.rows)))

    @property
    def closed_form_ns(self) -> Fraction:
        """The closed form in nanoseconds."""
        return closed_form([self.times], self.warmups)

    def _kinds(self, i: int) -> Sequence[int]:
        stage = self.pipeline.stages[i]
        return self.table.units[stage.first_unit : stage.end_unit]

    def _costs(self, i: int) -> tuple[ClusterTable, int]:
        cluster, k = self.rows[i]
        return self.slice.clusters[cluster], k

    def _layout(self, i: int) -> int:
        own, k = self._costs(i)
        return int(own.layout[k])

    def _after(self, i: int) -> tuple[int, int, int] | None:
        """Return cut class and both layouts of the boundary after stage i.

        After the last stage that is the way back to the first, if there is one.
        """
        p, cut = len(self.rows), self.table.way_back
        if i + 1 < p:
            cut = self.table.cuts[self.pipeline.stages[i].end_unit - 1]
        return (
            None if cut is None else (cut, self._layout(i), self._layout((i + 1) % p))
        )

    @cached_property
    def times(self) -> Times:
        """What the schedule depends on."""
        part = self.slice
        around = [cluster for cluster, _ in self.rows]
        cuts = [*filter(None, map(self._after, range(len(around))))]
        if self.table.way_back is not None:
            around.append(around[0])
        kappa, omega = (
            tuple(int(each[cut]) for cut in cuts)
            for each in (part.transfer_ns, part.occupancy_ns)
        )
        crossing: tuple[ByChunk, ByChunk] = (), ()
        if self.table.way_back is not None:
            v = self.table.chunks
            crossing = alike(kappa, v), alike(omega, v)
        return self._times(kappa, omega, around, crossing)

    def _times(
        self,
        kappa: tuple[int, ...],
        omega: tuple[int, ...],
        around: Sequence[int],
        crossing: tuple[ByChunk, ByChunk] = ((), ()),
    ) -> Times:
        """Return all times; those of boundaries are given.

        Parameters
        ----------
        around
            Cluster of every stage; of the first once more if there is a way back.
        """
        p, part, schedule = len(self.rows), self.slice, self.problem.training.schedule
        sync = [self._sync(i) for i in range(p)]
        if part.tied_ns is not None and p > 1:
            extra = int(part.tied_ns[self._layout(0), self._layout(p - 1)])
            sync[0] += extra
            sync[-1] += extra
        alone = Alone(
            in_phases=STEPS[schedule].all_first,
            occupancy=omega,
            ways=ways_of(part, around),
        )
        times = Times(
            schedule=schedule,
            microbatches=self.pipeline.microbatches,
            forward=self._by_chunk("forward_ns"),
            backward=self._by_chunk("backward_ns"),
            weight=self._by_chunk("weight_ns") if STEPS[schedule].splits else (),
            transfer=kappa,
            occupancy=alone.together(),
            sync=tuple(sync),
            alone=alone,
            crossing=crossing,
        )
        if self.table.pairs is None:
            return times
        entries = [self._folded(i) for i in range(p)]
        handed, filled = zip(*entries, strict=True)
        return replace(times, handed=handed, filled=filled)

    def _sync(self, i: int) -> int:
        """Return the stage's g without tied embeddings."""
        own, k = self._costs(i)
        units = sum(int(own.sync_unit_ns[k, kind]) for kind in self._kinds(i))
        return int(own.sync_ns[k]) + units

    def _pair(self, kind: int) -> tuple[int, int]:
        """Return the kinds of the two model units that a paired kind stands for."""
        assert self.table.pairs is not None
        return self.table.pairs[kind - len(self.table.kinds)]

    def _by_chunk(self, column: str) -> tuple[tuple[int, ...], ...]:
        """Return the times of passes of one kind, by chunk and stage."""
        chunks = self.table.chunks if self.table.pairs is None else 2
        return tuple(
            tuple(self._pass_ns(column, chunk, i) for i in range(len(self.rows)))
            for chunk in range(chunks)
        )

    def _pass_ns(self, column: str, chunk: int, i: int) -> int:
        own, k = self._costs(i)
        spent, v = 0, self.table.chunks
        for kind in self._kinds(i):
            unit, times = kind, 1
            if self.table.pairs is not None:
                unit = self._pair(kind)[chunk]
            elif v > 1 and not self.table.body[kind]:
                # The table spreads its time over all chunks, but one holds it.
                times = v if chunk == (0 if i == 0 else v - 1) else 0
            spent += times * int(getattr(own, column)[k, unit])
        return spent

    def _folded(self, i: int) -> tuple[int, int]:
        """Return what a folded stage adds to windows before it and to the fill."""
        own, k = self._costs(i)
        assert own.weight_ns is not None
        handed = filled = 0
        for kind in self._kinds(i):
            f, both, w = (
                sum(int(each[k, unit]) for unit in self._pair(kind))
                for each in (own.forward_ns, own.backward_ns, own.weight_ns)
            )
            b = both - w
            handed += max(f, b)
            filled += max(-(-b // 2), b - w, f - b // 2)
        return handed, filled

    def _activations(self, i: int, kind: int) -> int:
        """Return the bytes of a unit's activations in flight, with what waits for w."""
        own, k = self._costs(i)
        each = int(own.activation_bytes[k, kind])
        if own.weight_bytes is None:
            return self._held(i, kind) * each
        waits, p = int(own.weight_bytes[k, kind]), len(self.rows)
        q = self.pipeline.microbatches
        if self.table.pairs is not None:
            down, up = (
                (int(own.activation_bytes[k, unit]), int(own.weight_bytes[k, unit]))
                for unit in self._pair(kind)
            )
            steps = STEPS[self.problem.training.schedule]
            if not self.table.body[kind]:
                first, second = steps.most_at_ends(p, q)
                return first * max(down) + second * max(up)
            rest, more = steps.pair_bytes(p, q, down, up)
            return int(rest + (min(self.warmups[i], q) - p) * more)
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
        boundary = self._after(i)
        if boundary is None:
            if written is not None:
                said = f"stage {i}: resharding {written}"
                yield f"{said}, but no stage follows the last one"
            return
        chosen = RESHARDING[int(self.slice.resharding[boundary])]
        if written != chosen:
            yield f"stage {i}: resharding {written}, the table says {chosen}"
        yield from pin_findings("resharding", self.problem.pins.resharding, chosen)
