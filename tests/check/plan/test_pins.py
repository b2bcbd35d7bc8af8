"""Every pin alone, met and broken."""

from __future__ import annotations

from typing import Any

import pytest

from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from tests.check.plan.good import WIDE, findings, stage


def only(*values: Any) -> Domain:
    return Domain(allowed=frozenset(values))


def without(*values: Any) -> Domain:
    return Domain(forbidden=frozenset(values))


def on(cluster: str, **domains: Domain) -> Pins:
    return Pins(clusters={cluster: ClusterPins(**domains)})


@pytest.mark.parametrize(
    ("good", "bad", "expected"),
    [
        (
            Pins(stages=only(3, 2)),
            Pins(stages=only(4, 2)),
            "pin stages: 3, expected 2 or 4",
        ),
        (
            Pins(stages=without(2)),
            Pins(stages=without(3)),
            "pin stages: 3 is forbidden",
        ),
        (
            Pins(microbatches=only(2)),
            Pins(microbatches=only(4)),
            "pin microbatches: 2, expected 4",
        ),
        (
            Pins(microbatches=without(4)),
            Pins(microbatches=without(2)),
            "pin microbatches: 2 is forbidden",
        ),
        (
            Pins(order=("a", "b")),
            Pins(order=("b", "a")),
            "pin order: a, b, expected b, a",
        ),
        (
            Pins(order=("a", "b")),
            Pins(order=("a",)),
            "pin order: a, b, expected a",
        ),
        (
            Pins(forbidden_next=frozenset({("b", "a")})),
            Pins(forbidden_next=frozenset({("a", "b")})),
            "pin: cluster 'b' follows 'a', which is forbidden",
        ),
        (
            Pins(units=(3, 3, 2)),
            Pins(units=(3, 2, 3)),
            "pin units: [3, 3, 2] per stage, expected [3, 2, 3]",
        ),
        (
            on("a", stages=only(2)),
            on("a", stages=only(1)),
            "pin clusters.a.stages: 2, expected 1",
        ),
        (
            on("b", stages=without(0)),
            on("b", stages=only(0)),
            "pin clusters.b.stages: 1, expected 0",
        ),
        (
            on("b", units=only(2)),
            on("b", units=without(2)),
            "pin clusters.b.units: 2 is forbidden",
        ),
        (
            on("a", dp=only(2)),
            on("a", dp=only(1, 4)),
            "pin clusters.a.dp: 2, expected 1 or 4",
        ),
        (
            on("a", cp=only(1)),
            on("a", cp=without(1)),
            "pin clusters.a.cp: 1 is forbidden",
        ),
        (
            on("a", tp=without(1)),
            on("a", tp=only(1)),
            "pin clusters.a.tp: 2, expected 1",
        ),
        (
            on("b", recompute=without("full")),
            on("b", recompute=only("full")),
            "pin clusters.b.recompute: none, expected full",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_pins(good: Pins, bad: Pins, expected: str) -> None:
    assert findings(pins=good) == []
    found = findings(pins=bad)
    assert len(found) == 1
    assert found[0].endswith(expected)


def test_an_unused_cluster_that_must_be_used() -> None:
    stages = [stage("a", 0, 4, WIDE, 2), stage("a", 4, 8, WIDE, 1, last=True)]
    assert findings(stages) == []
    assert findings(stages, pins=on("b", dp=only(4))) == []
    assert findings(stages, pins=on("b", stages=without(0))) == [
        "pin clusters.b.stages: 0 is forbidden"
    ]
    assert findings(stages, pins=on("b", units=only(3))) == [
        "pin clusters.b.units: 0, expected 3"
    ]


def test_a_resharding_pin() -> None:
    assert findings(pins=Pins(resharding=only("p2p", "leader"))) == []
    assert (
        findings(pins=Pins(resharding=without("p2p")))
        == ["pin resharding: p2p is forbidden"] * 2
    )
