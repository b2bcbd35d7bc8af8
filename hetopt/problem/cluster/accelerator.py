"""One device: its rates, its links, and what it reaches of them.

Bandwidths are per device and per direction, in decimal bytes per second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Self, get_args

from hetopt.base.checked import checked
from hetopt.problem.cluster.facts import (
    AS_MEASURED,
    CUDA_VISIBLE_DEVICES,
    UNKNOWN_EFFICIENCY,
    UNKNOWN_INTRA_NODE_SHARE,
    Accuracy,
    Efficiency,
    Sustained,
)
from hetopt.problem.training.choices import Precision

#: Share of a device's memory that is overhead if the overhead is unknown: we assume it.
UNKNOWN_OVERHEAD = 0.06

#: Formats that a device may multiply in.
Arithmetic = Literal["bf16", "fp16", "fp32", "tf32", "fp8"]
ARITHMETIC: tuple[Arithmetic, ...] = get_args(Arithmetic)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """An alpha-beta link: ``latency_s + bytes / bandwidth_bytes_per_s``."""

    latency_s: float
    bandwidth_bytes_per_s: float

    def __post_init__(self) -> None:
        if self.latency_s < 0:
            msg = f"latency is {self.latency_s} s, expected 0 or more"
            raise ValueError(msg)
        if not self.bandwidth_bytes_per_s > 0:
            msg = f"bandwidth is {self.bandwidth_bytes_per_s} B/s, expected more than 0"
            raise ValueError(msg)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class PeakFlops:
    """Dense FLOP/s of one device by the format it multiplies in; None: it cannot.

    Without sparsity; accumulation is in FP32 (tensor cores) or in the same precision.
    """

    bf16: float | None = None
    fp16: float | None = None
    fp32: float | None = None
    tf32: float | None = None
    fp8: float | None = None

    def __post_init__(self) -> None:
        for name in ARITHMETIC:
            rate = getattr(self, name)
            if rate is not None and not rate > 0:
                msg = f"{name} is {rate}, expected more than 0"
                raise ValueError(msg)
        if not self.known:
            msg = f"peak_flops is empty, expected one of {', '.join(ARITHMETIC)}"
            raise ValueError(msg)

    @classmethod
    def dense_16_bit(cls, rate: float) -> Self:
        """Return the rates that one number means: it for BF16 and FP16, no others."""
        return cls(bf16=rate, fp16=rate)

    @property
    def known(self) -> tuple[Arithmetic, ...]:
        """Formats that the device multiplies in."""
        return tuple(name for name in ARITHMETIC if getattr(self, name) is not None)


@checked
@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """One device type.

    Every number that times depend on is here; nothing is looked up by the name.

    Attributes
    ----------
    name
        A label.
    preset, like
        The device of the catalogue that it is, or that lends a device of the user's own
        what it does not state; at most one of them.
    memory_bytes
        Device memory as a program can see it.
    overhead_bytes
        Memory that a training program uses beyond what its framework allocates: the
        context, buffers of collectives, gaps between allocations. None: unknown.
    memory_bandwidth_bytes_per_s
        Bandwidth of the device's own memory.
    intra_node
        Default link between two devices of one node.
    host_device
        Default link between a device and its host.
    roofline
        Shares of the nominal rates that it reaches in the roofline.
    relatives
        Measured devices whose operators it uses, nearest first; itself if it was
        measured.
    sustained
        Shares of those operators' rates that whole iterations reach.
    accuracy
        Errors of sums of operators on published iterations; None: there are none.
    intra_node_share
        Share of a link's nominal bandwidth inside a node that collectives reach.
    visible_devices
        Environment variable that limits a process to some devices.
    sold_as_bytes
        Memory in the vendor's sheet, by which inventories recognise a device; None:
        ``memory_bytes``.
    sources
        Field name -> where the number comes from.
    """

    name: str
    peak_flops: PeakFlops
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    intra_node: Link
    host_device: Link
    overhead_bytes: int | None = None
    preset: str | None = None
    like: str | None = None
    roofline: Efficiency = UNKNOWN_EFFICIENCY
    relatives: tuple[str, ...] = ()
    sustained: Sustained = AS_MEASURED
    accuracy: Accuracy | None = None
    intra_node_share: float = UNKNOWN_INTRA_NODE_SHARE
    visible_devices: str = CUDA_VISIBLE_DEVICES
    sold_as_bytes: int | None = field(default=None, compare=False)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        for name in ("memory_bytes", "memory_bandwidth_bytes_per_s"):
            if not getattr(self, name) > 0:
                msg = f"{name} is {getattr(self, name)}, expected more than 0"
                raise ValueError(msg)
        if self.preset is not None and self.like is not None:
            msg = f"like is {self.like!r} beside preset, expected only one of them"
            raise ValueError(msg)

    @property
    def origin(self) -> str:
        """The device of the catalogue whose facts it has, in words."""
        if self.like is not None:
            return f"like {self.like}"
        return self.preset or "outside the catalogue"

    def lacks(self, precision: Precision) -> bool:
        """Whether the device cannot multiply in a training precision."""
        needed = ("fp8", "bf16") if precision == "fp8" else (precision,)
        return any(self._rate(name) is None for name in needed)

    def peak_flops_of(
        self, precision: Precision, emulate: Precision | None = None
    ) -> float:
        """Return the FLOP/s of a training precision.

        FP32 training multiplies in TF32 where the device has it.

        Parameters
        ----------
        emulate
            Precision in which a device without ``precision`` multiplies.

        Raises
        ------
        ValueError
            The device has neither.
        """
        used = emulate if emulate is not None and self.lacks(precision) else precision
        rate = self._rate(used)
        if rate is None or self.lacks(used):
            msg = f"{self.name} has no {used}, only {', '.join(self.peak_flops.known)}"
            raise ValueError(msg)
        return rate

    def _rate(self, precision: str) -> float | None:
        if precision == "fp32" and self.peak_flops.tf32 is not None:
            return self.peak_flops.tf32
        rate: float | None = getattr(self.peak_flops, precision)
        return rate

    def overhead_of(self, memory_bytes: int) -> int:
        """Return the overhead in bytes; if unknown, a share of ``memory_bytes``."""
        if self.overhead_bytes is None:
            return math.ceil(memory_bytes * UNKNOWN_OVERHEAD)
        return self.overhead_bytes
