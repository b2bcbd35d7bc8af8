"""Traces hold to the Trace Event Format, and to what its readers ask beyond it."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from hetopt.report.timeline.trace import trace_json
from tests.report.timeline.making import (
    GB,
    MS,
    balanced,
    measured_alone,
    timeline_of,
    with_measured,
)
from tests.schedule.pipelines import random_pipeline

if TYPE_CHECKING:
    from hetopt.report.timeline.timeline import Timeline

NUMBER = {"type": "integer", "minimum": 0}
TIME = {"type": "number", "minimum": 0}
TEXT = {"type": "string", "minLength": 1}
ARROW = {"name": TEXT, "cat": TEXT, "id": NUMBER, "ts": TIME}


def event(phase: str, **fields: Any) -> dict[str, Any]:
    """A phase with these fields, its process and its thread, and no others."""
    fields = {"ph": {"const": phase}, "pid": NUMBER, "tid": NUMBER, **fields}
    return {
        "type": "object",
        "properties": fields,
        "required": [name for name in fields if name != "args" or phase != "X"],
        "additionalProperties": False,
    }


def args(**fields: Any) -> dict[str, Any]:
    return {"properties": fields, "required": [*fields], "additionalProperties": False}


SCHEMA = {
    "type": "object",
    "required": ["traceEvents"],
    "properties": {
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "traceEvents": {
            "items": {
                "oneOf": [
                    event(
                        "M",
                        name={"enum": ["process_name", "thread_name"]},
                        args=args(name=TEXT),
                    ),
                    event(
                        "M",
                        name={"enum": ["process_sort_index", "thread_sort_index"]},
                        args=args(sort_index=NUMBER),
                    ),
                    event(
                        "X",
                        **{"name": TEXT, "cat": {"enum": ["modelled", "measured"]}},
                        **{"ts": TIME, "dur": TIME, "args": args(microbatch=NUMBER)},
                    ),
                    event("s", **ARROW),
                    event("f", **ARROW, bp={"const": "e"}),
                    event("C", name=TEXT, ts=TIME, args=args(bytes=NUMBER)),
                ]
            }
        },
    },
}

TIMELINES = {
    "one stage": timeline_of(balanced(1, 1)),
    "recomputation": timeline_of(balanced(3, 4), recompute_ns=9 * MS),
    "both": with_measured(timeline_of(balanced(5, 6), recompute_ns=9 * MS)),
    "measured": measured_alone(timeline_of(balanced(3, 4))),
    **{
        f"random {seed}": timeline_of(
            random_pipeline(Random(seed), max_stages=4, microbatches=5)
        )
        for seed in range(5)
    },
}
EACH = pytest.mark.parametrize("timeline", TIMELINES.values(), ids=TIMELINES.keys())


def events_of(timeline: Timeline) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(trace_json(timeline))["traceEvents"]
    return events


@EACH
def test_every_event_has_the_fields_of_its_phase(timeline: Timeline) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    data = json.loads(trace_json(timeline))
    jsonschema.validate(data, SCHEMA)
    assert data["otherData"]["problem"] == "some-problem"
    for source in timeline.sources:
        said = data["otherData"][f"{source}_iteration_time_s"]
        assert said == timeline.end_s(source)


@EACH
def test_slices_of_a_thread_follow_each_other(timeline: Timeline) -> None:
    threads = defaultdict(list)
    for each in events_of(timeline):
        if each["ph"] == "X":
            # Whole nanoseconds, so that nothing is rounded into its neighbour.
            start, length = each["ts"] * 1000, each["dur"] * 1000
            assert [start, length] == pytest.approx([round(start), round(length)])
            threads[each["pid"], each["tid"]].append((round(start), round(length)))
    assert len(threads) == sum(1 for _ in timeline.lanes())
    for slices in threads.values():
        for (start, length), (after, _) in pairwise(slices):
            assert start + length <= after
    ends = [start + length for slices in threads.values() for start, length in slices]
    most_s = max(timeline.end_s(source) for source in timeline.sources)
    assert max(ends) == pytest.approx(most_s * 1e9, abs=1)
    slices_of_all = sum(map(len, threads.values()))
    assert slices_of_all == len(timeline.events)


@EACH
def test_threads_and_processes_are_named_once(timeline: Timeline) -> None:
    events = events_of(timeline)
    for what, key in (("process", ("pid",)), ("thread", ("pid", "tid"))):
        for kind in ("name", "sort_index"):
            named = [
                tuple(each[name] for name in key)
                for each in events
                if each["name"] == f"{what}_{kind}"
            ]
            assert len(set(named)) == len(named)
            used = {
                tuple(each[name] for name in key)
                for each in events
                if each["ph"] == "X"
            }
            assert used == set(named)
    # No thread has the number of a process, or of another's thread.
    tids = [each["tid"] for each in events if each["name"] == "thread_name"]
    pids = {each["pid"] for each in events}
    assert len(set(tids)) == len(tids)
    assert not pids & set(tids)


@EACH
def test_arrows_lead_from_a_transfer_to_what_needs_it(timeline: Timeline) -> None:
    slices = {}
    arrows: dict[int, dict[str, dict[str, Any]]] = defaultdict(dict)
    threads = {}
    for each in events_of(timeline):
        if each["name"] == "thread_name":
            threads[each["tid"]] = each["args"]["name"]
        elif each["ph"] == "X":
            slices[each["tid"], each["ts"]] = each
        elif each["ph"] in "sf":
            # An arrow's end follows the slice that it lies in.
            assert slices[each["tid"], each["ts"]]["cat"] in timeline.sources
            assert each["ph"] not in arrows[each["id"]]
            arrows[each["id"]][each["ph"]] = each
    sent = [e for e in timeline.events if e.activity.startswith("send")]
    assert len(arrows) == len(sent)
    for ends in arrows.values():
        begin, end = ends["s"], ends["f"]
        assert begin["name"] == end["name"]
        assert begin["ts"] <= end["ts"]
        source = slices[begin["tid"], begin["ts"]]
        target = slices[end["tid"], end["ts"]]
        assert source["args"] == target["args"]
        assert source["cat"] == target["cat"]
        _, _, _, to, what = threads[source["tid"]].split()
        assert threads[target["tid"]] == f"stage {to.rstrip(':')}"
        assert what == begin["name"]
        kinds = {e.activity for e in timeline.events if e.source == source["cat"]}
        # Recomputation is the first part of what waits for gradients.
        last = "recompute" if "recompute" in kinds else "backward"
        needed = {"activations": "forward", "gradients": last}
        assert target["name"].split()[0] == needed[what]


def test_memory_is_counted_for_every_stage() -> None:
    times = balanced(3, 4)
    counters = defaultdict(list)
    for each in events_of(timeline_of(times)):
        if each["ph"] == "C":
            counters[each["name"]].append((each["ts"], each["args"]["bytes"]))
    assert [*counters] == [f"memory of stage {i}, per device" for i in range(3)]
    for values, inflight in zip(counters.values(), times.inflight, strict=True):
        assert values == sorted(values, key=lambda value: value[0])
        assert max(held for _, held in values) == 20 * GB + inflight * GB // 2
        assert min(held for _, held in values) == 20 * GB


def test_measured_and_modelled_stand_apart() -> None:
    names = [
        each["args"]["name"]
        for each in events_of(TIMELINES["both"])
        if each["name"] == "process_name"
    ]
    assert names == [
        "cluster0 (modelled)",
        "cluster0 (measured)",
        "cluster1 (modelled)",
        "cluster1 (measured)",
    ]


def test_the_same_timeline_is_the_same_text() -> None:
    times = balanced(3, 4)
    assert trace_json(timeline_of(times)) == trace_json(timeline_of(times))
