"""The report of ``hetopt run``: measured and predicted times, and their difference."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.report.drawing.sheet import by_column, labelled, sheet
from hetopt.report.plan_report import BYTES_PER_GB

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from hetopt.plans.plan import Plan
    from hetopt.pricing.price import Price
    from hetopt.report.drawing.sheet import Part
    from hetopt.running.explaining import Explained
    from hetopt.running.measured import Measured
    from hetopt.schedule.times import PipelineTimes

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
    times, stages = price.times, measured.stages
    planned = [_planned_bytes(price, measured, stage) for stage in range(len(stages))]
    ratio = explained.measured_s / explained.predicted_s
    found = _report(
        measured,
        [
            ("cluster", [each.cluster for each in plan.pipeline.stages]),
            ("forward s planned", _seconds(ns / 1e9 for ns in times.forward_ns)),
            ("forward s measured", _seconds(each.forward_s for each in stages)),
            ("backward s planned", _seconds(ns / 1e9 for ns in times.backward_ns)),
            ("backward s measured", _seconds(each.backward_s for each in stages)),
            ("GB planned", _gigabytes(planned)),
            ("GB measured", _gigabytes(each.peak_bytes for each in stages)),
        ],
        [("transfer s planned", _seconds(ns / 1e9 for ns in times.every_transfer_ns))],
        [
            (
                "simulated",
                f"{explained.predicted_s:.6f} s, from which measured differs by "
                f"{ratio - 1:+.1%}",
            ),
            ("simulated with measured durations", f"{explained.replayed_s:.6f} s"),
            *(
                (f"difference by {name}", f"{part_s:+.6f} s")
                for name, part_s in explained.parts_s
            ),
        ],
    )
    if measured.stages[0].by_chunk_s:
        found.insert(1, _chunks(times, measured))
    return found


def measured_report(measured: Measured, replayed_s: float) -> list[Part]:
    """Return the report on a bundle's run without its problem and plan."""
    stages = measured.stages
    return _report(
        measured,
        [
            ("forward s", _seconds(each.forward_s for each in stages)),
            ("backward s", _seconds(each.backward_s for each in stages)),
            ("gradients and optimizer s", _seconds(each.sync_s for each in stages)),
            ("GB", _gigabytes(each.peak_bytes for each in stages)),
        ],
        [],
        [("simulated with measured durations", f"{replayed_s:.6f} s")],
    )


def _report(
    measured: Measured,
    stages: list[tuple[str, list[str]]],
    planned: list[tuple[str, list[str]]],
    simulated: list[tuple[str, str]],
) -> list[Part]:
    """Return tables with these columns of stages, and of boundaries if there are any.

    Parameters
    ----------
    planned
        What boundaries have before what was measured of them.
    simulated
        Lines behind the one on what was measured.
    """
    numbers = ("stage", range(len(measured.stages)))
    found: list[Part] = [by_column([numbers, *stages], left=("cluster",))]
    if measured.boundaries_s:
        names, times_s = zip(*_transfers(measured), strict=True)
        measured_s = "transfer s measured" if planned else "transfer s"
        columns = [("boundary", names), *planned, (measured_s, _seconds(times_s))]
        found.append(by_column(columns))
    pairs = [("measured", _iterations(measured)), *simulated, *_about(measured)]
    return [*found, labelled(pairs)]


def _chunks(times: PipelineTimes, measured: Measured) -> Part:
    """Return the table of chunks that differ."""
    rows = []
    for number, stage in enumerate(measured.stages):
        planned = zip(*times.durations_ns(number), strict=True)
        pairs = zip(planned, stage.by_chunk_s, strict=True)
        for chunk, ((forward, backward), found_s) in enumerate(pairs):
            every = forward / 1e9, found_s[0], backward / 1e9, found_s[1]
            rows.append((number, chunk, *_seconds(every)))
    ways = ("forward s", "backward s")
    kinds = (f"{way} {how}" for way in ways for how in ("planned", "measured"))
    return sheet(("stage", "chunk", *kinds), rows)


def _seconds(times_s: Iterable[float]) -> list[str]:
    return [f"{time_s:.4f}" for time_s in times_s]


def _gigabytes(sizes: Iterable[int]) -> list[str]:
    return [f"{size / BYTES_PER_GB:.4g}" for size in sizes]


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
