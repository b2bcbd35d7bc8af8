"""Settings of Megatron-LM and Megatron-Bridge that put the optimizer in host memory.

The switch is for all ranks. megatron-core has it only for Adam with sharded states and
together with ``use_precision_aware_optimizer``, whose states are in 32 bits by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.export.shared.megatron.numbers import number
from hetopt.export.understood import not_priced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from hetopt.export.job import Job
    from hetopt.export.shared.megatron.numbers import Wrong
    from hetopt.problem.cluster.cluster import Offload
    from hetopt.problem.problem import Problem
    from hetopt.results.reported import Reported

_SWITCH = "optimizer_cpu_offload"
_FRACTION = "optimizer_offload_fraction"
_NEEDED = "use_precision_aware_optimizer"


def offload_settings(job: Job) -> dict[str, Any]:
    """Return the settings of a job; none unless all its stages offload."""
    if not all(job.cluster_of(stage).offload for stage in job.stages):
        return {}
    if no_offload(job.problem) is not None:
        return {}
    # Megatron-Bridge's fraction is 0 unless given.
    return {_SWITCH: True, _FRACTION: 1.0, _NEEDED: True}


def no_offload(problem: Problem) -> str | None:
    """Return why megatron-core offloads no optimizer; None if it does."""
    training = problem.training
    if training.optimizer == "adam" and training.zero > 0:
        return None
    return (
        "it offloads Adam with sharded states alone, not "
        f"{training.optimizer} with ZeRO {training.zero}"
    )


def offload_said(settings: Mapping[str, str], wrong: Wrong) -> Offload | None:
    """Return the state that settings keep in host memory."""
    if _SWITCH not in settings:
        return None
    # The switch needs this setting: looking it up keeps it out of the reports.
    settings.get(_NEEDED)
    return "optimizer" if number(settings, _FRACTION, wrong, 1.0) == 1 else None


def offload_notes(
    settings: Mapping[str, str], wrong: Wrong, spelled: Callable[[str], str]
) -> Iterator[Reported]:
    """Yield a report if only a part of the optimizer is offloaded."""
    if _SWITCH in settings and offload_said(settings, wrong) is None:
        why = "hetopt prices all of the optimizer in the hosts' memory, or nothing"
        yield not_priced(spelled(_FRACTION), why)
