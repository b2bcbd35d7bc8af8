"""How many ranks launch scripts start, and on which hosts."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import TYPE_CHECKING

from hetopt.base.words import counted, describe
from hetopt.export.shared.hosts import on_first_hosts, rank_hosts

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hetopt.export.shared.hosts import RankHosts
    from hetopt.export.shared.shell.arguments import ShellArguments


def places_of(folder: Path, arguments: ShellArguments) -> RankHosts | None:
    """Return the hosts of ranks, on the first ``--num-nodes`` hosts if given."""
    name = arguments.get("--hostfile")
    nodes = "--num-nodes" in arguments
    places = rank_hosts(folder, PurePath(name).name if name else "hostfile")
    if places is None or not nodes:
        return places
    return on_first_hosts(places, arguments.count("--num-nodes"))


def world_size(scripts: Sequence[ShellArguments]) -> int:
    """Return how many ranks scripts start: one script a node, or one for all nodes."""
    first = scripts[0]
    names = {"nproc_per_node", "num_gpus", "nnodes", "num_nodes"}
    if first.names.isdisjoint(names):
        msg = (
            "is not given, nor a hostfile or ranks.csv in the folder: hetopt cannot "
            "tell how many ranks there are"
        )
        raise first.wrong("--nproc-per-node", msg)
    if "--num-gpus" in first:
        return first.count("--num-nodes", 1) * first.count("--num-gpus")
    if "--num-nodes" in first:
        msg = (
            "is not given, and the hostfile is not in the folder: hetopt cannot tell "
            "how many ranks there are"
        )
        raise first.wrong("--num-gpus", msg)
    nodes = _nodes(first)
    each = [script.count("--nproc-per-node", 1) for script in scripts]
    if len(scripts) == 1:
        return nodes * each[0]
    if len(scripts) != nodes:
        msg = (
            f"is {nodes}, but the folder has {counted(len(scripts), 'script')}: "
            "expected one per node"
        )
        raise first.wrong("--nnodes", msg)
    return sum(each)


def _nodes(script: ShellArguments) -> int:
    """Return the nodes of torchrun; InputError for a range of several, as 1:4."""
    text = script.get("--nnodes", "1") or ""
    least, _, most = text.partition(":")
    if most and least != most:
        msg = f"is {describe(text)}: hetopt cannot tell how many ranks there are"
        raise script.wrong("--nnodes", msg)
    if re.fullmatch("([1-9][0-9]{0,8}):\\1", text):
        return int(most)
    return script.count("--nnodes", 1)
