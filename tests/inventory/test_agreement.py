"""The same nodes in every format come to the same clusters; noise to a clear line."""

from __future__ import annotations

import json
import string

from hypothesis import given, settings
from hypothesis import strategies as st

from hetopt.errors import InputError
from hetopt.inventory.grouping import Inventory, group_nodes
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from hetopt.inventory.writing import clusters_yaml
from hetopt.problem.document.document import parse_document

#: Label, devices per node, Slurm's state (long, short), partition.
NODES = st.lists(
    st.tuples(
        st.sampled_from(["a100", "h100", "h20-96gb", "rtx4090"]),
        st.sampled_from([1, 4, 8]),
        st.sampled_from(
            [("IDLE", "idle"), ("IDLE", "idle"), ("MIXED", "mix"),
             ("IDLE+DRAIN", "drain"), ("DOWN+NOT_RESPONDING", "down*")]
        ),
        st.sampled_from(["east", "west"]),
    ),
    min_size=1,
    max_size=8,
)  # fmt: skip


def slurm(nodes: list[tuple[str, int, tuple[str, str], str]]) -> list[str]:
    """Return the nodes in Slurm's four formats."""
    named = [(f"n{i:02}", *node) for i, node in enumerate(nodes)]
    sinfo = [
        f"{host} {short} gpu:{label}:{count}(S:0-1) 64 512000 {place}*"
        for host, label, count, (_, short), place in named
    ]
    scontrol = [
        f"NodeName={host} Arch=x86_64\n   Gres=gpu:{label}:{count}(S:0-1)\n"
        f"   State={state} ThreadsPerCore=2\n   Partitions={place}\n"
        for host, label, count, (state, _), place in named
    ]
    rows = [
        {
            "node": {"state": state.split("+")},
            "nodes": {"nodes": [host]},
            "gres": {"total": f"gpu:{label}:{count}", "used": ""},
            "partition": {"name": place},
        }
        for host, label, count, (state, _), place in named
    ]
    objects = [
        {
            "name": host,
            "state": state.split("+"),
            "gres": f"gpu:{label}:{count}",
            "partitions": [place],
        }
        for host, label, count, (state, _), place in named
    ]
    return [
        "\n".join(sinfo),
        "\n".join(scontrol),
        json.dumps({"sinfo": rows}),
        json.dumps({"nodes": objects}),
    ]


def kubernetes_and_ray(nodes: list[tuple[str, int, tuple[str, str], str]]) -> list[str]:
    """Return nodes, all of them free, as Kubernetes and Ray list them."""
    named = [(f"n{i:02}", *node) for i, node in enumerate(nodes)]
    items = [
        {
            "metadata": {
                "name": host,
                "labels": {
                    "nvidia.com/gpu.product": label,
                    "topology.kubernetes.io/zone": place,
                },
            },
            "status": {
                "allocatable": {"nvidia.com/gpu": str(count)},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        for host, label, count, _, place in named
    ]
    ray = [
        {
            "NodeID": host,
            "Alive": True,
            "NodeManagerAddress": host,
            "Resources": {"GPU": float(count), f"accelerator_type:{label}": 1.0},
            "Labels": {"ray.io/availability-zone": place},
        }
        for host, label, count, _, place in named
    ]
    return [
        json.dumps({"apiVersion": "v1", "kind": "List", "items": items}),
        json.dumps(ray),
    ]


def came_to(text: str) -> Inventory:
    return group_nodes([read_source(source_of(text, "f"))])


@settings(max_examples=40)
@given(NODES)
def test_formats_agree(nodes: list[tuple[str, int, tuple[str, str], str]]) -> None:
    found = [came_to(text) for text in slurm(nodes)]
    for other in found[1:]:
        assert (other.drafts, other.left_out) == (found[0].drafts, found[0].left_out)
    # Each cluster is of one kind, one size and one partition.
    for draft in found[0].drafts:
        members = {nodes[int(host[1:])] for host in draft.hosts}
        assert len(members) == 1
        assert next(iter(members))[2][1] == "idle"
    free = [(label, count, ("IDLE", "idle"), place) for label, count, _, place in nodes]
    whole = came_to(slurm(free)[0])
    assert not whole.left_out
    for text in kubernetes_and_ray(free):
        assert came_to(text).drafts == whole.drafts


SOME = slurm([("a100", 8, ("IDLE", "idle"), "east")] * 2)
MORE = kubernetes_and_ray([("h100", 8, ("IDLE", "idle"), "east")] * 2)
HOSTFILE = "n1 slots=8 type=a100\nn[2-3] slots=8\n"


@settings(max_examples=150)
@given(
    st.sampled_from([*SOME, *MORE, HOSTFILE]),
    st.lists(
        st.tuples(
            st.integers(0, 400),
            st.integers(0, 3),
            st.text(string.printable + "\0\u2028\u00e9", max_size=3),
        ),
        max_size=4,
    ),
)
def test_noise_is_read_or_refused_in_one_line(
    text: str, edits: list[tuple[int, int, str]]
) -> None:
    for start, length, new in edits:
        text = text[:start] + new + text[start + length :]
    assert "\n" not in refusal(text)


def refusal(text: str) -> str:
    """Return why a text is no inventory, or nothing if what it holds can be written."""
    try:
        inventory = came_to(text)
    except InputError as error:
        return str(error)
    written = parse_document(clusters_yaml(inventory), "c.yaml").data["clusters"]
    used = [draft for draft in inventory.drafts if not draft.optional]
    assert [tuple(item["hosts"]) for item in written or ()] == [d.hosts for d in used]
    return ""
