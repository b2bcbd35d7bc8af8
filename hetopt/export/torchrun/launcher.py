"""torchrun: starts the user's own program, which reads the plan itself.

torchrun takes a different ``--nproc_per_node`` on every node, so it can start any plan.
It knows nothing of stages: the program finds in ``plan.json`` and ``ranks.csv`` what
each rank holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.launcher import Launcher
from hetopt.export.shared.scripts import plan_json, script_name, torchrun_scripts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.export.job import Job


def files(job: Job) -> Mapping[str, str]:
    """Return the plan and one script per node."""
    return {
        "plan.json": plan_json(job),
        **torchrun_scripts(job, ["train.py", "--plan", "plan.json"]),
    }


def commands(job: Job) -> str:
    """Say how to start the scripts."""
    first = script_name(job, 0)
    return (
        "Put your own `train.py` beside this file: it is called with `--plan "
        "plan.json` in every rank, and finds its stage and coordinates in "
        "`ranks.csv` by its global rank. Copy this folder to every host and run "
        "on each its own script; ranks meet on the first host:\n\n"
        f"    ./{first}"
    )


LAUNCHER = Launcher(
    name="torchrun",
    title="torchrun",
    files=files,
    commands=commands,
    side_by_side=lambda job: (),
    divides_hosts=True,
)
