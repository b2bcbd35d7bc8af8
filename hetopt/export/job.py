"""What a launcher is asked to run: a problem, its plan, and where its ranks run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import TYPE_CHECKING

from hetopt.cost.chunks import one_chunk
from hetopt.export.labels import labels
from hetopt.export.placing import Placement, place, place_several
from hetopt.problem.division import part_of
from hetopt.problem.meshes import tensor_degrees
from hetopt.problem.model.kinds import (
    ATTENTION,
    ATTENTION_WINDOW,
    END_KINDS,
    MLP_DOWN,
    MLP_UP,
    PREDICTION,
)
from hetopt.problem.training.choices import INTERLEAVED
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.warmup import warmup_counts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hetopt.export.placing import PlacedNode
    from hetopt.plans.plan import Plan, Stage
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.choices import Recompute

#: The port where the ranks meet unless the user's environment sets another.
MASTER_PORT = 29500

#: (dp, cp, tp).
Degrees = tuple[int, int, int]


def parts_of(problem: Problem, plan: Plan) -> list[tuple[Problem, Plan]]:
    """Return the problem and the plan of each of several pipelines."""
    shares = [each.share for each in plan.pipelines if each.share is not None]
    division = [share.nodes for share in shares]
    return [
        (part_of(problem, division, number, share.batch), plan.alone(number))
        for number, share in enumerate(shares)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan with the place of each rank.

    Attributes
    ----------
    parts
        Each of several pipelines as a job, with its part of the problem and its ranks,
        numbered across all pipelines; empty if there is one pipeline. ``stages``,
        ``microbatches`` and what follows from them are for one pipeline only.
    """

    problem: Problem
    plan: Plan
    placement: Placement
    parts: tuple[Job, ...] = ()

    @classmethod
    def of(cls, problem: Problem, plan: Plan) -> Job:
        """Return the job of a checked plan; InputError as ``place_several``."""
        if len(plan.pipelines) == 1:
            return cls(problem=problem, plan=plan, placement=place(problem, plan))
        alone = parts_of(problem, plan)
        placement = place_several(problem, plan, [own for own, _ in alone])
        parts = tuple(
            cls(problem=own, plan=part, placement=placement.part(number))
            for number, (own, part) in enumerate(alone)
        )
        return cls(problem=problem, plan=plan, placement=placement, parts=parts)

    @property
    def pipelines(self) -> tuple[Job, ...]:
        """Every pipeline as a job; the job itself if it has one pipeline."""
        return self.parts or (self,)

    def side_by_side(self, parts: Sequence[Job]) -> Job:
        """Return the job with other parts, which have the same nodes and batch."""
        training = replace(
            parts[0].problem.training,
            global_batch=self.problem.training.global_batch,
        )
        pipelines = tuple(
            replace(part.plan.pipeline, share=own.share)
            for part, own in zip(parts, self.plan.pipelines, strict=True)
        )
        ranks = tuple(rank for part in parts for rank in part.placement.ranks)
        return replace(
            self,
            problem=replace(self.problem, training=training),
            plan=replace(self.plan, pipelines=pipelines),
            placement=replace(self.placement, ranks=ranks),
            parts=tuple(parts),
        )

    def launched_as(
        self,
        *,
        recompute: Iterable[Recompute],
        zero: int,
        degrees: Iterable[Degrees] | None = None,
    ) -> Job:
        """Return the job with whole layers, p2p everywhere, and these strategies.

        Parameters
        ----------
        recompute
            Of each stage; length p.
        zero
            ZeRO stage of all pipeline stages.
        degrees
            Of each stage, with as many devices as before; None to keep them.

        Raises
        ------
        ValueError
            A stage holds no attention.
        """
        kept = [stage.strategy for stage in self.stages]
        own = [(each.dp, each.cp, each.tp) for each in kept]
        degrees = own if degrees is None else list(degrees)
        stages = [
            replace(
                stage,
                first_unit=first,
                end_unit=end,
                strategy=replace(
                    stage.strategy, dp=dp, cp=cp, tp=tp, recompute=policy, zero=zero
                ),
                resharding="p2p",
                unit_strategies=None,
            )
            for stage, (first, end), (dp, cp, tp), policy in zip(
                self.stages, self.whole_units(), degrees, recompute, strict=True
            )
        ]
        if self.plan.chunks == 1:
            stages[-1] = replace(stages[-1], resharding=None)
        pipeline = replace(self.plan.pipeline, stages=tuple(stages))
        plan = replace(self.plan, pipelines=(pipeline,))
        # Ranks move only if the degrees of their stages change.
        return (
            replace(self, plan=plan) if degrees == own else Job.of(self.problem, plan)
        )

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Stages in pipeline order; length p."""
        return self.plan.pipeline.stages

    @property
    def microbatches(self) -> int:
        """Micro-batches per iteration, q."""
        return self.plan.pipeline.microbatches

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return len(self.placement.ranks)

    @property
    def label(self) -> str:
        """The problem's name as a label that needs no quotes in a file."""
        return labels([self.problem.name])[self.problem.name]

    @property
    def cluster_labels(self) -> dict[str, str]:
        """Labels of clusters that need no quotes in a file, by name."""
        return labels(cluster.name for cluster in self.problem.clusters)

    def cluster_of(self, part: Stage | PlacedNode) -> Cluster:
        """Return the cluster of a stage or a node."""
        return self.problem.clusters[self.problem.cluster_index(part.cluster)]

    @property
    def clusters(self) -> tuple[Cluster, ...]:
        """The clusters that stages are on."""
        names = dict.fromkeys(stage.cluster for stage in self.stages)
        return tuple(
            self.problem.clusters[self.problem.cluster_index(n)] for n in names
        )

    def permits_tp(self, stage: Stage, tp: int) -> bool:
        """Whether model and node permit a tensor-parallel degree of a stage."""
        return tp in tensor_degrees(self.problem.model, self.cluster_of(stage))

    def visible_devices(self, node: PlacedNode) -> str:
        """Return the variable that limits a process to some devices of a node."""
        return self.cluster_of(node).accelerator.visible_devices

    def microbatch_size(self, stage: Stage) -> int:
        """Return the sequences of one micro-batch on each replica of a stage."""
        batch = self.problem.training.global_batch
        return batch // (self.microbatches * stage.strategy.dp)

    def _held(self, stage: Stage) -> list[tuple[str, ...]]:
        """Return the kinds of the units of each chunk; of one if chunks are alike."""
        model = self.problem.model
        if self.plan.cuts is not None:
            return [model.units[a:b] for a, b in self.plan.chunk_units(stage)]
        units = one_chunk(model, self.plan.chunks).units
        return [units[stage.first_unit : stage.end_unit]]

    def kinds_of(self, stage: Stage) -> tuple[str, ...]:
        """Return the kinds of a stage's units: in one chunk, or in all that differ."""
        return tuple(chain.from_iterable(self._held(stage)))

    @property
    def layers(self) -> tuple[int, ...] | None:
        """Transformer layers of each stage; None if a layer is cut.

        They are those of one chunk, or of all of them if chunks differ. Layers that
        predict further tokens do not count.
        """
        ends, counts = {*END_KINDS, PREDICTION}, []
        for stage in self.stages:
            held = [[k for k in each if k not in ends] for each in self._held(stage)]
            if self.problem.model.granularity == "layer":
                counts.append(sum(map(len, held)))
                continue
            for body in filter(None, held):
                if body[0] in (MLP_UP, MLP_DOWN) or body[-1] != MLP_DOWN:
                    return None
            counts.append(sum(body.count(MLP_UP) for body in held))
        return tuple(counts)

    @property
    def whole_layers(self) -> tuple[int, ...] | None:
        """Whole layers per stage; None if a stage gets none, or chunks differ.

        The same as ``layers`` if no layer is cut; a cut layer goes to the stage that
        has its attention.
        """
        if self.layers is not None or self.plan.cuts is not None:
            return self.layers
        counts = tuple(
            sum(kind in (ATTENTION, ATTENTION_WINDOW) for kind in self.kinds_of(stage))
            for stage in self.stages
        )
        return counts if all(counts) else None

    def whole_units(self) -> list[tuple[int, int]]:
        """Return first and end unit of each stage with ``whole_layers``."""
        if self.layers is not None:
            return [(stage.first_unit, stage.end_unit) for stage in self.stages]
        layers = self.whole_layers
        if layers is None:
            msg = "a stage holds no attention of its own"
            raise ValueError(msg)
        per_layer = 3 if self.problem.model.granularity == "block" else 1
        ends = [0, *(1 + per_layer * count for count in accumulate(layers))]
        if not rule_of(self.plan.schedule).folded:
            ends[-1] += 2 if self.problem.model.predictions else 1
        return list(pairwise(ends))

    @property
    def zero_stages(self) -> tuple[int, ...]:
        """The ZeRO stage of each pipeline stage."""
        default = self.problem.training.zero
        return tuple(
            default if stage.strategy.zero is None else stage.strategy.zero
            for stage in self.stages
        )

    @property
    def warmups_of_1f1b(self) -> tuple[int, ...]:
        """Warm-ups of 1F1B with the plan's chunks, by stage."""
        chunks = self.plan.chunks
        return tuple(
            warmup_counts(
                "1f1b" if chunks == 1 else INTERLEAVED,
                microbatches=self.microbatches,
                crosses=[False] * (len(self.stages) - 1),
                round_trip_ns=[0] * len(self.stages),
                transfer_ns=[0] * (len(self.stages) - 1),
                chunks=chunks,
            )
        )

    @property
    def warms_up_as_1f1b(self) -> bool:
        """Whether every stage warms up as in 1F1B with the plan's chunks.

        Counts are compared up to the number of passes of a stage.
        """
        most = self.microbatches * self.plan.chunks
        return all(
            min(stage.warmup, most) == min(count, most)
            for stage, count in zip(self.stages, self.warmups_of_1f1b, strict=True)
        )

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """Longest runs of stages with one cluster and strategy, as (first, end)."""
        rows: list[tuple[int, int]] = []
        for number, stage in enumerate(self.stages):
            if rows:
                before = self.stages[rows[-1][0]]
                if (before.cluster, before.strategy) == (stage.cluster, stage.strategy):
                    rows[-1] = (rows[-1][0], number + 1)
                    continue
            rows.append((number, number + 1))
        return tuple(rows)
