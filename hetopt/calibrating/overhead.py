"""Correcting the memory overhead of a cluster by the measured memory of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.calibrating.runs import Repriced
from hetopt.errors import InputError
from hetopt.problem.calibration import most_overhead

if TYPE_CHECKING:
    from hetopt.calibrating.runs import MeasuredRun


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """The corrected overhead of a cluster.

    Attributes
    ----------
    cluster
        The cluster of the stage with the fullest devices.
    overhead_bytes
        Per device, outside of what the framework allocates.
    planned_bytes
        What that stage needs per device according to the plan.
    bounded
        The bounds, if they prevented a full correction; else None.
    """

    cluster: str
    overhead_bytes: int
    planned_bytes: int
    bounded: str | None


def fit_overhead(run: MeasuredRun, measured_bytes: int) -> Overhead:
    """Return the measured memory minus what the plan needs, within bounds.

    Parameters
    ----------
    measured_bytes
        Peak memory of the fullest device, as its driver counts it.

    Raises
    ------
    InputError
        A device of the fullest stage's cluster has less memory.
    """
    plan = Repriced(run.problem, run.plan)
    memory = plan.price(run.problem.calibration).memory_bytes
    name = run.plan.pipeline.stages[memory.index(max(memory))].cluster
    size = next(c.memory_bytes for c in run.problem.clusters if c.name == name)
    if measured_bytes > size:
        msg = (
            f"is {measured_bytes / 1e9:g} GB, but the fullest device, of cluster "
            f"{name!r}, has {size / 1e9:g} GB: give what one device held, or correct "
            "the cluster's memory"
        )
        raise InputError(msg, field="--memory")
    most = most_overhead(size)
    exact = measured_bytes - max(memory)
    found = min(max(exact, 0), most)
    return Overhead(
        cluster=name,
        overhead_bytes=found,
        planned_bytes=max(memory),
        bounded=None if found == exact else f"overhead (0 to {most / 1e9:g} GB)",
    )
