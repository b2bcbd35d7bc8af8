"""What a run of a plan took: the content of ``measured.json``."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Any, Literal

from hetopt.errors import InputError
from hetopt.reading import read_json
from hetopt.version import __version__
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.running.records import Iteration

MEASURED_SCHEMA = "hetopt-measured/1"

#: What ``peak_bytes`` are: all that PyTorch allocated on a GPU at once, or, on CPUs,
#: what autograd kept from forward to backward passes.
MemoryKind = Literal["allocated", "activations"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStage:
    """One stage: mean seconds of a micro-batch's passes, and of g in an iteration.

    Attributes
    ----------
    peak_bytes
        Of its fullest rank.
    """

    forward_s: float
    backward_s: float
    sync_s: float
    peak_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A run.

    Attributes
    ----------
    plan_digest
        Of the plan as it was launched (``job.json``).
    iteration_s, loss
        Of each iteration that was timed.
    stages, boundaries_s
        Means over an iteration's micro-batches, medians over iterations; of boundaries
        seconds of a transfer, both directions together; p and p - 1.
    memory
        What ``peak_bytes`` of stages are.
    devices
        Names of what the ranks ran on.
    units
        FILE:FUNCTION that made the model's units; None for the plan's own model.
    """

    plan_digest: str
    iteration_s: tuple[float, ...]
    loss: tuple[float, ...]
    stages: tuple[MeasuredStage, ...]
    boundaries_s: tuple[float, ...]
    memory: MemoryKind
    devices: tuple[str, ...]
    versions: dict[str, str]
    units: str | None

    @property
    def time_s(self) -> float:
        """Median of the iterations."""
        return median(self.iteration_s)

    def to_json(self) -> dict[str, Any]:
        """Return the run as plain JSON data; see ``hetopt schema measured``."""
        return {"schema": MEASURED_SCHEMA, **asdict(self)}


def measured_of(
    plan_digest: str,
    ranks: Sequence[dict[str, Any]],
    iterations: Sequence[Iteration],
    units: str | None,
) -> Measured:
    """Sum up what ranks wrote."""
    stages = []
    for number in range(len(iterations[0].forward)):
        peaks = [rank["peak_bytes"] for rank in ranks if rank["stage"] == number]
        stages.append(
            MeasuredStage(
                forward_s=median(_mean(each.forward[number]) for each in iterations),
                backward_s=median(_mean(each.backward[number]) for each in iterations),
                sync_s=median(each.sync[number].length_s for each in iterations),
                peak_bytes=max(peaks),
            )
        )
    return Measured(
        plan_digest=plan_digest,
        iteration_s=tuple(each.time_s for each in iterations),
        loss=tuple(each.loss for each in iterations),
        stages=tuple(stages),
        boundaries_s=tuple(
            median(each.boundary_s(number) for each in iterations)
            for number in range(len(stages) - 1)
        ),
        memory=ranks[0]["memory"],
        devices=tuple(dict.fromkeys(rank["device"] for rank in ranks)),
        versions={
            "hetopt": __version__,
            "torch": ranks[0]["torch"],
            "python": platform.python_version(),
        },
        units=units,
    )


def _mean(spans: Sequence[Any]) -> float:
    return fmean(span.length_s for span in spans)


def read_iterations(path: str, plan_digest: str) -> tuple[float, ...]:
    """Return the iteration times of a file that ``hetopt run`` wrote.

    Raises
    ------
    InputError
        The file is none, or of another plan.
    """
    data = read_json(path, "what `hetopt run` wrote")
    if not isinstance(data, dict) or data.get("schema") != MEASURED_SCHEMA:
        found = data.get("schema") if isinstance(data, dict) else data
        msg = f"is {describe(found)}, expected {MEASURED_SCHEMA!r}: see `hetopt run`"
        raise InputError(msg, file=path, field="schema")
    if data.get("plan_digest") != plan_digest:
        msg = "is of another plan: name the one that was run"
        raise InputError(msg, file=path, field="plan_digest")
    times = data.get("iteration_s")
    if not isinstance(times, list) or not times:
        msg = f"is {describe(times)}, expected a list of seconds"
        raise InputError(msg, file=path, field="iteration_s")
    for number, each in enumerate(times):
        known = isinstance(each, (int, float)) and not isinstance(each, bool)
        if not known or not 0 < each < float("inf"):
            msg = f"is {describe(each)}, expected seconds above 0"
            raise InputError(msg, file=path, field=f"iteration_s.{number}")
    return tuple(map(float, times))
