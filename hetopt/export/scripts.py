"""Shell scripts that start a job's processes, one script per node."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.export.job import Job
    from hetopt.export.placing import Node

#: Where the ranks meet unless the user's environment says otherwise.
MASTER_PORT = 29500

#: Accelerators whose drivers do not read CUDA's variable, by how their names begin.
_VISIBLE = {"Ascend": "ASCEND_RT_VISIBLE_DEVICES", "MI": "HIP_VISIBLE_DEVICES"}


def script_name(job: Job, node: Node) -> str:
    """Return the path of a node's script: numbered in rank order."""
    number = job.placement.nodes.index(node)
    width = len(str(len(job.placement.nodes) - 1))
    return f"nodes/{number:0{width}d}-{node.host}.sh"


def visible_devices(job: Job, node: Node) -> str:
    """Return the variable that limits a process to some devices of a node."""
    cluster = job.problem.clusters[job.problem.cluster_index(node.cluster)]
    for prefix, variable in _VISIBLE.items():
        if cluster.accelerator.name.startswith(prefix):
            return variable
    return "CUDA_VISIBLE_DEVICES"


def torchrun_scripts(
    job: Job,
    program: Sequence[str],
    environment: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return one script per node that starts its ranks with torchrun.

    Nodes may run different numbers of processes: torchrun's static rendezvous numbers
    ranks by node, in the order of ``--node_rank``.

    Parameters
    ----------
    program
        What to run in every rank, unquoted; what a user adds to the script's
        arguments comes after it.
    environment
        Variables to set, unless they are set already.
    """
    return {
        script_name(job, node): _script(job, number, node, program, environment or {})
        for number, node in enumerate(job.placement.nodes)
    }


def _script(
    job: Job,
    number: int,
    node: Node,
    program: Sequence[str],
    environment: Mapping[str, str],
) -> str:
    master = job.placement.nodes[0].host
    last = node.first_rank + node.slots - 1
    devices = ",".join(map(str, range(node.slots)))
    exports = {visible_devices(job, node): devices, **environment}
    lines = [
        "#!/usr/bin/env bash",
        f"# Ranks {node.first_rank} to {last} of {job.world_size}, on {node.host} "
        f"({node.cluster}).",
        "set -euo pipefail",
        'cd "$(dirname "$0")/.."',
        *(f'export {name}="${{{name}:-{value}}}"' for name, value in exports.items()),
        "exec torchrun \\",
        f"  --nnodes={len(job.placement.nodes)} --node_rank={number} "
        f"--nproc_per_node={node.slots} \\",
        f'  --master_addr="${{MASTER_ADDR:-{master}}}" '
        f'--master_port="${{MASTER_PORT:-{MASTER_PORT}}}" \\',
        *(f"  {words} \\" for words in _rows(program)),
        '  "$@"',
    ]
    return "\n".join(lines) + "\n"


def _rows(program: Sequence[str]) -> list[str]:
    """Return a command's words quoted, every option in a row of its own."""
    rows: list[list[str]] = [[]]
    for word in program:
        if word.startswith("--"):
            rows.append([])
        rows[-1].append(word)
    return [shlex.join(row) for row in rows]
