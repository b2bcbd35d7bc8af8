"""What a launcher is asked to run: a problem, its plan, and where its ranks go."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.export.placing import Placement, place
from hetopt.problem.model import ATTENTION, END_KINDS, MLP_DOWN, MLP_UP

if TYPE_CHECKING:
    from hetopt.plan import Plan, Stage
    from hetopt.problem.problem import Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A plan of one pipeline, ready to be written down for a launcher."""

    problem: Problem
    plan: Plan
    placement: Placement

    @classmethod
    def of(cls, problem: Problem, plan: Plan) -> Job:
        """Place a plan that has been checked; InputError as ``place``."""
        if len(plan.pipelines) != 1:
            msg = f"the plan has {len(plan.pipelines)} pipelines, expected one"
            raise InputError(msg, field="pipelines")
        return cls(problem=problem, plan=plan, placement=place(problem, plan))

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
        """Ranks in all."""
        return len(self.placement.ranks)

    def microbatch_size(self, stage: Stage) -> int:
        """Sequences of one micro-batch on each replica of a stage."""
        batch = self.problem.training.global_batch
        return batch // (self.microbatches * stage.strategy.dp)

    @property
    def layers(self) -> tuple[int, ...] | None:
        """Transformer layers of each stage; None if a layer is cut in two."""
        units = self.problem.model.units
        counts = []
        for stage in self.stages:
            held = [u for u in units[stage.first_unit : stage.end_unit]]
            body = [kind for kind in held if kind not in END_KINDS]
            if self.problem.model.granularity == "layer":
                counts.append(len(body))
                continue
            if body[0] != ATTENTION or body[-1] != MLP_DOWN:
                return None
            counts.append(body.count(MLP_UP))
        return tuple(counts)

    @property
    def whole_layers(self) -> tuple[int, ...] | None:
        """Layers per stage, a cut one with its attention; None if a stage has none.

        Exactly ``layers`` where no layer is cut.
        """
        if self.layers is not None:
            return self.layers
        units = self.problem.model.units
        counts = tuple(
            units[stage.first_unit : stage.end_unit].count(ATTENTION)
            for stage in self.stages
        )
        return counts if all(counts) else None

    def whole_units(self) -> list[tuple[int, int]]:
        """Return first and end unit of each stage with ``whole_layers``.

        Raises
        ------
        ValueError
            A stage holds no attention of its own.
        """
        layers = self.whole_layers
        if layers is None:
            msg = "a stage holds no attention of its own"
            raise ValueError(msg)
        per_layer = 3 if self.problem.model.granularity == "block" else 1
        ends = [0, *(1 + per_layer * count for count in accumulate(layers))]
        ends[-1] += 1
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
    def warms_up_as_1f1b(self) -> bool:
        """Whether every stage does; counts beyond q do not matter."""
        stages, most = len(self.stages), self.microbatches
        return all(
            min(stage.warmup, most) == min(stages - number, most)
            for number, stage in enumerate(self.stages)
        )

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """Longest rows of stages of one cluster and strategy, as (first, end)."""
        rows: list[tuple[int, int]] = []
        for number, stage in enumerate(self.stages):
            if rows:
                before = self.stages[rows[-1][0]]
                if (before.cluster, before.strategy) == (stage.cluster, stage.strategy):
                    rows[-1] = (rows[-1][0], number + 1)
                    continue
            rows.append((number, number + 1))
        return tuple(rows)
