"""Turn a list of nodes into the clusters of a problem.

Reads what Slurm, Kubernetes and Ray print, and hostfiles. What it does not find there
becomes a commented question in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cli.flag import Flag, writes
from hetopt.cli.output import complain, emit
from hetopt.cli.paths import STDOUT, ensure_files
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse


#: What this command takes.
TAKES = (
    Flag(
        "files",
        'what `sinfo -h --Node -o "%%N %%t %%G %%c %%m %%P"`, `scontrol show node` '
        "(both also with --json), `kubectl get nodes -o json` or "
        "json.dumps(ray.nodes()) printed, or a hostfile",
        "FILE",
        nargs="+",
        role="reads",
    ),
    Flag(
        "--include",
        "also use nodes in these states, such as allocated,mixed, as if they were "
        "idle; all: in any state",
        "STATE,...",
    ),
    writes(
        "--out",
        "where to write the section (default: - is standard output)",
        default="-",
    ),
)


def run(options: argparse.Namespace) -> int:
    """Write the section, and print which nodes were left out."""
    from hetopt.base.files import write_text
    from hetopt.inventory.grouping import group_nodes
    from hetopt.inventory.reading import read_inventory
    from hetopt.inventory.states import included
    from hetopt.inventory.writing import clusters_yaml, left_out, summary
    from hetopt.problem.document.document import QUESTION

    ensure_files(options)
    include = included(options.include)
    inventory = group_nodes([read_inventory(path) for path in options.files], include)
    if not inventory.drafts:
        msg = "; ".join(("no node can be planned on", *left_out(inventory)))
        raise InputError(msg, file=", ".join(options.files))
    text = clusters_yaml(inventory)
    if options.out == STDOUT:
        emit(text)
    else:
        write_text(options.out, text)
    complain(*summary(inventory))
    questions = text.count(QUESTION)
    if questions:
        where = "the section" if options.out == STDOUT else options.out
        complain(f"{where}: {counted(questions, 'question')} to answer")
    return 0
