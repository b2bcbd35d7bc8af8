"""What ``job.json`` says of a job, for the training program and to read it back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

from annotated_types import Ge, Le, MaxLen, MinLen
from typing_extensions import TypedDict

from hetopt.base.fields import Count, Digest, Expected, NotNegative, Whole
from hetopt.base.file_record import CONFIG, LATER, As, FileRecord
from hetopt.export.pipeline import MOST_STAGES
from hetopt.export.shared.hosts import MOST_RANKS
from hetopt.problem.model.experts import Experts
from hetopt.problem.model.model import Granularity
from hetopt.problem.training.choices import (
    SCHEDULE_CHOICES,
    Gradients,
    Optimizer,
    Precision,
    Recompute,
    Resharding,
    ScheduleName,
)
from hetopt.schedule.schedules import rule_of

#: A count of ranks, or of what there are not more of.
Few = Annotated[
    int,
    Ge(1),
    Le(MOST_RANKS),
    Expected(f"a whole number from 1 to {MOST_RANKS}"),
]
if TYPE_CHECKING:
    Split = ScheduleName
else:
    #: Schedules that split backward passes.
    Split = Literal[tuple(name for name in SCHEDULE_CHOICES if rule_of(name).splits)]

_HINTS = get_type_hints(Experts)
JobExperts = TypedDict(  # type: ignore[misc]
    "JobExperts", {each.name: _HINTS[each.name] for each in fields(Experts)}
)
JobExperts.__pydantic_config__ = CONFIG  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobModel(FileRecord):
    """Sizes of a model.

    Attributes
    ----------
    positions
        Of a table of positions, at least as many as a sequence has; 0: rotary.
    """

    layers: Few
    hidden: Count
    heads: Count
    kv_heads: Count
    head_dim: Annotated[Whole, LATER] = 0
    ffn: Count
    vocab: Count
    gated: Annotated[bool, LATER] = False
    tied: bool
    norm: Annotated[Literal["rms", "layer", ""], LATER] = ""
    positions: Annotated[Whole, LATER] = 0
    granularity: Annotated[Granularity, LATER] = "layer"
    norm_eps: Annotated[NotNegative, LATER] = 0.0
    rotary_base: Annotated[NotNegative, LATER] = 0.0
    experts: Annotated[Annotated[Mapping[str, Any], As(JobExperts)] | None, LATER] = (
        None
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTraining(FileRecord):
    """How the model is trained.

    Attributes
    ----------
    microbatches
        Of the only pipeline; None if there are several.
    cuts
        Where chunks differ: the end of each in the whole model, in units, first the
        first chunks of all stages, then the second ones, and so on. None: all alike.
    zero_bubble
        The schedule, if gradients of weights run later.
    """

    global_batch: Count
    seq_len: Count
    microbatches: Few | None = None
    chunks: Few
    cuts: tuple[Whole, ...] | None = None
    zero_bubble: Annotated[Split | None, LATER] = None
    precision: Annotated[Precision, LATER] = "bf16"
    optimizer: Annotated[Optimizer, LATER] = "adam"
    gradients: Annotated[Gradients, LATER] = "fp32"
    sequence_parallel: Annotated[bool, LATER] = True
    overlap_gradients: Annotated[bool, LATER] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStage(FileRecord):
    """A stage, with its units as in the plan.

    If stages hold several chunks, units are those of one chunk, or, where chunks
    differ, those of all of them; if the pipeline is folded, those on the way down.
    """

    cluster: Annotated[str, LATER] = ""
    first: Annotated[int, Ge(0), Le(MOST_RANKS)]
    end: Few
    dp: Few
    cp: Few
    tp: Few
    ep: Annotated[Few, LATER] = 1
    etp: Annotated[Few, LATER] = 1
    recompute: Recompute
    zero: Annotated[int, Ge(0), Le(1), Expected("0 or 1")]
    warmup: Few
    resharding: Resharding | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDevices(FileRecord):
    """What the ranks of a cluster run on, and which others they reach directly."""

    device: str
    backend: str
    group: Whole


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPipeline(FileRecord):
    """One of several pipelines."""

    batch: Few
    microbatches: Few
    stages: Annotated[tuple[JobStage, ...], MinLen(1), MaxLen(MOST_STAGES)]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile(FileRecord):
    """A job: ``stages`` of one pipeline, or several ``pipelines``."""

    tested_with: Annotated[Mapping[Literal["torch"], str] | None, LATER] = None
    plan_digest: Annotated[Digest | None, LATER] = None
    model: JobModel
    clusters: Annotated[Mapping[str, ClusterDevices], LATER] = field(
        default_factory=dict
    )
    training: JobTraining
    stages: Annotated[tuple[JobStage, ...], MinLen(1), MaxLen(MOST_STAGES)] = ()
    pipelines: tuple[JobPipeline, ...] = ()
