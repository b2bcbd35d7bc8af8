"""A plan: pipelines of stages, each with its units, cluster and mesh."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

from annotated_types import Ge, MinLen

from hetopt.base.fields import Count, Digest, Positive, Whole
from hetopt.base.file_record import INLINE, FileRecord
from hetopt.base.shown import Shown
from hetopt.plans.mix import Mix
from hetopt.plans.strategy import Strategy
from hetopt.problem.training.choices import Resharding, ScheduleName
from hetopt.problem.training.epsilon import written_epsilon

PLAN_SCHEMA = "hetopt-plan/1"
#: Of plans whose chunks differ.
CUTS_SCHEMA = "hetopt-plan/2"

#: Most pipelines that a plan may have side by side.
MOST_PIPELINES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(FileRecord):
    """One pipeline stage.

    Attributes
    ----------
    cluster
        Name of the cluster that hosts it.
    first_unit, end_unit
        Units ``first_unit <= u < end_unit``, counted from 0.
    strategy
        Mesh and recomputation of the stage; those of most units, if they differ.
    warmup
        Forward passes before its first backward pass (W of MODEL.md section 4).
    resharding
        How activations reach the next stage. None on the last stage, unless stages have
        several chunks: then how they reach the first stage again.
    unit_strategies
        One strategy per unit if units may differ, else None. Either all stages of a
        pipeline have them or none has.

    Examples
    --------
    >>> import hetopt
    >>> first = hetopt.plan("problem.yaml").best.plan.pipeline.stages[0]
    >>> first.first_unit, first.units == first.end_unit
    (0, True)
    """

    cluster: str
    first_unit: Whole
    end_unit: Count
    strategy: Annotated[Strategy, INLINE]
    warmup: Count
    resharding: Resharding | None = None
    unit_strategies: tuple[Strategy, ...] | None = None

    @property
    def units(self) -> int:
        """Number of units of the stage."""
        return self.end_unit - self.first_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(FileRecord):
    """The part of the batch and the nodes that one of several pipelines has.

    Attributes
    ----------
    batch
        Sequences of an iteration, at least 1.
    nodes
        Cluster name -> devices that the pipeline has in each of its nodes. A node may
        be divided among pipelines; clusters without a node are left out.
    """

    batch: Count
    nodes: Mapping[str, Annotated[tuple[Count, ...], MinLen(1)]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline(FileRecord):
    """Stages in pipeline order; every stage runs all ``microbatches``.

    Attributes
    ----------
    share
        Its part of batch and nodes; None for a single pipeline, which has them all.
    mix
        Its sequences if they have several lengths; None: they have one length.

    Examples
    --------
    >>> import hetopt
    >>> pipeline = hetopt.plan("problem.yaml").best.plan.pipeline
    >>> pipeline.devices == sum(stage.strategy.devices for stage in pipeline.stages)
    True
    """

    microbatches: Count
    share: Share | None = None
    mix: Mix | None = None
    stages: Annotated[tuple[Stage, ...], MinLen(1)]

    @property
    def devices(self) -> int:
        """Devices used by all stages."""
        return sum(stage.strategy.devices for stage in self.stages)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(FileRecord, Shown):
    """One pipeline, or several side by side, each with a share.

    Attributes
    ----------
    problem_digest, table_digest
        Digests of the problem and the latency table that the plan was made from.
    chunks
        Parts of the model that every stage holds. With several, the units of a stage
        are those of one part, numbered as if there were no other: ``chunk_units``.
    cuts
        Where chunks differ: the end of each, counted in the whole model, first the
        first chunks of all stages, then the second ones, and so on; p v numbers. The
        units of a stage are then those of all its chunks, counted stage by stage.
        None: all chunks are alike.
    warmup_epsilon
        The epsilon that the warm-ups of ``h-1f1b`` follow; None with other schedules.

    Examples
    --------
    >>> import hetopt
    >>> plan = hetopt.plan("problem.yaml").best.plan
    >>> print(plan)  # doctest: +ELLIPSIS
    fast 1 stage dp2, 1 micro-batch, virtual-1f1b
    <BLANKLINE>
    stage  cluster  units  strategy  devices  warm-ups
    ──────────────────────────────────────────────────
        0  fast       0-5  dp2             2         1
    problem  ...
    >>> hetopt.Plan.from_json(plan.to_json()) == plan
    True
    """

    SCHEMA: ClassVar[str] = PLAN_SCHEMA
    FURTHER: ClassVar[tuple[str, ...]] = (CUTS_SCHEMA,)

    schedule: ScheduleName
    chunks: Annotated[int, Ge(1)] = 1
    cuts: tuple[Whole, ...] | None = None
    warmup_epsilon: Positive | None = None
    problem_digest: Digest
    table_digest: Digest
    pipelines: Annotated[tuple[Pipeline, ...], MinLen(1)]

    @property
    def pipeline(self) -> Pipeline:
        """The only pipeline of the plan; raises ValueError if there are more."""
        if len(self.pipelines) != 1:
            msg = f"the plan has {len(self.pipelines)} pipelines, expected one"
            raise ValueError(msg)
        return self.pipelines[0]

    @property
    def devices(self) -> int:
        """Devices used by all pipelines."""
        return sum(pipeline.devices for pipeline in self.pipelines)

    @property
    def clusters(self) -> tuple[str, ...]:
        """Names of the clusters that host a stage, in the order of pipelines."""
        stages = (stage for each in self.pipelines for stage in each.stages)
        return tuple(dict.fromkeys(stage.cluster for stage in stages))

    def alone(self, number: int) -> Plan:
        """Return the plan of one pipeline, without its share."""
        own = replace(self.pipelines[number], share=None)
        return replace(self, pipelines=(own,))

    @property
    def per_unit(self) -> bool:
        """Whether units have their own strategies."""
        return any(
            stage.unit_strategies is not None
            for pipeline in self.pipelines
            for stage in pipeline.stages
        )

    def chunk_units(self, stage: Stage) -> tuple[tuple[int, int], ...]:
        """Return first and end unit of each chunk, numbered in the whole model.

        The units at the ends of the model belong to the first stage's first chunk and
        to the last stage's last.
        """
        stages = next(own.stages for own in self.pipelines if stage in own.stages)
        if self.cuts is not None:
            own, ends = stages.index(stage), (0, *self.cuts)
            places = range(own, len(self.cuts), len(stages))
            return tuple((ends[place], ends[place + 1]) for place in places)
        end, last = stages[-1].end_unit, self.chunks - 1
        held = []
        for chunk in range(self.chunks):
            # Between embedding and head, all chunks have the same number of units.
            before = chunk * (end - 2)
            first = max(stage.first_unit, min(chunk, 1)) + before
            held.append((first, min(stage.end_unit, end - (chunk < last)) + before))
        return tuple(held)

    @property
    def ends(self) -> tuple[int, ...]:
        """The end of every chunk in the whole model, in the order of ``cuts``."""
        held = [self.chunk_units(stage) for stage in self.pipeline.stages]
        return tuple(end for chunk in zip(*held, strict=True) for _, end in chunk)

    @property
    def schema(self) -> str:
        """The schema of the plan's file, which is a later one if chunks differ."""
        return PLAN_SCHEMA if self.cuts is None else CUTS_SCHEMA

    @property
    def digest(self) -> str:
        """The SHA-256 of the plan's JSON, in hexadecimal."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @classmethod
    def of_keys(cls, values: dict[str, Any]) -> Self:
        """Make a plan, with the epsilon that older files do not say."""
        epsilon = written_epsilon(values)
        return super(Plan, cls).of_keys({**values, "warmup_epsilon": epsilon})
