"""FlagScale: a runtime in which each cluster has its own dp and tp.

A cluster, or a run of its stages with one strategy, is a process mesh ``tp, cp, ep,
dp, pp``. Meshes follow each other in pipeline order, on the hosts whose device type the
hostfile names. Between meshes every device sends each receiver the part it needs
(``p2p`` of ``hetopt.cost.boundaries.resharding``). Experts use the ranks of a mesh as
in Megatron-LM (parallel folding), and each mesh has its own expert tensor degree
(FlagScale's ``train/hetero/parallel_context.py`` and ``train/arguments.py``).

With several chunks a stage there are no meshes: as in Megatron-LM, whose arguments
these are, all stages have the same degrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.export.flagscale.files import files, uses_host
from hetopt.export.flagscale.losses import (
    fits,
    flagscale_losses,
    launched,
    losses,
    spreads_experts,
)
from hetopt.export.launcher import Launcher, Limits, Tested
from hetopt.export.shared.one_mesh import ONE_MESH

if TYPE_CHECKING:
    from hetopt.export.job import Job


def commands(job: Job) -> str:
    """Say what to edit, and how to try and start the job."""
    meshes = job.plan.chunks == 1
    by_type = " and finds the mesh of a rank by `type`" if meshes else ""
    through_host = (
        "Clusters reach each other through their hosts, so the files set "
        "`hetero_use_cpu_communication`. FlagScale then sends between all stages "
        "in this way, also where the plan counts on a direct link, as within a "
        "cluster: expect more time there. With FlagCX on all hosts, set "
        "`distributed_backend: flagcx` instead.\n\n"
        if meshes and uses_host(job)
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
        f"FlagScale numbers ranks by the lines of `hostfile`{by_type}: keep the order "
        "of the lines, and their `slots`."
    )


LAUNCHER = Launcher(
    name="flagscale",
    title="FlagScale",
    tested=Tested(what="da4935ec"),
    losses=losses,
    launched=launched,
    files=files,
    commands=commands,
    limits=Limits(
        schedules=("1f1b", "interleaved-1f1b"),
        shared_by_chunks=ONE_MESH,
        context_parallel=False,
        recompute=(("none", "full"), ("selective",)),
        zero=(0, 1),
        equal_ends=True,
        losses=flagscale_losses,
        parts=("experts", "latent"),
        fits=fits,
        alike=spreads_experts,
        cuts=True,
    ),
)
