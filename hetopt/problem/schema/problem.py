"""The problem file as pydantic models: its fields and their meanings.

The descriptions become part of the JSON Schema, so editors show them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from hetopt.base.fields import Count, Flag, Name, choice
from hetopt.base.record import Fault
from hetopt.base.words import describe
from hetopt.problem.catalogue import profile_files
from hetopt.problem.model.model import Model
from hetopt.problem.schema.accelerator import AcceleratorSpec, LinkSpec
from hetopt.problem.schema.calibration import CalibrationSpec
from hetopt.problem.schema.device_fields import OptionalOverhead, OptionalPrice
from hetopt.problem.schema.fields import (
    AUTO,
    Bandwidth,
    GradientsName,
    HostList,
    KernelName,
    OptimizerName,
    OptionalBandwidth,
    OptionalCount,
    OptionalEmulated,
    OptionalLatency,
    OptionalMemory,
    OptionalName,
    OptionalOffload,
    PrecisionName,
    Strict,
    ZeroStage,
    optional,
    or_none,
    read_batch,
    read_epsilon,
    read_fraction,
    read_recompute,
)
from hetopt.problem.schema.lengths import read_lengths
from hetopt.problem.schema.links import LinksSpec
from hetopt.problem.schema.nodes import Nodes
from hetopt.problem.schema.pins import PinSpec
from hetopt.problem.training.choices import (
    ANY,
    RECOMPUTE,
    SCHEDULE_CHOICES,
    ScheduleName,
)
from hetopt.problem.training.dispatch import Dispatch
from hetopt.problem.training.training import (
    DEFAULT_RESERVE,
    DEFAULT_SCHEDULE,
    chunks_fault,
    epsilon_fault,
)

if TYPE_CHECKING:
    pass

#: Sections that may also be given as another file.
SECTIONS = (
    "model",
    "clusters",
    "links",
    "training",
    "pin",
    "latency",
    "calibration",
)

#: Names that `latency` accepts besides profiles.
LATENCY_SOURCES = (AUTO, "operators", "roofline")

Schedule = Annotated[
    ScheduleName | Literal["auto"],
    BeforeValidator(choice((*SCHEDULE_CHOICES, ANY))),
]


class GroupSpec(Strict):
    """Neighbouring devices of a node that share a faster link."""

    size: Count = Field(
        description="The devices per group; it divides the devices of every node."
    )
    bandwidth: Bandwidth = Field(
        description="A bandwidth such as '200 GB/s', per device and direction."
    )
    latency: OptionalLatency = optional("Default: that of intra_node.")


class ClusterSpec(Strict):
    """A homogeneous cluster of nodes x devices_per_node accelerators.

    Nodes may have unequal numbers of devices, as after a failure.
    """

    name: Name = Field(description="A name that plans and pins use.")
    accelerator: AcceleratorSpec = Field(
        description="A name from `hetopt catalog`, or the device's own numbers."
    )
    nodes: Nodes = Field(
        description="The number of nodes; or the devices of each node, as in "
        "[8, 8, 8, 7], without devices_per_node."
    )
    devices_per_node: OptionalCount = optional(
        "The number of devices of a node, if nodes is a number."
    )
    memory: OptionalMemory = optional("Per device; default: the accelerator's.")
    overhead: OptionalOverhead = optional(
        "Per device, outside of what the framework allocates: context, "
        "buffers of collectives, gaps between allocations; default: the accelerator's."
    )
    max_tp: OptionalCount = optional(
        "Largest tensor parallelism; default: the devices of the largest node."
    )
    intra_node: LinkSpec | None = optional(
        "Per device and direction; default: the accelerator's."
    )
    inter_node: LinkSpec | None = optional(
        "One NIC, per direction; latency 5 us unless given. Only a single "
        "node that is the whole problem needs none."
    )
    host_device: LinkSpec | None = optional(
        "Per device and direction; default: the accelerator's."
    )
    nics_per_node: OptionalCount = optional(
        "Network interfaces per node, each with inter_node's bandwidth; "
        "default: one per device of the largest node."
    )
    uplink: OptionalBandwidth = optional(
        "Bandwidth that all links of the cluster to others share, per "
        "direction; default: nothing but the links themselves limits it."
    )
    group: GroupSpec | None = None
    offload: OptionalOffload = optional(
        "optimizer: the optimizer's states are in the hosts' memory, and "
        "the hosts update the weights; default: nothing is offloaded."
    )
    host_memory_bandwidth: OptionalBandwidth = optional(
        "What a host reads and writes per device, which limits the update "
        "of an offloaded optimizer; default: 37 GB/s, STREAM on a DGX A100."
    )
    price_per_hour: OptionalPrice = optional(
        "What one of equal nodes costs per hour, in any currency, the same for all "
        "clusters; default: unknown. Reports say what plans cost by it; it decides "
        "plans only where that is asked (--budget, --objective cost, --pareto)."
    )
    hosts: HostList = optional(
        "Names or addresses of the nodes, one each, in the order launchers "
        "place ranks. Plans do not depend on them."
    )


class TrainingSpec(Strict):
    """How the model is trained."""

    global_batch: Annotated[
        Any,
        BeforeValidator(read_batch),
        WithJsonSchema({"type": ["integer", "string"], "examples": [128, "2M tokens"]}),
    ] = Field(
        description="The sequences per iteration; or tokens: '2M tokens' are 2 * "
        "2**20, '2000000 tokens' exactly that; they must make whole sequences."
    )
    seq_len: Count = Field(
        description="The tokens per sequence; of the longest where lengths differ."
    )
    lengths: Annotated[
        Any,
        BeforeValidator(read_lengths),
        WithJsonSchema(
            {
                "anyOf": [
                    {"type": "object", "additionalProperties": {"type": "number"}},
                    {"type": "string", "pattern": r"\.csv$"},
                ],
                "examples": [{"4096": 0.8, "32768": 0.2}, "lengths.csv"],
            }
        ),
    ] = optional(
        "The share of sequences by their tokens, which add up to 1; or the "
        "path of a CSV file with the columns tokens and count. Without it all "
        "sequences have seq_len tokens."
    )
    precision: PrecisionName = "bf16"
    emulate: OptionalEmulated = optional(
        "Precision in which devices that lack the given one multiply, at its rate; "
        "without it they are refused. What is stored and sent keeps the given one."
    )
    optimizer: OptimizerName = "adam"
    zero: ZeroStage = Field(
        1, description="1 shards optimizer states, 2 gradients too, 3 weights too."
    )
    overlap_gradients: Flag = Field(
        True,
        description="true (default): gradients are reduced during the backward pass; "
        "false: after it, as Megatron-LM does unless told otherwise.",
    )
    recompute: Annotated[
        Any,
        BeforeValidator(read_recompute),
        WithJsonSchema(
            {
                "anyOf": [
                    {"enum": [AUTO, *RECOMPUTE]},
                    {"type": "array", "items": {"enum": list(RECOMPUTE)}},
                    {"type": "object"},
                ]
            }
        ),
    ] = Field(
        AUTO,
        description="Activation recomputation: none, selective, full, a list the plan "
        "may choose from, auto for all three, or any of these per cluster name.",
        validate_default=True,
    )
    schedule: Schedule = Field(
        DEFAULT_SCHEDULE,
        description="auto: the best of all of these but free-1f1b, whose warm-up "
        "counts are decisions.",
    )
    chunks: Count = Field(
        1,
        description="Parts of the model that every stage holds, virtual stages a "
        "device: 2 or more with interleaved-1f1b, 1 with any other schedule; with "
        "auto, a number to try before 2 and 4.",
    )
    warmup_epsilon: Annotated[
        float | None,
        or_none(read_epsilon),
        WithJsonSchema({"type": ["number", "string"], "examples": [0.05, "1/20"]}),
    ] = Field(
        None,
        description="Of h-1f1b: a boundary whose transfer takes at most this share of "
        "the longest stage or transfer adds one warm-up, a slower one two or three "
        "(HAPT, Eq. 2). Default: 0.05; with schedule auto also 0.1 and 0.01.",
    )
    sequence_parallel: Flag = Field(
        True,
        description="Whether tensor parallelism splits norms and residuals by tokens.",
    )
    attention: KernelName = Field(
        "fused",
        description="unfused: separate operations that keep every score, and no "
        "context parallelism.",
    )
    cross_entropy: KernelName = Field(
        "fused", description="unfused: separate operations on logits in 32 bits."
    )
    gradients: GradientsName = Field(
        "fp32", description="Precision in which gradients are accumulated and reduced."
    )
    moe: Dispatch | None = optional(
        "How tokens reach routed experts; of models with experts alone."
    )
    reserve: Annotated[
        float,
        BeforeValidator(read_fraction),
        WithJsonSchema({"type": ["number", "string"], "examples": [0.06, "6%"]}),
    ] = Field(
        DEFAULT_RESERVE,
        description="Share of device memory that stays free besides the overhead.",
    )

    @model_validator(mode="after")
    def _goes_with_schedule(self) -> TrainingSpec:
        if self.schedule == ANY:
            return self
        if (fault := chunks_fault(self.schedule, self.chunks)) is not None:
            raise Fault(fault, "chunks")
        if (fault := epsilon_fault(self.schedule, self.warmup_epsilon)) is not None:
            raise Fault(fault, "warmup_epsilon")
        return self


def _read_latency(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        msg = f"is {describe(value)}, expected a mapping such as {{a100: auto}}"
        raise Fault(msg)
    for cluster, source in value.items():
        if not isinstance(source, str) or not source:
            msg = (
                f"is {describe(source)}, expected {', '.join(LATENCY_SOURCES)}, "
                "or a profile's name or path"
            )
            raise Fault(msg, cluster)
    return value


class ProblemSpec(Strict):
    """A hetopt problem: which model to train, on which clusters, how."""

    name: OptionalName = optional("Label; default: the file's name.")
    model: Model = Field(
        description="A preset, a Hugging Face config.json or a model's fields."
    )
    clusters: tuple[ClusterSpec, ...] = Field(description="A list of clusters.")
    links: LinksSpec | None = optional(
        "Between clusters; required when there are two or more."
    )
    training: TrainingSpec = Field(
        description="A mapping with at least global_batch and seq_len."
    )
    pin: PinSpec | None = optional("Decisions of the plan that are fixed or forbidden.")
    latency: Annotated[
        dict[str, str] | None,
        or_none(_read_latency),
        WithJsonSchema(
            {
                "type": "object",
                "additionalProperties": {
                    "type": "string",
                    "minLength": 1,
                    "examples": [*LATENCY_SOURCES, *profile_files()],
                },
            }
        ),
    ] = optional(
        "Where a cluster's latencies come from: the name or path of a "
        "profile of layers, the path of one of operators, operators (those that ship "
        "with hetopt), roofline (modelled), or auto (default): the profile of its "
        "accelerator that ships with hetopt, measured before published, else "
        "operators, else roofline."
    )
    calibration: CalibrationSpec | None = optional(
        "Corrections of the latency table: `hetopt calibrate`."
    )
    launcher: OptionalName = optional(
        "The launcher that plans are for, one of `hetopt catalog`: plans that it does "
        "not run as they are, are left out. Default: any."
    )

    @field_validator("clusters", mode="before")
    @classmethod
    def _list(cls, value: Any) -> Any:
        if not isinstance(value, list) or not value:
            what = "an empty list" if value == [] else describe(value)
            raise Fault(f"is {what}, expected a list of at least one cluster")
        return value
