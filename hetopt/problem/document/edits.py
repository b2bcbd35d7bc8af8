"""Edits of a problem's document before it is read: keys that get other values.

Edits change plain data only. The reader checks whether the result is a problem.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.base.words import describe, suggest
from hetopt.errors import InputError
from hetopt.problem.document.document import Document, parse_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Sections whose keys are names of clusters.
_BY_CLUSTER = (
    ("latency",),
    ("pin", "clusters"),
    ("pin", "forbid", "clusters"),
    ("training", "recompute"),
    ("calibration", "efficiency"),
    ("calibration", "overhead"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A key that gets a value.

    Attributes
    ----------
    key
        Dotted path; list items are given by their name or their position from 0.
    value
        Plain data, as in a problem file.
    """

    key: str
    value: Any

    def apply(self, data: dict[str, Any]) -> None:
        """Change a document; InputError if the key does not exist."""
        set_value(data, self.key, self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesAdded:
    """A cluster that gets more nodes, or fewer."""

    cluster: str
    nodes: int

    def apply(self, data: dict[str, Any]) -> None:
        """Change a document; InputError if there is no such cluster."""
        own = _cluster(data, self.cluster)
        if not isinstance(own["nodes"], int):
            msg = (
                f"cluster {self.cluster!r} lists the devices of each node, so that it "
                "is open which to add or leave out: set its nodes as a whole"
            )
            raise InputError(msg)
        own["nodes"] += self.nodes
        # Hosts would have to name every node; no plan depends on them.
        own.pop("hosts", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A cluster that is left out, with its entries in other sections."""

    cluster: str

    def apply(self, data: dict[str, Any]) -> None:
        """Change a document; InputError if there is no such cluster."""
        name = self.cluster
        data["clusters"].remove(_cluster(data, name))
        for path in _BY_CLUSTER:
            section: Any = data
            for key in path:
                section = section.get(key) if isinstance(section, dict) else None
            if isinstance(section, dict):
                section.pop(name, None)
        links, pin = data.get("links"), data.get("pin")
        if links and links.get("pairs"):
            pairs = links["pairs"]
            links["pairs"] = [x for x in pairs if name not in map(str, x["between"])]
        if pin and pin.get("order"):
            left = [each for each in pin["order"] if str(each) != name]
            pin["order"] = left or None
        forbid = pin.get("forbid") if pin else None
        if forbid and forbid.get("next"):
            pairs = forbid["next"]
            forbid["next"] = [each for each in pairs if name not in map(str, each)]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesListed:
    """A cluster whose nodes are listed one by one.

    The price is left out if the nodes are unequal; device groups, if they do not divide
    every node; fast domains of nodes that change, unless one had and has all.

    Attributes
    ----------
    sizes, hosts
        Devices and name of each node; equally many, at least one.
    """

    cluster: str
    sizes: tuple[int, ...]
    hosts: tuple[str, ...]

    def apply(self, data: dict[str, Any]) -> None:
        """Change a document; InputError if there is no such cluster."""
        own = _cluster(data, self.cluster)
        domain = self._domain(own)
        own.pop("devices_per_node", None)
        own["nodes"] = list(self.sizes)
        if len(set(self.sizes)) == 1:
            own["nodes"], own["devices_per_node"] = len(self.sizes), self.sizes[0]
        else:
            own.pop("price_per_hour", None)
        own["hosts"] = list(self.hosts)
        group = own.get("group")
        if group is not None and any(size % int(group["size"]) for size in self.sizes):
            del own["group"]
        if domain is None:
            own.pop("domain", None)
        if own.get("max_tp") is not None:
            own["max_tp"] = min(int(own["max_tp"]), max(self.sizes))

    def _is_listed(self, own: dict[str, Any]) -> bool:
        """Whether a cluster has these nodes already."""
        names = own.get("hosts") or [f"-node-{k + 1}" for k in range(len(self.hosts))]
        return _sizes(own) == [*self.sizes] and all(
            host.endswith(name) for host, name in zip(self.hosts, names, strict=False)
        )

    def _domain(self, own: dict[str, Any]) -> Any:
        """Return the domain, if no node changes, or it had all and may have them."""
        domain = own.get("domain")
        if domain is None or self._is_listed(own):
            return domain
        most = max(len(_sizes(own)), len(self.sizes))
        return domain if most <= int(domain["nodes"]) else None


def _sizes(own: dict[str, Any]) -> list[int]:
    """Return the devices of each node of a cluster."""
    nodes = own["nodes"]
    if isinstance(nodes, list):
        return [int(size) for size in nodes]
    return [int(own["devices_per_node"])] * int(nodes)


Edit = Setting | NodesAdded | Dropped | NodesListed


def edited(document: Document, edits: Iterable[Edit]) -> Document:
    """Return an edited copy of a document that includes its other files.

    Raises
    ------
    InputError
        A key or a cluster does not exist; the error's field or message names it.
    """
    data = deepcopy(document.data)
    for edit in edits:
        edit.apply(data)
    return Document(data, dict(document.places), list(document.questions))


def plain_value(text: str) -> Any:
    """Return the value of a YAML text; InputError if it cannot be read."""
    try:
        return parse_document(text, "").data if text.strip() else None
    except InputError as error:
        raise InputError(error.message) from None


def set_value(data: dict[str, Any], key: str, value: Any) -> None:
    """Set the value of a dotted key; missing mappings on the way are created."""
    here: Any = data
    way: list[str] = []
    rest = key
    while True:
        step, rest = _step(here, rest, way)
        way.append(str(step))
        if not rest:
            if way[0] == "clusters" and way[2:] == ["nodes"]:
                # Hosts would have to name every node; no plan depends on them.
                here.pop("hosts", None)
                if isinstance(value, list):
                    # The list gives the devices of each node.
                    here.pop("devices_per_node", None)
            here[step] = value
            return
        if isinstance(here, dict) and here.get(step) is None:
            here[step] = {}
        here = here[step]


def _step(here: Any, rest: str, way: Sequence[str]) -> tuple[str | int, str]:
    """Return the next key of a path, or position in a list, and the path's rest."""
    if isinstance(here, list):
        names = {str(_name_of(item)): index for index, item in enumerate(here)}
        names |= {str(index): index for index in range(len(here))} | names
    elif isinstance(here, dict):
        names = {str(name): name for name in here}
    else:
        msg = f"is {describe(here)}, which has no {rest}: set it as a whole"
        raise InputError(msg, field=".".join(way))
    # Names may contain dots: the longest one that fits is meant.
    fits = [name for name in names if rest == name or rest.startswith(f"{name}.")]
    if fits:
        name = max(fits, key=len)
        return names[name], rest[len(name) + 1 :]
    name, _, left = rest.partition(".")
    if not name:
        raise InputError("is followed by an empty key", field=".".join(way) or None)
    if isinstance(here, dict):
        return name, left
    known = [str(each) for each in map(_name_of, here) if each is not None]
    known = known or [str(index) for index in range(len(here))]
    msg = f"has no {name!r}{suggest(name, known)}, expected one of {', '.join(known)}"
    raise InputError(msg, field=".".join(way))


def _name_of(item: Any) -> Any:
    return item.get("name") if isinstance(item, dict) else None


def _cluster(data: dict[str, Any], name: str) -> dict[str, Any]:
    clusters: list[dict[str, Any]] = data["clusters"]
    for each in clusters:
        if str(each["name"]) == name:
            return each
    known = [str(each["name"]) for each in clusters]
    msg = f"no cluster is named {name!r}{suggest(name, known)}"
    raise InputError(f"{msg}, expected one of {', '.join(known)}")
