"""The report of ``hetopt run``: measured and predicted times, and their difference."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.plan_report import BYTES_PER_GB

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.report.drawing.sheet import Part
    from hetopt.running.explaining import Explained
    from hetopt.running.measured import Measured

#: What the measured bytes count.
_MEMORY = {
    "allocated": "peak of what PyTorch allocated, per device",
    "activations": "what autograd kept from forward to backward at once, per rank: "
    "PyTorch does not say what CPUs allocate",
}


def run_report(
    plan: Plan, price: Price, measured: Measured, explained: Explained
) -> list[Part]:
    """Return tables of stages and boundaries, and the parts of the difference."""
    stages = sheet(
        (
            *("stage", "cluster"),
            *("forward s planned", "forward s measured"),
            *("backward s planned", "backward s measured"),
            *("GB planned", "GB measured"),
        ),
        (
            (
                number,
                plan.pipeline.stages[number].cluster,
                f"{price.times.forward_ns[number] / 1e9:.4f}",
                f"{stage.forward_s:.4f}",
                f"{price.times.backward_ns[number] / 1e9:.4f}",
                f"{stage.backward_s:.4f}",
                f"{_planned_bytes(price, measured, number) / BYTES_PER_GB:.4g}",
                f"{stage.peak_bytes / BYTES_PER_GB:.4g}",
            )
            for number, stage in enumerate(measured.stages)
        ),
        left=("cluster",),
    )
    boundaries = sheet(
        ("boundary", "transfer s planned", "transfer s measured"),
        (
            (name, f"{planned / 1e9:.4f}", f"{time_s:.4f}")
            for planned, (name, time_s) in zip(
                price.times.every_transfer_ns, _transfers(measured), strict=True
            )
        ),
    )
    ratio = explained.measured_s / explained.predicted_s
    pairs = [
        ("measured", _iterations(measured)),
        (
            "simulated",
            f"{explained.predicted_s:.6f} s, from which measured differs by "
            f"{ratio - 1:+.1%}",
        ),
        (
            "simulated with measured durations",
            f"{explained.replayed_s:.6f} s",
        ),
        *(
            (f"difference by {name}", f"{part_s:+.6f} s")
            for name, part_s in explained.parts_s
        ),
        *_about(measured),
    ]
    found: list[Part] = [stages]
    if measured.boundaries_s:
        found.append(boundaries)
    return [*found, labelled(pairs)]


def measured_report(measured: Measured, replayed_s: float) -> list[Part]:
    """Return the report on a bundle's run without its problem and plan."""
    stages = sheet(
        ("stage", "forward s", "backward s", "gradients and optimizer s", "GB"),
        (
            (
                number,
                f"{stage.forward_s:.4f}",
                f"{stage.backward_s:.4f}",
                f"{stage.sync_s:.4f}",
                f"{stage.peak_bytes / BYTES_PER_GB:.4g}",
            )
            for number, stage in enumerate(measured.stages)
        ),
    )
    boundaries = sheet(
        ("boundary", "transfer s"),
        ((name, f"{time_s:.4f}") for name, time_s in _transfers(measured)),
    )
    pairs = [
        ("measured", _iterations(measured)),
        ("simulated with measured durations", f"{replayed_s:.6f} s"),
        *_about(measured),
    ]
    found: list[Part] = [stages]
    if measured.boundaries_s:
        found.append(boundaries)
    return [*found, labelled(pairs)]


def _transfers(measured: Measured) -> list[tuple[str, float]]:
    """Return boundaries by name with seconds of a transfer, the way back last."""
    found = [
        (f"{number} to {number + 1}", time_s)
        for number, time_s in enumerate(measured.boundaries_s)
    ]
    if measured.chunks is not None:
        found.append((f"{len(found)} to 0", measured.chunks.way_back_s))
    return found


def _planned_bytes(price: Price, measured: Measured, stage: int) -> int:
    """Return the planned bytes of a stage to compare with the measured ones."""
    if measured.memory == "allocated":
        return price.memory_bytes[stage]
    held = price.times.passes_held[stage] * price.activation_bytes[stage]
    return held + price.end_bytes[stage] if price.end_bytes else held


def _iterations(measured: Measured) -> str:
    times = measured.iteration_s
    if len(times) == 1:
        return f"{measured.time_s:.6f} s, one iteration"
    return (
        f"{measured.time_s:.6f} s, median of {counted(len(times), 'iteration')} from "
        f"{min(times):.6f} to {max(times):.6f} s"
    )


def _about(measured: Measured) -> Iterator[tuple[str, str]]:
    yield "loss", f"{measured.loss[0]:.6f}, at the end {measured.loss[-1]:.6f}"
    yield "memory", _MEMORY[measured.memory]
    versions = ", ".join(f"{name} {text}" for name, text in measured.versions.items())
    yield "ran on", f"{', '.join(measured.devices)}; {versions}"
    if (known := measured.conditions) is not None:
        yield "threads per rank", str(known.threads)
        yield "load", f"{known.load_text}, mean of the iterations"
        low, middle, high = (f"{of(known.cpu_shares):.0%}" for of in (min, median, max))
        ranks = counted(len(known.cpu_shares), "rank")
        yield "CPU time over wall time", f"{low} to {high}, median {middle} of {ranks}"
    if measured.noise:
        said = f"the run has {' and '.join(measured.noise)}"
        yield "unreliable", f"{said}: run again on a quiet machine"
    if measured.units is not None:
        yield "model", f"units of {measured.units}, not the plan's own"
