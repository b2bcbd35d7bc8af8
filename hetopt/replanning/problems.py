"""The problem after devices are lost or added: as a document, and as text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hetopt.problem.catalogue import PROFILE_SUFFIX
from hetopt.problem.document.edits import Dropped, NodesListed, edited

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.cluster.nodes import Node
    from hetopt.problem.document.document import Document, FieldPath
    from hetopt.problem.document.edits import Edit

#: Fields of a cluster that only some sizes of nodes permit.
_OF_SIZES = ("price_per_hour", "group")
_DOMAIN = "which nodes are in one domain is not known"


def with_nodes(document: Document, nodes: Sequence[Node]) -> Document:
    """Return a problem's document whose clusters have these nodes, in their order.

    Parameters
    ----------
    document
        With the content of the files that it names.

    Raises
    ------
    InputError
        No cluster has nodes.
    """
    edits: list[Edit] = []
    for cluster in document.data["clusters"]:
        name = str(cluster["name"])
        own = [node for node in nodes if node.cluster == name]
        if not own:
            edits.append(Dropped(cluster=name))
            continue
        sizes = tuple(len(node.devices) for node in own)
        hosts = tuple(node.host for node in own)
        edits.append(NodesListed(cluster=name, sizes=sizes, hosts=hosts))
    return edited(document, edits)


def left_out(before: Document, after: Document) -> list[str]:
    """Return a line for each field of a cluster that was dropped."""
    old = {str(own["name"]): own for own in before.data["clusters"]}
    return [
        f"cluster {own['name']}: {key} is dropped: {why}"
        for own in after.data["clusters"]
        for key in (*_OF_SIZES, "domain")
        if key in old[str(own["name"])] and key not in own
        for why in [_DOMAIN if key == "domain" else _not_of(own["nodes"])]
    ]


def _not_of(nodes: Sequence[int]) -> str:
    sizes = " and ".join(map(str, sorted(set(nodes))))
    return f"it does not apply to nodes of {sizes} devices"


def problem_text(document: Document, path: str, head: str) -> str:
    """Return a problem as YAML, with its file names made relative to ``path``.

    Parameters
    ----------
    path
        The file that the text will be written to.
    head
        A one-line comment at the top.
    """
    data: dict[str, Any] = dict(document.data)
    folder = Path(path).parent
    model = data.get("model")
    if isinstance(model, dict) and model.get("hf_config") is not None:
        named = _from(document, ("model", "hf_config"), model["hf_config"], folder)
        data["model"] = {**model, "hf_config": named}
    if isinstance(data.get("latency"), dict):
        data["latency"] = {
            cluster: _from(document, ("latency", str(cluster)), source, folder)
            for cluster, source in data["latency"].items()
        }
    body: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return f"# {head}\n{body}"


def _from(document: Document, where: FieldPath, name: Any, folder: Path) -> Any:
    """Return a file's name relative to a folder; other values unchanged."""
    place = document.place(where)
    if place is None or not isinstance(name, str):
        return name
    file = Path(place.file).parent / name
    if not file.is_file() or not name.endswith((PROFILE_SUFFIX, ".json")):
        return name
    return os.path.relpath(file, folder)
