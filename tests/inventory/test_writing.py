"""The section as text: what it quotes, asks and comments."""

from __future__ import annotations

import json

from hetopt.inventory.grouping import group_nodes
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from hetopt.inventory.writing import clusters_yaml, summary
from hetopt.problem.document.document import parse_document


def written(text: str) -> str:
    return clusters_yaml(group_nodes([read_source(source_of(text, "nodes.txt"))]))


def test_one_cluster_as_a_whole() -> None:
    text = "g[1-2] idle gpu:h100:8 9 9 p*\ng3 down gpu:h100:8 9 9 p*\n"
    assert (
        written(text)
        == """\
# Clusters of nodes.txt (sinfo), as `hetopt inventory` reads it.
#
# 3 nodes read, 2 of them in 1 cluster, 1 left out
# left out: 1 down: g3; --include down keeps it
#
# Each QUESTION is about something that the inventory does not tell: put the answer in
#   place of <...>, or choose a line, and remove its '# '.
clusters:
  - name: h100
    # h100, in p
    accelerator: H100
    nodes: 2
    devices_per_node: 8
    hosts: [g1, g2]
    # QUESTION: how fast is one network interface (NIC), per direction? Add
    #   nics_per_node unless a node has one per device
    # inter_node: {bandwidth: <such as 100 Gbps>}
"""
    )


def test_a_node_in_two_partitions_lists_both() -> None:
    text = written(
        "n1 idle gpu:h800:8 9 9 all\nn1 idle gpu:h800:8 9 9 long\n"
        "n2 idle gpu:h800:8 9 9 all\nn2 idle gpu:h800:8 9 9 debug\n"
        "n2 idle gpu:h800:8 9 9 long\n"
    )
    assert "    # h800, in all, also in debug (n2), long\n" in text


def test_hosts_that_yaml_would_read_as_something_else() -> None:
    hosts = ["null", "true", "no", "1e5", "0123", "42", "10.0.0.1", "1.5", "fd00::1"]
    text = written("".join(f"{host} slots=8\n" for host in hosts))
    data = parse_document(text, "c.yaml").data
    assert data["clusters"][0]["hosts"] == hosts


def test_many_hosts_are_wrapped_and_comments_count_them() -> None:
    text = written("a[001-300] idle gpu:h100:8 9 9 p\nb[1-20] drain gpu:8 9 9 p\n")
    assert max(map(len, text.splitlines())) <= 88
    assert "# left out: 20 drained: b1, b2, b3, b4, b5, b6, b7, b8 and 12 more" in text
    data = parse_document(text, "c.yaml").data
    assert len(data["clusters"][0]["hosts"]) == 300


def test_text_of_others_stays_where_it_belongs() -> None:
    """Labels may hold anything: lines, quotes, YAML, escapes of a terminal."""
    label = 'x"\n  - name: evil\n\x1b[31m: {a}'
    nodes = [
        {
            "Alive": True,
            "NodeManagerAddress": "n1",
            "Resources": {"GPU": 8, f"accelerator_type:{label}": 1},
            "Labels": {"ray.io/availability-zone": "z\nclusters: []"},
        }
    ]
    reading = read_source(source_of(json.dumps(nodes), "ray\n.json"))
    inventory = group_nodes([reading])
    text = clusters_yaml(inventory)
    assert "\x1b" not in text
    assert all("\n" not in line and "\x1b" not in line for line in summary(inventory))
    (cluster,) = parse_document(text, "c.yaml").data["clusters"]
    assert cluster["name"] == "x-name-evil-31m-a"
    answered = "\n".join(
        line.replace("# ", "", 1)
        if line.startswith(("    # accelerator:", "    #   name: "))
        else line
        for line in text.splitlines()
    )
    (cluster,) = parse_document(answered, "c.yaml").data["clusters"]
    assert cluster["accelerator"] == {"name": label}


def test_links_are_asked_for_once_there_are_two_clusters() -> None:
    assert "# links:" not in written("a slots=8\n")
    assert written("a slots=8\nb slots=4\n").endswith("""\
# QUESTION: how fast is the link between clusters, in all and per direction? Add
#   per_node if a node gets less, and pairs if some links differ
# links:
#   default: {bandwidth: <such as 10 Gbps>, latency: <such as 1 ms>}
""")


def test_a_node_of_two_kinds_is_a_choice() -> None:
    text = written("x idle gpu:l40s:2,gpu:a40:2 9 9 p\n")
    assert parse_document(text, "c.yaml").data == {"clusters": None}
    for kind in ("L40S", "A40"):
        lines = text.splitlines()
        start = lines.index(f"#     accelerator: {kind}") - 2
        chosen = [line.removeprefix("# ") for line in lines[start : start + 6]]
        chosen_text = "\n".join([*lines[:start], *chosen, *lines[start + 6 :]])
        (cluster,) = parse_document(chosen_text, "c.yaml").data["clusters"]
        assert cluster["accelerator"] == kind
        assert (cluster["devices_per_node"], cluster["hosts"]) == (2, ["x"])
