"""Fields of an accelerator that a problem overrides, and checks of devices."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hetopt.base.fields import unknown
from hetopt.base.record import Fault
from hetopt.problem.calibration import most_overhead
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.accelerator import PeakFlops

if TYPE_CHECKING:
    from hetopt.problem.cluster.accelerator import Accelerator
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.document.document import FieldPath
    from hetopt.problem.schema.accelerator import AcceleratorSpec
    from hetopt.problem.training.training import Training


#: What a device of the user's own has from the one that it is like: no errors of
#: iterations, which others ran on that device.
_LENT = ("roofline", "relatives", "sustained", "intra_node_share", "visible_devices")


def base_of(spec: AcceleratorSpec, path: FieldPath) -> Accelerator | None:
    """Return the device of the catalogue that gives what a file does not; or None."""
    known, name = accelerators(), spec.preset
    if spec.like is not None:
        if name is not None:
            msg = "is given together with preset, expected only one of them"
            raise Fault(msg, *path, "like")
        name, path = spec.like, (*path, "like")
    if name is not None and name not in known:
        raise Fault(unknown(name, "an accelerator of the catalogue", known), *path)
    return None if name is None else known[name]


def facts_of(spec: AcceleratorSpec, base: Accelerator | None) -> dict[str, Any]:
    """Return the fields of an accelerator that only the catalogue gives."""
    if base is None:
        return {}
    facts = {name: getattr(base, name) for name in _LENT}
    if spec.preset is not None:
        facts["accuracy"] = base.accuracy
    return {**facts, "preset": spec.preset, "like": spec.like}


def peak_flops(
    spec: AcceleratorSpec, base: Accelerator | None, path: FieldPath
) -> PeakFlops | None:
    """Return the given rates, completed by the preset's; None if there are none."""
    known = {} if base is None else asdict(base.peak_flops)
    given = spec.peak_flops
    if isinstance(given, float):
        if base is not None and base.lacks("bf16"):
            msg = (
                "is one number, which means BF16 and FP16 alike, but "
                f"{base.name} has only {', '.join(base.peak_flops.known)}: expected a "
                "rate for each precision such as {fp16: 125 TFLOPS}"
            )
            raise Fault(msg, *path, "peak_flops")
        known |= {"bf16": given, "fp16": given}
    elif given is not None:
        known |= given
    if spec.fp32_flops is not None:
        if isinstance(given, dict) and "fp32" in given:
            msg = "is given together with peak_flops.fp32, expected only one of them"
            raise Fault(msg, *path, "fp32_flops")
        known["fp32"] = spec.fp32_flops
    return PeakFlops(**known) if known else None


def overridden(spec: AcceleratorSpec, key: str) -> bool:
    """Whether the catalogue's source ``key`` is of a value that the device has not."""
    if key == "operators.accuracy":
        return spec.like is not None
    field, _, name = key.partition(".")
    given = getattr(spec, field, None)
    if field != "peak_flops" or given is None:
        return given is not None
    return name in (given if isinstance(given, dict) else ("bf16", "fp16"))


def overhead_bytes(
    given: int | None, accelerator: Accelerator, memory_bytes: int, path: FieldPath
) -> int:
    """Return a cluster's overhead; Fault if it leaves no memory."""
    found = accelerator.overhead_of(memory_bytes) if given is None else given
    check_overhead(found, memory_bytes, (*path, "overhead"))
    return found


def check_overhead(overhead: int, memory_bytes: int, path: FieldPath) -> None:
    """Refuse an overhead, of a cluster or a calibration, that leaves no memory."""
    if overhead > most_overhead(memory_bytes):
        msg = (
            f"is {overhead} bytes, expected less than the memory ({memory_bytes} bytes)"
        )
        raise Fault(msg, *path)


def check_precision(cluster: Cluster, training: Training) -> None:
    """Refuse a precision that a device lacks, unless it is emulated in one it has."""
    device, wanted = cluster.accelerator, training.precision
    has = ", ".join(device.peak_flops.known)
    if not device.lacks(wanted):
        return
    if training.emulate is None:
        msg = (
            f"is {wanted!r}, which {device.name} of cluster {cluster.name!r} lacks "
            f"(its peak_flops has {has}): expected one of these, or emulate: fp32 "
            "beside it to multiply at the FP32 rate there"
        )
        raise Fault(msg, "training", "precision")
    if device.lacks(training.emulate):
        msg = (
            f"is {training.emulate!r}, which {device.name} of cluster "
            f"{cluster.name!r} lacks (its peak_flops has {has}), expected its rate in "
            "peak_flops: {fp32: 15.7 TFLOPS}"
        )
        raise Fault(msg, "training", "emulate")
