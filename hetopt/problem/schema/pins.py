"""The ``pin`` section of the problem file as pydantic models."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator, Field

from hetopt.base.fields import name
from hetopt.problem.schema.fields import (
    CountList,
    Counts,
    CountsFromZero,
    NameList,
    Policies,
    Reshardings,
    Strict,
    listed,
    optional,
    or_none,
    read_mapping,
)


class ClusterPinSpec(Strict):
    """Decisions of one cluster: a value, or a list of the values allowed."""

    stages: CountsFromZero = optional("Pipeline stages it hosts; 0: it is not used.")
    units: CountsFromZero = optional(
        "Units that its stages have, counted as pin.units."
    )
    dp: Counts = optional("Data parallelism, if the cluster is used.")
    cp: Counts = optional("Context parallelism, if used.")
    tp: Counts = optional("Tensor parallelism, if used.")
    ep: Counts = optional("Expert parallelism, if used; of models with experts alone.")
    etp: Counts = optional(
        "Tensor parallelism of experts, if used; of models with experts alone."
    )
    recompute: Policies = optional("Recomputation, if used.")


class ForbidSpec(Strict):
    """Values ruled out; the shape mirrors that of ``pin``."""

    stages: Counts = None
    microbatches: Counts = None
    clusters: Annotated[
        dict[str, ClusterPinSpec],
        BeforeValidator(lambda value: {} if value is None else read_mapping(value)),
    ] = Field(default_factory=dict, description="By cluster name.")
    resharding: Reshardings = None
    next: Annotated[
        tuple[tuple[str, ...], ...] | None, or_none(listed(listed(name)))
    ] = optional("Pairs [a, b]: cluster b may not directly follow cluster a.")


class PinSpec(Strict):
    """Decisions that the user fixes: a value, or a list of the values allowed."""

    stages: Counts = optional("Pipeline stages (p).")
    microbatches: Counts = optional("Micro-batches (q); divides the global batch.")
    order: NameList = optional(
        "Exactly these clusters, in this order along the pipeline."
    )
    units: CountList = optional(
        "Units per stage in pipeline order, embedding and head included; of one "
        "chunk where a stage has several, pairs with zb-v, v-half and v-min."
    )
    clusters: Annotated[
        dict[str, ClusterPinSpec],
        BeforeValidator(lambda value: {} if value is None else read_mapping(value)),
    ] = Field(default_factory=dict, description="By cluster name.")
    resharding: Reshardings = optional("Resharding strategies a boundary may use.")
    forbid: ForbidSpec | None = None
