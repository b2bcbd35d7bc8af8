"""Nodes of several files, and which of them make a cluster."""

from __future__ import annotations

from hetopt.inventory.grouping import Inventory, group_nodes
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of


def grouped(*texts: str) -> Inventory:
    return group_nodes(
        [read_source(source_of(text, f"f{i}")) for i, text in enumerate(texts)]
    )


def test_files_complete_each_other() -> None:
    found = grouped(
        "n1 slots=8\nn2\nn3 type=h100\n",
        "n1 idle gpu:h100:8 9 9 p\nn2 idle gpu:h100:8 9 9 p\nn3 idle gpu:8 9 9 p\n",
    )
    (draft,) = found.drafts
    assert draft.match.accelerator == "H100"
    assert (draft.hosts, draft.devices.count) == (("n1", "n2", "n3"), 8)
    assert (found.nodes, found.left_out) == (3, {})


def test_a_reason_in_any_file_leaves_a_node_out() -> None:
    found = grouped("n1 slots=8\nn2 slots=8\n", "n2 drain gpu:h100:8 9 9 p\n")
    assert found.left_out == {"drained": ("n2",)}
    assert [draft.hosts for draft in found.drafts] == [("n1",)]


def test_files_that_contradict_each_other() -> None:
    found = grouped(
        "n1 slots=4\nn2 slots=8 type=a100\nn3 slots=8\nn4 slots=8\n",
        "n1 idle gpu:h100:8 9 9 p\nn2 idle gpu:h100:8 9 9 p\nn3 idle gpu:h100:8 9 9 p\n"
        "n4 idle gpu:h100:4,gpu:a40:4 9 9 p\n",
    )
    reason = "with contradictory entries"
    assert found.left_out == {reason: ("n1", "n2", "n4")}
    assert [draft.hosts for draft in found.drafts] == [("n3",)]


def test_names_differ() -> None:
    found = grouped(
        "n1 idle gpu:h100:8 9 9 p\nn2 idle gpu:h100:4 9 9 p\nn3 idle gpu:h100:4 9 9 q\n"
        "n4 idle gpu:h100-q:4 9 9 q\nn5 idle gpu:h100--q:4 9 9 q\n"
    )
    names = [draft.name for draft in found.drafts]
    assert names == ["h100-p-x8", "h100-p-x4", "h100-q", "h100-q-q-x4", "h100-q-q-x4-2"]


def test_ten_thousand_nodes_in_three_partitions() -> None:
    lines = [
        f"n[0-9999] idle gpu:h100:8 9 9 {place}" for place in ("all", "long", "short")
    ]
    (draft,) = grouped("\n".join(lines)).drafts
    assert (len(draft.hosts), draft.place) == (10_000, "all")
