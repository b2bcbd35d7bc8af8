"""States that leave a node out, and the option that keeps it, in every format."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hetopt.inventory.grouping import group_nodes
from hetopt.inventory.reading import read_source
from hetopt.inventory.source import source_of
from hetopt.inventory.states import excluding, included


def scontrol(state: str, **more: str) -> str:
    told = " ".join(f"{key}={value}" for key, value in more.items())
    return f"NodeName=n1 State={state} Partitions=p Gres=gpu:h100:8 {told}\n"


def scontrol_json(*states: str, **more: Any) -> str:
    node = {"name": "n1", "state": states, "partitions": ["p"], "gres": "gpu:h100:8"}
    return json.dumps({"nodes": [{**node, **more}]})


def sinfo_json(*states: str, used: str = "") -> str:
    row = {
        "partition": {"name": "p"},
        "node": {"state": states},
        "nodes": {"nodes": ["n1"]},
        "gres": {"total": "gpu:h100:8", "used": used},
    }
    return json.dumps({"sinfo": [row]})


def kubernetes(ready: str = "True", *, cordoned: bool = False) -> str:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.product": "H100"}},
        "spec": {"unschedulable": cordoned},
        "status": {
            "allocatable": {"nvidia.com/gpu": "8"},
            "capacity": {"nvidia.com/gpu": "8"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }
    return json.dumps(node)


@pytest.mark.parametrize(
    ("text", "states"),
    [
        ("n1 mix gpu:h100:8 9 9 p\n", "mixed"),
        ("n1 resv gpu:h100:8 9 9 p\n", "reserved"),
        ("n1 idle~ gpu:h100:8 9 9 p\n", "powered_down"),
        ("n1 idle# gpu:h100:8 9 9 p\n", "powering_up"),
        ("n1 drain* gpu:h100:8 9 9 p\n", "drained,not_responding"),
        ("n1 mix- gpu:h100:8 9 9 p\n", "mixed,planned"),
        ("n1 futr gpu:h100:8 9 9 p\n", "future"),
        (scontrol("MIXED+POWERING_UP"), "mixed,powering_up"),
        (scontrol("IDLE", AllocTRES="cpu=4,gres/gpu=8"), "allocated"),
        (scontrol("IDLE", AllocTRES="cpu=4,gres/gpu=2"), "mixed"),
        (scontrol_json("IDLE", "RESERVED"), "reserved"),
        (scontrol_json("ALLOCATED", gres_used="gpu:h100:8"), "allocated"),
        (sinfo_json("MIXED", used="gpu:h100:8"), "mixed"),
        (sinfo_json("IDLE", used="gpu:h100:8"), "allocated"),
        (kubernetes("False"), "not_ready"),
        (kubernetes(cordoned=True), "cordoned"),
    ],
)
def test_a_node_is_kept_by_its_states(text: str, states: str) -> None:
    reading = read_source(source_of(text, "f"))
    assert not group_nodes([reading]).drafts
    (keeper,) = group_nodes([reading]).keepers.values()
    assert ",".join(sorted(keeper)) == states
    for each in states.split(",") if "," in states else ():
        assert not group_nodes([reading], included(each)).drafts
    for asked in (states, "all"):
        found = group_nodes([reading], included(asked))
        assert [draft.hosts for draft in found.drafts] == [("n1",)]
        assert (found.left_out, found.keepers) == ({}, {})
        assert [*found.remarks] == [f"included though {states.replace(',', ', ')}"]


@pytest.mark.parametrize("gres", ["(null)", "gpu:a100_1g.5gb:14"])
def test_what_a_state_does_not_give_is_left_out_whatever_is_included(gres: str) -> None:
    reading = read_source(source_of(f"n1 mix {gres} 9 9 p\n", "f"))
    found = group_nodes([reading], included("all"))
    assert not found.drafts
    assert not found.keepers


def test_every_form_of_a_state_includes_it() -> None:
    assert included("MIX, alloc,~") == {"mixed", "allocated", "powered_down"}
    assert excluding("DOWN*+DRAIN") == {"down", "not_responding", "drained"}
    assert excluding("idle") == included(None) == frozenset()
