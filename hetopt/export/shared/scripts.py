"""Shell scripts that start a job's processes, one script per node."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING

from hetopt.base.threads import THREADS, UNSET
from hetopt.export.job import MASTER_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.export.job import Job
    from hetopt.export.launcher import Tested
    from hetopt.export.placing import PlacedNode


def script_name(job: Job, number: int) -> str:
    """Return the path of the script of a node, by its number in rank order."""
    nodes = job.placement.nodes
    width = len(str(len(nodes) - 1))
    return f"nodes/{number:0{width}d}-{nodes[number].host}.sh"


def torchrun_scripts(
    job: Job,
    program: Sequence[str],
    environment: Mapping[str, str] | None = None,
    tested: Tested | None = None,
) -> dict[str, str]:
    """Return one script per node that starts its ranks with torchrun.

    Nodes may run different numbers of processes: with a static rendezvous torchrun
    numbers ranks by node, in the order of ``--node_rank``.

    Parameters
    ----------
    program
        What to run in every rank, as words without quotes; the script's own arguments
        follow it.
    environment
        Variables to set, unless they are set already.
    tested
        The version to check first, if the runtime has a version to check.
    """
    checks = [] if tested is None or tested.module is None else _checks(tested)
    return {
        script_name(job, number): _script(
            job, number, node, program, environment or {}, checks
        )
        for number, node in enumerate(job.placement.nodes)
    }


def mixed_note(job: Job) -> list[str]:
    """Return a paragraph if devices with different drivers have to communicate."""
    if len({job.visible_devices(node) for node in job.placement.nodes}) < 2:
        return []
    names = dict.fromkeys(node.cluster for node in job.placement.nodes)
    return [
        f"Devices of {', '.join(names)} have different drivers, and one job joins "
        "them: that takes a communication library which all of them share."
    ]


def plan_json(job: Job) -> str:
    """Return ``plan.json``, from which the user's own program reads its stage."""
    return json.dumps(job.plan.to_json(), indent=2) + "\n"


def _script(
    job: Job,
    number: int,
    node: PlacedNode,
    program: Sequence[str],
    environment: Mapping[str, str],
    checks: Sequence[str],
) -> str:
    master = job.placement.nodes[0].host
    last = node.first_rank + node.slots - 1
    # Threads as torchrun sets them by itself only if it starts several processes.
    exports = {THREADS: UNSET, **environment}
    lines = [
        "#!/usr/bin/env bash",
        f"# Ranks {node.first_rank} to {last} of {job.world_size}, on {node.host} "
        f"({node.cluster}).",
        "set -euo pipefail",
        'cd "$(dirname "$0")/.."',
        *_device_lines(job, node),
        *(f'export {name}="${{{name}:-{value}}}"' for name, value in exports.items()),
        *checks,
        "exec torchrun \\",
        f"  --nnodes={len(job.placement.nodes)} --node_rank={number} "
        f"--nproc_per_node={node.slots} \\",
        f'  --master_addr="${{MASTER_ADDR:-{master}}}" '
        f'--master_port="${{MASTER_PORT:-{MASTER_PORT}}}" \\',
        *(f"  {words} \\" for words in _rows(program)),
        '  "$@"',
    ]
    return "\n".join(lines) + "\n"


def _device_lines(job: Job, node: PlacedNode) -> list[str]:
    """Return the lines that choose a script's devices.

    Those that are visible already are kept, but if the host has other scripts, too, and
    sees more devices than this one needs, it takes those that it would have.
    """
    name, first, slots = job.visible_devices(node), node.first_device, node.slots
    devices = ",".join(map(str, range(first, first + slots)))
    lines = [f'export {name}="${{{name}:-{devices}}}"']
    if sum(other.host == node.host for other in job.placement.nodes) > 1:
        lines += [
            f'IFS=, read -ra visible <<< "${name}"',
            f"if (( ${{#visible[@]}} > {slots} )); then",
            f'  own=("${{visible[@]:{first}:{slots}}}")',
            f"  if (( ${{#own[@]}} < {slots} )); then",
            f'    echo "{name}=${name} leaves too few devices from number {first} on: '
            f'{slots} needed" >&2',
            "    exit 1",
            "  fi",
            f'  {name}="$(IFS=,; echo "${{own[*]}}")"',
            "fi",
        ]
    return lines


def _checks(tested: Tested) -> list[str]:
    """Return the lines that end a script if the runtime has another version.

    The runtime may be installed, or be in the folder above.
    """
    module, what = tested.module, tested.what
    return [
        'if [[ -z "${ANY_VERSION:-}" ]]; then',
        "  python - <<'END'",
        "import sys",
        'sys.path.insert(0, "..")',
        "try:",
        f"    from {module} import __version__ as found",
        "except ImportError as error:",
        f'    sys.exit(f"{module} cannot be imported: {{error}}")',
        f'if not found.startswith("{what}."):',
        f'    sys.exit(f"tested with {module} {what}, found {{found}}; "',
        '             "set ANY_VERSION=1 in the environment to continue")',
        "END",
        "fi",
    ]


def _rows(program: Sequence[str]) -> list[str]:
    """Return a command's words quoted, a row for each option."""
    rows: list[list[str]] = [[]]
    for word in program:
        if word.startswith("--"):
            rows.append([])
        rows[-1].append(word)
    return [shlex.join(row) for row in rows]
