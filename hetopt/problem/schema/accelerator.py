"""An accelerator in a problem file, and its links."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from hetopt.problem.schema.device_fields import OptionalOverhead, OptionalPeakFlops
from hetopt.problem.schema.fields import (
    OptionalBandwidth,
    OptionalFlops,
    OptionalLatency,
    OptionalMemory,
    OptionalName,
    Strict,
    optional,
)


class LinkSpec(Strict):
    """A link per device (or NIC) and direction."""

    bandwidth: OptionalBandwidth = None
    latency: OptionalLatency = None


class AcceleratorSpec(Strict):
    """A device: a name from the catalogue, or its own numbers, or both.

    Fields beside ``preset`` or ``like`` override the catalogue's values.
    """

    preset: OptionalName = optional("The device itself: a name from `hetopt catalog`.")
    like: OptionalName = optional(
        "Instead of preset, for a device of your own: the device of "
        "`hetopt catalog` that is nearest to it. Everything that is not given here, "
        "and how near to their rates its kernels, links and iterations come, is as "
        "there. Without preset and like the latter are defaults, with a warning."
    )
    name: OptionalName = optional("A label for reports, on which no plan depends.")
    peak_flops: OptionalPeakFlops = optional(
        "Dense rates by precision, without sparsity: bf16, fp16, fp32, "
        "tf32, fp8, of which the device may lack some. One number is the 16-bit rate, "
        "BF16 and FP16 alike."
    )
    fp32_flops: OptionalFlops = optional("An older way to write peak_flops.fp32.")
    memory: OptionalMemory = optional("Memory of one device, as a program can see it.")
    overhead: OptionalOverhead = optional(
        "Memory that a program uses beyond what its framework allocates. "
        "Default: 6% of the memory."
    )
    memory_bandwidth: OptionalBandwidth = optional("Of the device's own memory.")
    intra_node: LinkSpec | None = optional(
        "To another device of the node, per direction."
    )
    host_device: LinkSpec | None = optional("To the host, per direction.")

    @model_validator(mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return {"preset": value} if isinstance(value, str) else value
