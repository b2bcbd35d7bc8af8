"""Slurm: one heterogeneous job starts a program that reads the plan itself.

Consecutive hosts of one cluster with equally many ranks are a component of the job (see
https://slurm.schedmd.com/heterogeneous_jobs.html for components and ``--het-group``).
Slurm starts a process for each rank, and ``rank.sh`` sets the variables that torchrun
would set.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from hetopt.export.job import MASTER_PORT
from hetopt.export.launcher import Launcher
from hetopt.export.shared.scripts import plan_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.export.job import Job
    from hetopt.export.placing import PlacedNode

_RANK = """\
#!/usr/bin/env bash
# One rank: job.sbatch has Slurm start this once for each device of every host.
set -euo pipefail
for entry in $HOSTS_FIRST_RANKS_SLOTS; do
  IFS=: read -r host first slots <<<"$entry"
  if [ "$host" = "$SLURMD_NODENAME" ]; then
    export RANK=$((first + SLURM_LOCALID))
    export LOCAL_RANK=$SLURM_LOCALID LOCAL_WORLD_SIZE=$slots
    exec python train.py --plan plan.json "$@"
  fi
done
echo "rank.sh: host $SLURMD_NODENAME is of no component of the job" >&2
exit 1
"""


def files(job: Job) -> Mapping[str, str]:
    """Return the plan, the batch script, and what it starts for every rank."""
    return {
        "plan.json": plan_json(job),
        "job.sbatch": _batch_script(job),
        "rank.sh": _RANK,
    }


def commands(job: Job) -> str:
    """Say what to edit and how to submit the job."""
    invented = dict.fromkeys(job.placement.invented)
    edit = (
        "The `--constraint` lines of `job.sbatch` are placeholders: put the "
        f"`--constraint` or `--partition` there that gets nodes of "
        f"{', '.join(invented)}. "
        if invented
        else ""
    )
    named = (
        "`--nodelist` has the hosts of the problem file: they must be the names "
        "that Slurm gives its nodes. "
        if len(invented) < len({node.cluster for node in job.placement.nodes})
        else ""
    )
    return (
        "Put your own `train.py` beside this file, and the folder on a file system "
        "that all hosts share. In every rank it is called with `--plan plan.json` "
        "and finds `RANK`, `LOCAL_RANK`, `WORLD_SIZE`, `LOCAL_WORLD_SIZE`, "
        "`MASTER_ADDR` and `MASTER_PORT` set as by torchrun, its stage and "
        "coordinates in `ranks.csv`.\n\n"
        f"{edit}{named}Time limit, account, memory and CPU cores are yours to "
        "add. Then, in this folder:\n\n"
        "    sbatch job.sbatch\n\n"
        "All nodes must be of one Slurm cluster: a heterogeneous job cannot "
        "span two clusters. Ranks follow the components and, within one, the order "
        "in which Slurm lists its nodes: which of its hosts has which of its ranks "
        "may be other than `ranks.csv` says. The hosts of a component are alike."
    )


def _batch_script(job: Job) -> str:
    # The hosts of a component are of one cluster and run equally many ranks.
    rows = groupby(job.placement.nodes, key=lambda node: (node.cluster, node.slots))
    components = [list(nodes) for _, nodes in rows]
    heads = [_resources(job, number, nodes) for number, nodes in enumerate(components)]
    many = len(components) > 1
    groups = ",".join(map(str, range(len(components))))
    nodelist = "SLURM_JOB_NODELIST" + ("_HET_GROUP_{}" if many else "")
    lines = [
        "#!/usr/bin/env bash",
        f"#SBATCH --job-name={job.label}",
        *"\n#SBATCH hetjob\n".join("\n".join(head) for head in heads).split("\n"),
        "set -euo pipefail",
        'cd "$SLURM_SUBMIT_DIR"',
        "first=0",
        'HOSTS_FIRST_RANKS_SLOTS=""',
        "# Gives the hosts of a component their ranks: add NODELIST NODES SLOTS",
        "add() {",
        "  local hosts host",
        '  mapfile -t hosts < <(scontrol show hostnames "$1")',
        '  if [ "${#hosts[@]}" -ne "$2" ]; then',
        '    echo "job.sbatch: $1 is ${#hosts[@]} nodes, expected $2" >&2',
        "    exit 1",
        "  fi",
        '  for host in "${hosts[@]}"; do',
        '    HOSTS_FIRST_RANKS_SLOTS+="$host:$first:$3 "',
        "    first=$((first + $3))",
        "  done",
        "}",
        *(
            f'add "${nodelist.format(number)}" {len(nodes)} {nodes[0].slots}'
            for number, nodes in enumerate(components)
        ),
        "export HOSTS_FIRST_RANKS_SLOTS",
        "export WORLD_SIZE=$first",
        'export MASTER_ADDR="${MASTER_ADDR:-${HOSTS_FIRST_RANKS_SLOTS%%:*}}"',
        f'export MASTER_PORT="${{MASTER_PORT:-{MASTER_PORT}}}"',
        f'exec srun {f"--het-group={groups} " if many else ""}./rank.sh "$@"',
    ]
    return "\n".join(lines) + "\n"


def _resources(job: Job, number: int, nodes: Sequence[PlacedNode]) -> list[str]:
    cluster = job.cluster_of(nodes[0])
    label = job.cluster_labels[cluster.name]
    last = nodes[-1].first_rank + nodes[-1].slots - 1
    lines = [
        f"# Component {number}: ranks {nodes[0].first_rank} to {last}, on {label}.",
        f"#SBATCH --nodes={len(nodes)}",
        f"#SBATCH --ntasks-per-node={nodes[0].slots}",
        f"#SBATCH --gpus-per-node={nodes[0].slots}",
    ]
    if cluster.hosts:
        names = ",".join(node.host for node in nodes)
        return [*lines, f"#SBATCH --nodelist={names}"]
    return [
        *lines,
        f"# A placeholder: what gets nodes of {label}.",
        f"#SBATCH --constraint={label}",
    ]


LAUNCHER = Launcher(
    name="slurm",
    title="Slurm",
    files=files,
    commands=commands,
    side_by_side=lambda job: (),
)
