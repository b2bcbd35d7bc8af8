"""torchrun: starts the ranks; what they run reads the plan itself.

torchrun takes a different ``--nproc_per_node`` on every node, so it can start any plan
(RUNTIMES.md, Others). It knows nothing of stages: ``plan.json`` and ``ranks.csv`` tell
the user's own program what each rank holds.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hetopt.export.scripts import script_name, torchrun_scripts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hetopt.export.job import Job
    from hetopt.export.launcher import Loss


class Torchrun:
    """Starts any program, with the plan beside it."""

    name = "torchrun"
    title = "torchrun"

    def losses(self, job: Job) -> Iterable[Loss]:
        """Yield nothing: the plan goes along as it is."""
        return ()

    def files(self, job: Job) -> Mapping[str, str]:
        """Return the plan and one script per node."""
        return {
            "plan.json": json.dumps(job.plan.to_json(), indent=2) + "\n",
            **torchrun_scripts(job, ["train.py", "--plan", "plan.json"]),
        }

    def commands(self, job: Job) -> str:
        """Say how to start the scripts."""
        first = script_name(job, job.placement.nodes[0])
        return (
            "Put your own `train.py` beside this file: it is called with `--plan "
            "plan.json` in every rank, and finds its stage and coordinates in "
            "`ranks.csv` by its global rank. Copy this folder to every host and run "
            "on each its own script; ranks meet on the first host:\n\n"
            f"    ./{first}"
        )


LAUNCHER = Torchrun()
