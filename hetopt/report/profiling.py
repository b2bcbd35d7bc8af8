"""The progress of profiling, with the remaining time, and the lines at its end."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.report.drawing.bar import ShownProgress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.progress import ProgressColumn

    from hetopt.cost.operators.file import OperatorRow
    from hetopt.cost.profiles.file import ProfileRow
    from hetopt.profile.task_loop import MeasuringOutcome, MeasuringProgress


class ProfilingBar(ShownProgress):
    """Shows how much was measured, the current task, and the remaining time."""

    DOING = "measuring"
    REFRESHES_PER_S = 2
    # Tasks differ a lot in length, so the estimate uses the last minutes.
    PERIOD_S = 180.0

    def columns(self) -> Sequence[ProgressColumn]:
        """Return the share that is done, the elapsed and the remaining time."""
        from rich.progress import TextColumn, TimeElapsedColumn, TimeRemainingColumn

        return (
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
        )

    def update(self, progress: MeasuringProgress) -> None:
        """Show the state of the profile."""
        self.show(progress.work_done, progress.work_total, state(progress))


def state(progress: MeasuringProgress) -> str:
    """Return the counts and the current task in a few words."""
    counts = f"{progress.done}/{progress.total} {progress.what}"
    return counts if progress.label is None else f"{counts}, {progress.label}"


def kernels_text(path: str, outcome: MeasuringOutcome[tuple[OperatorRow, ...]]) -> str:
    """Return what became of a measurement of kernels, in one line."""
    kernels = outcome.measured
    measured = f"{counted(len(kernels), 'kernel')} measured"
    measured += f", {counted(sum(map(len, kernels)), 'row')}"
    return _text(path, outcome, measured, sum(not rows for rows in kernels))


def shards_text(path: str, outcome: MeasuringOutcome[ProfileRow]) -> str:
    """Return what became of a measurement of layers, in one line."""
    rows = outcome.measured
    measured = f"{counted(len(rows), 'shard')} measured"
    spreads = [
        row.forward_spread_s / row.forward_s
        for row in rows
        if row.forward_s is not None and row.forward_spread_s is not None
    ]
    if spreads:
        measured += f"; median spread of repetitions {statistics.median(spreads):.1%}"
    return _text(path, outcome, measured, sum(row.status == "oom" for row in rows))


def _text(path: str, outcome: MeasuringOutcome[Any], measured: str, oom: int) -> str:
    left = f"{outcome.remaining} left out for lack of time"
    if outcome.interrupted:
        left = f"stopped with {outcome.remaining} to go"
    parts = {
        measured: True,
        f"{outcome.found} were there already": outcome.found > 0,
        f"{oom} out of memory": oom > 0,
        f"{left}: the same command continues": outcome.remaining > 0,
    }
    return f"{path}: {'; '.join(text for text, holds in parts.items() if holds)}"


def ready_line(
    path: str,
    accelerator: str,
    dtype: str,
    problem: str = "a problem",
    clusters: Sequence[str] = ("CLUSTER",),
) -> str:
    """Return the line of a problem that names a measured file.

    Parameters
    ----------
    path
        The file, relative to the problem's.
    accelerator, dtype
        What the problem must have for it, in a comment.
    problem
        Its file.
    clusters
        Those that were measured.
    """
    named = ", ".join(f"{name}: {path}" for name in clusters)
    needs = f"of accelerator {accelerator}, training.precision {dtype}"
    return f"in {problem}: latency: {{{named}}}  # {needs}"


def accelerator_line(name: str, dtype: str, rates: Mapping[str, str]) -> str:
    """Return the line of a problem that states measured rates of a device."""
    peak, bandwidth = rates["peak_flops"], rates["memory_bandwidth"]
    stated = f"peak_flops: {{{dtype}: {peak}}}, memory_bandwidth: {bandwidth}"
    others = "memory, intra_node and host_device, or like"
    return f"in a problem: accelerator: {{name: {name}, {stated}}}  # add {others}"
