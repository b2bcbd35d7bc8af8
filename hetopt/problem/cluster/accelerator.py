"""One device: its rates, its links, and what it reaches of them.

Bandwidths are per device and per direction, in decimal bytes per second.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, field
from fractions import Fraction
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from annotated_types import MinLen
from pydantic import Field, ValidationInfo, WithJsonSchema

from hetopt.base.faults import Fault
from hetopt.base.fields import Name, name, unknown
from hetopt.base.record import INTERNAL, as_given, record
from hetopt.problem.facts import (
    AS_MEASURED,
    AS_RELATIVES,
    CUDA_VISIBLE_DEVICES,
    UNKNOWN_EFFICIENCY,
    UNKNOWN_INTRA_NODE_SHARE,
    Accuracy,
    Efficiency,
    Grouped,
    Share,
    Sustained,
    Variable,
)
from hetopt.problem.fields import (
    FLOPS_SCHEMA,
    Bandwidth,
    Flops,
    Latency,
    Memory,
    Overhead,
    flops,
)
from hetopt.problem.files import Files
from hetopt.problem.training.choices import BESIDE_BF16, Precision

#: Share of a device's memory that is overhead if the overhead is unknown: we assume it.
UNKNOWN_OVERHEAD = 0.06


#: Formats that a device may multiply in.
Arithmetic = Literal["bf16", "fp16", "fp32", "tf32", "fp8", "fp4"]
ARITHMETIC: tuple[Arithmetic, ...] = get_args(Arithmetic)
#: Of the rates, for editors.
_RATES_SCHEMA: dict[str, Any] = {
    "anyOf": [
        FLOPS_SCHEMA,
        {
            "type": "object",
            "properties": dict.fromkeys(ARITHMETIC, FLOPS_SCHEMA),
            "additionalProperties": False,
            "minProperties": 1,
        },
    ]
}
#: Fields without which there is no device.
_NEEDED = (
    *("name", "peak_flops", "memory", "memory_bandwidth", "intra_node", "host_device"),
)


@record
class Link:
    """A link per device (or NIC) and direction.

    Its model is alpha-beta: ``latency_s + bytes / bandwidth_bytes_per_s``.

    Attributes
    ----------
    bandwidth_bytes_per_s
        One such as '100 Gbps'.
    latency_s
        One such as '5 us'.
    """

    elsewhere: ClassVar = ("bandwidth", "latency")

    bandwidth_bytes_per_s: Annotated[Bandwidth, Field(alias="bandwidth")]
    latency_s: Annotated[Latency, Field(alias="latency")]


@record
class PeakFlops:
    """Dense FLOP/s of one device by the format it multiplies in; None: it cannot.

    Without sparsity; accumulation is in FP32 (tensor cores) or in the same precision.
    """

    bf16: Flops | None = None
    fp16: Flops | None = None
    fp32: Flops | None = None
    tf32: Flops | None = None
    fp8: Flops | None = None
    fp4: Flops | None = None

    def __post_init__(self) -> None:
        if not self.known:
            raise Fault(f"has no rate, expected one of {', '.join(ARITHMETIC)}")

    @classmethod
    def dense_16_bit(cls, rate: float) -> Self:
        """Return the rates that one number means: it for BF16 and FP16, no others."""
        return cls(bf16=rate, fp16=rate)

    @property
    def known(self) -> tuple[Arithmetic, ...]:
        """Formats that the device multiplies in."""
        return tuple(name for name in ARITHMETIC if getattr(self, name) is not None)


@record
class Accelerator:
    """A device: a name from the catalogue, or its own numbers, or both.

    Fields beside ``preset`` or ``like`` override the catalogue's values. Every number
    that times depend on is here; nothing is looked up by the name. Only what a stack of
    software reaches is looked up, by ``known_as``.

    Attributes
    ----------
    preset
        The device itself: a name from `hetopt catalog`.
    like
        Instead of preset, for a device of your own: the device of `hetopt catalog`
        that is nearest to it. Everything that is not given here, and how near to
        their rates its kernels, links and iterations come, is as there. Without
        preset and like the latter are defaults, with a warning.
    name
        A label for reports, on which no plan depends.
    peak_flops
        Dense rates by format, without sparsity: bf16, fp16, fp32, tf32, fp8, fp4, of
        which the device may lack some. One number is the 16-bit rate, BF16 and FP16
        alike.
    memory_bytes
        Memory of one device, as a program can see it.
    overhead_bytes
        Memory that a program uses beyond what its framework allocates: the context,
        buffers of collectives, gaps between allocations. Default: 6% of the memory.
    memory_bandwidth_bytes_per_s
        Of the device's own memory.
    intra_node
        To another device of the node, per direction.
    host_device
        To the host, per direction.
    roofline
        Shares of the nominal rates that it reaches in the roofline.
    relatives
        Measured devices whose operators it uses, nearest first; itself if it was
        measured.
    sustained
        Shares of those operators' rates that whole iterations reach.
    grouped
        How much quicker than a relative's its grouped multiplications are.
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

    elsewhere: ClassVar = _NEEDED

    preset: Name | None = None
    like: Name | None = None
    name: Name
    peak_flops: Annotated[PeakFlops, WithJsonSchema(_RATES_SCHEMA)]
    memory_bytes: Annotated[Memory, Field(alias="memory")]
    overhead_bytes: Annotated[Overhead | None, Field(alias="overhead")] = None
    memory_bandwidth_bytes_per_s: Annotated[Bandwidth, Field(alias="memory_bandwidth")]
    intra_node: Link
    host_device: Link
    roofline: Annotated[Efficiency, INTERNAL] = UNKNOWN_EFFICIENCY
    relatives: Annotated[tuple[Annotated[str, MinLen(1)], ...], INTERNAL] = ()
    sustained: Annotated[Sustained, INTERNAL] = AS_MEASURED
    grouped: Annotated[Grouped, INTERNAL] = AS_RELATIVES
    accuracy: Annotated[Accuracy | None, INTERNAL] = None
    intra_node_share: Annotated[Share, INTERNAL] = UNKNOWN_INTRA_NODE_SHARE
    visible_devices: Annotated[Variable, INTERNAL] = CUDA_VISIBLE_DEVICES
    sold_as_bytes: Annotated[int | None, INTERNAL] = field(default=None, compare=False)
    sources: Annotated[Mapping[str, str], INTERNAL] = field(
        default_factory=dict, compare=False
    )

    @staticmethod
    def completed(given: dict[str, Any], files: Files) -> dict[str, Any]:
        """Return what a file gives, completed by the device of the catalogue."""
        return _completed(given, files)

    def __post_init__(self) -> None:
        if self.preset is not None and self.like is not None:
            msg = f"is {self.like!r} beside preset, expected only one of them"
            raise Fault(msg, "like")

    @property
    def known_as(self) -> str | None:
        """The device of the catalogue that it is or is like; None if it is neither."""
        return self.preset or self.like

    @property
    def origin(self) -> str:
        """The device of the catalogue whose facts it has, in words."""
        if self.like is not None:
            return f"like {self.like}"
        return self.preset or "outside the catalogue"

    def lacks(self, precision: Precision) -> bool:
        """Whether the device cannot multiply in a training precision."""
        return any(self._rate(name) is None for name in formats_of(precision))

    def peak_flops_of(
        self, precision: Precision, emulate: Precision | None = None
    ) -> float:
        """Return the FLOP/s of a training precision.

        FP32 training multiplies in TF32 where the device has it. NVFP4 multiplies at
        most twice as fast as FP8, whatever a device's sheet says: published iterations
        on GB200 and GB300, whose sheets say twice and three times, gain alike.

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
        rates = self.peak_flops
        if precision == "nvfp4" and rates.fp8 is not None and rates.fp4 is not None:
            return min(rates.fp4, 2 * rates.fp8)
        name = "fp8" if precision == "mxfp8" else precision
        rate: float | None = getattr(rates, name, None)
        return rate

    def overhead_of(self, memory_bytes: int) -> int:
        """Return the overhead in bytes; if unknown, a share of ``memory_bytes``."""
        if self.overhead_bytes is None:
            return math.ceil(memory_bytes * UNKNOWN_OVERHEAD)
        return self.overhead_bytes


def formats_of(precision: Precision) -> tuple[str, ...]:
    """Return the formats in which a device has to multiply for a precision."""
    if precision in BESIDE_BF16:
        return (*BESIDE_BF16[precision], "bf16")
    return (precision,)


def named_device(value: Any, info: ValidationInfo) -> Any:
    """Return the device of the catalogue if nothing but its name is given."""
    preset = value.get("preset") if isinstance(value, dict) else value
    only = not isinstance(value, dict) or not any(
        own is not None for key, own in value.items() if key != "preset"
    )
    if info.context is None or not isinstance(preset, str) or not only:
        return value
    return _base({"preset": preset}, info.context)


def _completed(given: dict[str, Any], files: Files) -> dict[str, Any]:
    """Return a device's fields with those that the catalogue's has.

    A device of the user's own that is like another has none of its errors of
    iterations, which others ran on that device.

    Raises
    ------
    Fault
        There is no such device, fields exclude each other, or one is missing.
    """
    base = _base(given, files)
    fields = {key: value for key, value in given.items() if value is not None}
    rates = _rates(fields, base)
    if rates:
        fields["peak_flops"] = rates
    if base is not None:
        facts = as_given(base)
        for key in ("preset", "like", "sold_as_bytes"):
            del facts[key]
        if "like" in given:
            del facts["accuracy"]
        facts["sources"] = {
            key: source
            for key, source in base.sources.items()
            if not _is_overridden(key, given)
        }
        for link in ("intra_node", "host_device"):
            fields[link] = completed_link(given.get(link), facts[link])
        fields = facts | fields
    for key in _NEEDED:
        if fields.get(key) is None:
            msg = "is missing, expected it, or like: a device that gives it"
            raise Fault(msg, key)
    return fields


def completed_link(given: Any, usual: Any) -> Any:
    """Return a link's fields with those of a usual one."""
    if given is None:
        return usual
    if not isinstance(given, dict):
        return given
    own = {key: value for key, value in given.items() if value is not None}
    return as_given(usual) | own


def _base(given: Mapping[str, Any], files: Files) -> Accelerator | None:
    """Return the device of the catalogue that gives what a file does not; or None."""
    preset, like = given.get("preset"), given.get("like")
    path = () if like is None else ("like",)
    if like is not None and preset is not None:
        raise Fault("is given together with preset, expected only one of them", *path)
    if like is None and preset is None:
        return None
    known: Mapping[str, Accelerator] = files.accelerators()
    wanted = name(preset, "preset") if like is None else name(like, "like")
    if wanted not in known:
        msg = unknown(wanted, "an accelerator of the catalogue", known)
        raise Fault(msg, *path)
    return known[wanted]


def _rates(fields: dict[str, Any], base: Accelerator | None) -> dict[str, Any]:
    """Return the given rates, completed by the catalogue's; of other kinds as given."""
    known = {} if base is None else asdict(base.peak_flops)
    rates = {key: Fraction(rate) for key, rate in known.items() if rate is not None}
    given = fields.pop("peak_flops", None)
    if given == {}:
        msg = f"is an empty mapping, expected rates of {', '.join(ARITHMETIC)}"
        raise Fault(msg, "peak_flops")
    if isinstance(given, dict):
        rates |= given
    elif given is not None:
        rate = flops(given, "peak_flops")
        if base is not None and base.lacks("bf16"):
            msg = (
                "is one number, which means BF16 and FP16 alike, but "
                f"{base.name} has only {', '.join(base.peak_flops.known)}: expected a "
                "rate for each precision such as {fp16: 125 TFLOPS}"
            )
            raise Fault(msg, "peak_flops")
        rates |= {"bf16": rate, "fp16": rate}
    return rates


def _is_overridden(key: str, given: Mapping[str, Any]) -> bool:
    """Whether the catalogue's source ``key`` is of a value that the device has not."""
    if key == "operators.accuracy":
        return "like" in given
    field, _, part = key.partition(".")
    own = given.get(field)
    if field != "peak_flops" or own is None:
        return own is not None
    return part in (own if isinstance(own, dict) else ("bf16", "fp16"))
