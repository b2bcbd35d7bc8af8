"""What a latency table's document holds, declared once (see ``file``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeAlias

from annotated_types import Ge, Le, MaxLen, MinLen

from hetopt.base.fields import Digest, Positive, Whole
from hetopt.base.file_record import INLINE, As, FileRecord
from hetopt.cost.table.table import SourceKind
from hetopt.cost.table.ticks import TOO_LONG_NS
from hetopt.plans.strategy import Strategy
from hetopt.problem.quantity import TOO_MANY_BYTES
from hetopt.problem.training.choices import Resharding, ScheduleName
from hetopt.schedule.orders import FOLDED_CHUNKS

#: Largest number in a document: the most devices, or tokens, that a problem can have
#: (``fields.MAX_WHOLE`` squared).
LARGEST = 10**18

_Count = Annotated[int, Ge(1), Le(LARGEST)]
_Place = Annotated[int, Ge(0), Le(LARGEST)]
_Time = Annotated[int, Ge(0), Le(TOO_LONG_NS)]
_Bytes = Annotated[int, Ge(0), Le(TOO_MANY_BYTES)]
_Text = Annotated[str, MinLen(1)]
_Names = Annotated[tuple[_Text, ...], MinLen(1)]
#: Of the unit kinds, by their names.
_Times = dict[str, _Time]
_Sizes = dict[str, _Bytes]
#: An array in programs.
_Matrix: TypeAlias = Annotated[Any, As(list[list[_Time]])]
#: From the layout of one stage to that of the next, by class of tensor.
_Matrices: TypeAlias = Annotated[Any, As(list[list[list[_Time]]])]


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyRow(FileRecord):
    """A strategy of a cluster, and what it costs: by unit kind, most of it.

    Arrays of ``ClusterTable`` have the names of its columns.
    """

    KEYS: ClassVar[tuple[str, ...]] = (
        *("dp", "cp", "tp", "recompute", "microbatch", "devices", "max_stages"),
        *("layout", "fixed_bytes", "sync_ns", "forward_ns", "backward_ns"),
        *("state_bytes", "activation_bytes", "temporary_bytes", "sync_unit_ns"),
        *("ep", "etp", "zero", "weight_ns", "weight_bytes"),
    )

    strategy: Annotated[Strategy, INLINE]
    microbatch: _Count
    devices: _Place
    max_stages: _Place
    layout: _Place
    fixed_bytes: _Bytes
    sync_ns: _Time
    forward_ns: _Times
    backward_ns: _Times
    state_bytes: _Sizes
    activation_bytes: _Sizes
    temporary_bytes: _Sizes
    sync_unit_ns: _Times
    weight_ns: _Times | None = None
    weight_bytes: _Sizes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutRow(FileRecord):
    """How the tensor of a boundary is divided among the devices of a stage."""

    cluster: str
    dp: _Count
    shards: _Count


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRows(FileRecord):
    """The strategies of a cluster."""

    name: _Text
    strategies: tuple[StrategyRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRows(FileRecord):
    """How long a boundary keeps links that others may share; 0 where nothing is.

    Attributes
    ----------
    uplink_ns
        By cluster.
    link_ns
        By both clusters.
    """

    uplink_ns: Annotated[Any, As(list[_Time])]
    link_ns: _Matrix


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRows(FileRecord):
    """All coefficients at one micro-batch count.

    Attributes
    ----------
    transfer_ns
        kappa by cut class, layout and next layout.
    occupancy_ns
        omega by cut class, layout and next layout.
    tied_ns
        By the layouts of the first and of the last stage.
    within_ns
        Between layouts of one stage; only in per_unit.
    """

    microbatches: _Count
    layouts: tuple[LayoutRow, ...]
    transfer_ns: _Matrices
    occupancy_ns: _Matrices
    resharding: list[list[list[Resharding]]]
    tied_ns: _Matrix | None
    clusters: tuple[ClusterRows, ...]
    within_ns: _Matrices | None = None
    shared: SharedRows | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRow(FileRecord):
    """A tensor from one unit to another."""

    first: Whole
    second: Whole
    tensor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitRows(FileRecord):
    """What plans with a strategy per unit are made from."""

    tensors: _Names
    edges: tuple[EdgeRow, ...]
    slices: tuple[SliceRows, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow(FileRecord):
    """A cluster."""

    name: _Text
    devices: _Count
    usable_bytes: Annotated[int, Ge(0), Le(TOO_MANY_BYTES - 1)]
    source: SourceKind
    peak_flops: Positive


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile(FileRecord):
    """Every coefficient a solver reads: whole nanoseconds and bytes.

    Attributes
    ----------
    units
        Kind of every unit.
    cuts
        Cut class after each unit.
    chunks
        Of every stage; units are then of one of them, unless there is a layout.
    layout
        Where chunks differ, the end of each of all stages' chunks in the model's units.
    warmup_epsilon
        HAPT's epsilon, that h-1f1b has; older files have 0.01 without it.
    way_back
        Cut class from the last stage back to the first.
    pairs
        With zb-v, v-half and v-min, the kinds of the two units that each of the last
        kinds stands for; units are then pairs.
    """

    SCHEMA: ClassVar[str] = "hetopt-table/1"

    problem_digest: Digest
    schedule: ScheduleName
    kinds: _Names
    body: tuple[bool, ...]
    cut_classes: _Names
    units: Annotated[tuple[str, ...], MinLen(3)]
    cuts: tuple[str, ...]
    tokens: _Count
    model_flops: Positive
    clusters: Annotated[tuple[ClusterRow, ...], MinLen(1)]
    chunks: Annotated[int, Ge(2), Le(LARGEST)] | None = None
    layout: tuple[Whole, ...] | None = None
    warmup_epsilon: Positive | None = None
    way_back: str | None = None
    pairs: (
        Annotated[
            tuple[
                Annotated[
                    tuple[str, ...], MinLen(FOLDED_CHUNKS), MaxLen(FOLDED_CHUNKS)
                ],
                ...,
            ],
            MinLen(1),
        ]
        | None
    ) = None
    slices: tuple[SliceRows, ...]
    per_unit: UnitRows | None = None


#: What ``CostTable`` calls values of its clusters.
CLUSTER_COLUMNS = {
    "name": "cluster_names",
    "devices": "cluster_devices",
    "usable_bytes": "usable_bytes",
    "source": "sources",
    "peak_flops": "peak_flops",
}
