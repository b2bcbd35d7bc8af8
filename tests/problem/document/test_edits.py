"""Keys of a problem's document: where they lead, and what is changed with them."""

from __future__ import annotations

from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.problem.document.document import parse_document
from hetopt.problem.document.edits import (
    Dropped,
    Edit,
    NodesAdded,
    NodesListed,
    Setting,
    edited,
    plain_value,
)
from hetopt.problem.reading import problem_of

TEXT = """\
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: a, accelerator: A40, nodes: 2, devices_per_node: 2, hosts: [x, y],
     inter_node: {bandwidth: 100 Gbps}}
  - {name: a.b, accelerator: A40, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: "7", accelerator: A40, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
links:
  default: {bandwidth: 10 Gbps, latency: 1 ms}
  pairs:
    - {between: [a, a.b], bandwidth: 1 Gbps}
    - {between: [a.b, "7"], bandwidth: 2 Gbps}
training: {global_batch: 4, seq_len: 1024, recompute: {a: none, a.b: full}}
pin:
  order: [a, a.b]
  clusters: {a: {tp: 2}, a.b: {stages: 1}}
  forbid: {clusters: {a.b: {dp: 2}}, next: [[a.b, "7"], [a, "7"]]}
latency: {a: roofline, a.b: roofline}
calibration: {efficiency: {a.b: 0.9}, overhead: {a.b: 1 GB}}
"""


#: Names that YAML reads as numbers.
NUMBERED = TEXT.replace('[a.b, "7"]', "[a.b, 7]").replace('[a, "7"]', "[a, 7]")


def test_a_cluster_may_be_named_by_a_number() -> None:
    document = edited(parse_document(NUMBERED, "p.yaml"), [Dropped(cluster="7")])
    data: dict[str, Any] = document.data
    assert problem_of(document, "p.yaml").pins.forbidden_next == set()
    assert data["links"]["pairs"] == [{"between": ["a", "a.b"], "bandwidth": "1 Gbps"}]


def changed(*edits: Edit) -> dict[str, Any]:
    """Return the data with changes; it still is a problem."""
    document = edited(parse_document(TEXT, "p.yaml"), edits)
    problem_of(document, "p.yaml")
    data: dict[str, Any] = document.data
    return data


@pytest.mark.parametrize(
    ("key", "value", "path"),
    [
        ("links.default.bandwidth", "25Gbps", ("links", "default", "bandwidth")),
        ("links.pairs.1.bandwidth", "25Gbps", ("links", "pairs", 1, "bandwidth")),
        ("clusters.a.nodes", 4, ("clusters", 0, "nodes")),
        ("clusters.a.b.nodes", 4, ("clusters", 1, "nodes")),
        ("clusters.7.nodes", 4, ("clusters", 2, "nodes")),
        ("clusters.1.nodes", 3, ("clusters", 1, "nodes")),
        ("training.recompute.a.b", "none", ("training", "recompute", "a.b")),
        ("latency.7", "roofline", ("latency", "7")),
        ("pin.microbatches", [1, 2], ("pin", "microbatches")),
        ("calibration.bandwidth", 0.5, ("calibration", "bandwidth")),
        ("pin.forbid.microbatches", 1, ("pin", "forbid", "microbatches")),
        ("training.reserve", 0.1, ("training", "reserve")),
    ],
)
def test_a_key_leads_to_its_value_and_nothing_else_changes(
    key: str, value: object, path: tuple[str | int, ...]
) -> None:
    found = changed(Setting(key=key, value=value))
    expected = parse_document(TEXT, "p.yaml").data
    here = expected
    for step in path[:-1]:
        here = here[step]
    here[path[-1]] = value
    if path == ("clusters", 0, "nodes"):
        # Hosts name every node.
        del expected["clusters"][0]["hosts"]
    assert found == expected


def test_the_devices_of_each_node_take_the_place_of_their_number() -> None:
    found = changed(Setting(key="clusters.a.nodes", value=[2, 1]))["clusters"][0]
    assert found["nodes"] == [2, 1]
    assert "devices_per_node" not in found
    with pytest.raises(InputError, match="it is open which to add or leave out"):
        changed(
            Setting(key="clusters.a.nodes", value=[2, 1]),
            NodesAdded(cluster="a", nodes=-1),
        )


def test_missing_mappings_are_made() -> None:
    text = TEXT[: TEXT.index("pin:")]
    document = parse_document(text, "p.yaml")
    found = edited(document, [Setting(key="pin.clusters.a.tp", value=2)])
    assert found.data["pin"] == {"clusters": {"a": {"tp": 2}}}
    assert "pin" not in document.data


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("clusters.c.nodes", "clusters: has no 'c', expected one of a, a.b, 7"),
        ("links.pairs.2.latency", "links.pairs: has no '2', expected one of 0, 1"),
        (
            "clusters.a.accelerator.memory",
            "clusters.0.accelerator: is 'A40', which has no memory: set it as a whole",
        ),
        ("clusters.a..nodes", "clusters.0: is followed by an empty key"),
        (".nodes", "is followed by an empty key"),
    ],
)
def test_a_key_that_leads_nowhere(key: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        changed(Setting(key=key, value=1))
    assert told in str(caught.value)


def test_a_cluster_goes_with_all_that_is_said_of_it() -> None:
    data = changed(Dropped(cluster="a.b"))
    assert [each["name"] for each in data["clusters"]] == ["a", "7"]
    assert data["links"]["pairs"] == []
    assert data["training"]["recompute"] == {"a": "none"}
    assert data["pin"]["order"] == ["a"]
    assert data["pin"]["clusters"] == {"a": {"tp": 2}}
    assert data["pin"]["forbid"] == {"clusters": {}, "next": [["a", "7"]]}
    assert data["latency"] == {"a": "roofline"}
    assert data["calibration"] == {"efficiency": {}, "overhead": {}}
    assert "a.b" not in str(data)


def test_nodes_come_and_go_with_their_hosts() -> None:
    data = changed(NodesAdded(cluster="a", nodes=-1), NodesAdded(cluster="7", nodes=2))
    assert [each["nodes"] for each in data["clusters"]] == [1, 1, 3]
    assert "hosts" not in data["clusters"][0]
    with pytest.raises(InputError, match=r"no cluster is named 'b', expected one of"):
        changed(NodesAdded(cluster="b", nodes=1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("25Gbps", "25Gbps"),
        ("[2, 4]", [2, 4]),
        ("{a: 1}", {"a": 1}),
        ("true", True),
        ("", None),
        ("0.5", 0.5),
        ("6%", "6%"),
    ],
)
def test_values_are_read_as_in_a_problem_file(text: str, value: object) -> None:
    assert plain_value(text) == value


@pytest.mark.parametrize("text", ["[1", "{a: 1", "a: b: c", "*x", "1" * 5000])
def test_what_is_no_value(text: str) -> None:
    with pytest.raises(InputError):
        plain_value(text)


def test_nodes_that_are_listed_take_what_only_others_have_with_them() -> None:
    text = TEXT.replace("hosts: [x, y]", "max_tp: 2, price_per_hour: 2")
    document = parse_document(text.replace("{tp: 2}", "{tp: 1}"), "p.yaml")
    listed = NodesListed(cluster="a", sizes=(2, 1), hosts=("x", "y"))
    problem = problem_of(edited(document, [listed]), "p.yaml")
    assert problem.clusters[0].unequal == (2, 1)
    assert problem.clusters[0].hosts == ("x", "y")
    assert problem.clusters[0].price_per_hour is None
    equal = NodesListed(cluster="a", sizes=(1,), hosts=("y",))
    problem = problem_of(edited(document, [equal]), "p.yaml")
    assert (problem.clusters[0].nodes, problem.clusters[0].max_tp) == (1, 1)
    assert problem.clusters[0].price_per_hour == 2


def test_domains_are_kept_where_it_is_known_which_nodes_they_have() -> None:
    def domain(
        nodes: int, per_domain: int, sizes: tuple[int, ...], hosts: tuple[str, ...] = ()
    ) -> object:
        given = f"nodes: {nodes}, devices_per_node: 2, domain: {{nodes: {per_domain}}}"
        text = TEXT.replace("nodes: 2, devices_per_node: 2, hosts: [x, y]", given)
        names = hosts or tuple(f"a-node-{k + 1}" for k in range(len(sizes)))
        listed = NodesListed(cluster="a", sizes=sizes, hosts=names)
        once = edited(parse_document(text, "p.yaml"), [listed])
        assert edited(once, [listed]).data == once.data
        return once.data["clusters"][0].get("domain")

    assert domain(4, 2, (2, 2, 2, 2))
    assert domain(4, 4, (2, 2, 1))
    assert not domain(2, 2, (2, 2, 2))
    assert not domain(4, 2, (2, 2, 2))
    assert not domain(4, 2, (2, 2, 2, 2), ("n", "o", "p", "q"))
