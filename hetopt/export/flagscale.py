"""FlagScale: the runtime with different dp and tp per cluster (RUNTIMES.md).

A cluster, or a row of its stages with one strategy, is a process mesh ``tp, cp, ep,
dp, pp``; meshes follow each other in pipeline order, on the hosts whose device type the
hostfile gives. Between meshes every device sends each receiver the part it needs
(``p2p`` of ``hetopt.cost.boundaries.resharding``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.bundle import ranks_csv
from hetopt.export.flagscale_files import (
    EXPERIMENT,
    experiment,
    hostfile,
    launch_script,
    train,
    uses_host,
)
from hetopt.export.flagscale_losses import launched, losses
from hetopt.export.flagscale_reading import looks_like, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from hetopt.export.job import Job
    from hetopt.export.launcher import Loss
    from hetopt.export.sketch import Sketch


class FlagScale:
    """Writes and reads FlagScale's experiment, its training part and its hostfile."""

    name = "flagscale"
    title = "FlagScale"

    def losses(self, job: Job) -> Iterable[Loss]:
        """Yield everything that a mesh per cluster under 1F1B cannot do."""
        return losses(job)

    def files(self, job: Job) -> Mapping[str, str]:
        """Return both YAML files, hosts with device types, ranks, and a script."""
        job = launched(job)
        return {
            f"conf/{EXPERIMENT}.yaml": experiment(job),
            "conf/train/plan.yaml": train(job),
            "hostfile": hostfile(job),
            "ranks.csv": ranks_csv(job.placement),
            "launch.sh": launch_script(),
        }

    def commands(self, job: Job) -> str:
        """Say what to edit, and how to try and start the job."""
        job = launched(job)
        through_host = (
            "Clusters reach each other through their hosts, so the files set "
            "`hetero_use_cpu_communication`. FlagScale then sends between all stages "
            "in this way, also where the plan counts on a direct link, as within a "
            "cluster: expect more time there. With FlagCX on all hosts, set "
            "`distributed_backend: flagcx` instead.\n\n"
            if uses_host(job)
            else ""
        )
        return (
            "1. In `conf/train/plan.yaml`, replace everything under `data` and the "
            "learning rate and length of training: as it stands the job trains on "
            "made-up tokens, which is enough to time it.\n"
            "2. Put this folder at the same path on every host, or on a file system "
            "that all share; the first host of `hostfile` starts the others by ssh.\n"
            "3. On the first host, with `FLAGSCALE` naming the folder of FlagScale's "
            "`run.py`, see what would run, then run it:\n\n"
            "       FLAGSCALE=/path/to/FlagScale ./launch.sh dryrun\n"
            "       FLAGSCALE=/path/to/FlagScale ./launch.sh run\n\n"
            f"{through_host}"
            "FlagScale numbers ranks by the lines of `hostfile` and finds the mesh of "
            "a rank by `type`: keep the order of the lines, and their `slots`."
        )

    def recognises(self, folder: Path) -> bool:
        """Whether a YAML file here enables heterogeneous meshes."""
        return looks_like(folder)

    def read(self, folder: Path) -> Sketch:
        """Read an experiment, its training part and its hostfile."""
        return read(folder)


LAUNCHER = FlagScale()
