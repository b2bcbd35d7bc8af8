"""A plan: pipelines of stages, each with its units, cluster and mesh."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hetopt.base.shown import Shown
from hetopt.plans.mix import Mix
from hetopt.plans.strategy import strategy_from_json, strategy_to_json
from hetopt.problem.training.training import written_epsilon

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.plans.strategy import Strategy
    from hetopt.problem.training.choices import Resharding, ScheduleName

PLAN_SCHEMA = "hetopt-plan/1"

#: Most pipelines that a plan may have side by side.
MOST_PIPELINES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
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
    first_unit: int
    end_unit: int
    strategy: Strategy
    warmup: int
    resharding: Resharding | None = None
    unit_strategies: tuple[Strategy, ...] | None = None

    @property
    def units(self) -> int:
        """Number of units of the stage."""
        return self.end_unit - self.first_unit


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The part of the batch and the nodes that one of several pipelines has.

    Attributes
    ----------
    batch
        Sequences of an iteration, at least 1.
    nodes
        Cluster name -> devices that the pipeline has in each of its nodes. A node may
        be divided among pipelines; clusters without a node are left out.
    """

    batch: int
    nodes: Mapping[str, tuple[int, ...]]

    def to_json(self) -> dict[str, Any]:
        """Return the share as plain JSON data."""
        nodes = {name: list(sizes) for name, sizes in self.nodes.items()}
        return {"batch": self.batch, "nodes": nodes}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Share:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        nodes = {name: tuple(sizes) for name, sizes in data["nodes"].items()}
        return cls(batch=data["batch"], nodes=nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
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

    microbatches: int
    stages: tuple[Stage, ...]
    share: Share | None = None
    mix: Mix | None = None

    @property
    def devices(self) -> int:
        """Devices used by all stages."""
        return sum(stage.strategy.devices for stage in self.stages)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Plan(Shown):
    """One pipeline, or several side by side, each with a share.

    Attributes
    ----------
    problem_digest, table_digest
        Digests of the problem and the latency table that the plan was made from.
    chunks
        Parts of the model that every stage holds. With several, the units of a stage
        are those of one part, numbered as if there were no other: ``chunk_units``.
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

    schedule: ScheduleName
    pipelines: tuple[Pipeline, ...]
    problem_digest: str
    table_digest: str
    chunks: int = 1
    warmup_epsilon: float | None = None

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
        end, last = self.pipeline.stages[-1].end_unit, self.chunks - 1
        held = []
        for chunk in range(self.chunks):
            # Between embedding and head, all chunks have the same number of units.
            before = chunk * (end - 2)
            first = max(stage.first_unit, min(chunk, 1)) + before
            held.append((first, min(stage.end_unit, end - (chunk < last)) + before))
        return tuple(held)

    @property
    def digest(self) -> str:
        """The SHA-256 of the plan's JSON, in hexadecimal."""
        text = json.dumps(self.to_json(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain JSON data."""
        return {
            "schema": PLAN_SCHEMA,
            "schedule": self.schedule,
            **({} if self.chunks == 1 else {"chunks": self.chunks}),
            **({"warmup_epsilon": e} if (e := self.warmup_epsilon) else {}),
            "problem_digest": self.problem_digest,
            "table_digest": self.table_digest,
            "pipelines": [
                {
                    "microbatches": pipeline.microbatches,
                    **{
                        name: given.to_json()
                        for name in ("share", "mix")
                        if (given := getattr(pipeline, name)) is not None
                    },
                    "stages": [_stage_to_json(stage) for stage in pipeline.stages],
                }
                for pipeline in self.pipelines
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Plan:
        """Read what ``to_json`` wrote; raises KeyError, TypeError or ValueError."""
        if data["schema"] != PLAN_SCHEMA:
            msg = f"schema is {data['schema']!r}, expected {PLAN_SCHEMA!r}"
            raise ValueError(msg)
        return cls(
            schedule=data["schedule"],
            chunks=data.get("chunks", 1),
            warmup_epsilon=written_epsilon(data),
            problem_digest=data["problem_digest"],
            table_digest=data["table_digest"],
            pipelines=tuple(
                Pipeline(
                    microbatches=pipeline["microbatches"],
                    stages=tuple(
                        _stage_from_json(stage) for stage in pipeline["stages"]
                    ),
                    share=None
                    if pipeline.get("share") is None
                    else Share.from_json(pipeline["share"]),
                    mix=None
                    if pipeline.get("mix") is None
                    else Mix.from_json(pipeline["mix"]),
                )
                for pipeline in data["pipelines"]
            ),
        )


def _stage_to_json(stage: Stage) -> dict[str, Any]:
    data = {
        "cluster": stage.cluster,
        "first_unit": stage.first_unit,
        "end_unit": stage.end_unit,
        **strategy_to_json(stage.strategy),
        "warmup": stage.warmup,
    }
    if stage.resharding is not None:
        data["resharding"] = stage.resharding
    if stage.unit_strategies is not None:
        data["unit_strategies"] = [
            strategy_to_json(strategy) for strategy in stage.unit_strategies
        ]
    return data


def _stage_from_json(data: Mapping[str, Any]) -> Stage:
    unit_strategies = data.get("unit_strategies")
    return Stage(
        cluster=data["cluster"],
        first_unit=data["first_unit"],
        end_unit=data["end_unit"],
        strategy=strategy_from_json(data),
        warmup=data["warmup"],
        resharding=data.get("resharding"),
        unit_strategies=None
        if unit_strategies is None
        else tuple(strategy_from_json(item) for item in unit_strategies),
    )
