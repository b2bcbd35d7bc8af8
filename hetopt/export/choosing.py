"""Chooses a launcher that runs a plan as it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.errors import InputError
from hetopt.export.bundle import losses_of
from hetopt.export.job import Job
from hetopt.export.registry import SHIPPED, launcher, launcher_names

if TYPE_CHECKING:
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

#: Which launchers are proposed first: training runtimes, then hetopt's own program,
#: then what starts a program of the user's.
_ORDER = (
    *("megatron", "nemo", "flagscale", "torchtitan", "hetu", "hexiscale", "torch"),
    *("slurm", "torchrun"),
)


def launcher_of(problem: Problem, plan: Plan, asked: str | None = None) -> str | None:
    """Return the first launcher without a loss; None if there is none.

    Parameters
    ----------
    asked
        The launcher that the plan was searched for, else the problem's, is tried first.
    """
    if problem.training.lengths is not None:
        # Bundles are for sequences of one length.
        return None
    own = [name for name in launcher_names() if name not in SHIPPED]
    try:
        job = Job.of(problem, plan)
    except InputError:
        return None
    asked = asked or problem.launcher
    names = dict.fromkeys((*([] if asked is None else [asked]), *_ORDER, *own))
    for name in names:
        try:
            found = launcher(name)
        except InputError:
            continue
        alone = len(plan.pipelines) == 1
        if (alone or found.side_by_side is not None) and not losses_of(job, found):
            return name
    return None
