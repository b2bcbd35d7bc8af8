"""What is said of mixing, of records made by hand."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from hetopt.report.drawing import console
from hetopt.report.drawing.console import draw
from hetopt.report.drawing.html import html
from hetopt.report.whatif.mixing import mixing_report
from hetopt.whatif.mixing import Alone, Mixing

if TYPE_CHECKING:
    from typing import Literal

FAST = Alone(
    cluster="a100-of-the-second-site",
    devices=128,
    status="optimal",
    time_s=20.0,
    gap=0.0,
    tokens_per_s=100_000.0,
    reason=None,
)
SLOW = replace(FAST, cluster="v100", devices=64, time_s=80.0, tokens_per_s=25_000.0)
MIXED = Mixing(
    objective="simulated",
    devices=160,
    time_s=18.0,
    tokens_per_s=111_111.0,
    balance=0.948,
    over_fastest=1.11111,
    hetero_speedup_ratio=0.88889,
    alone=(FAST, SLOW),
)
NONE = replace(
    SLOW,
    status="infeasible",
    time_s=None,
    gap=None,
    tokens_per_s=0.0,
    reason="memory: all clusters together hold at most 2 of the model's 80 body units",
)


def test_each_cluster_and_what_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal of 80 columns no line is longer."""
    monkeypatch.setattr(console, "is_terminal", lambda stream: True)
    monkeypatch.setattr(console, "width_of", lambda stream: 80)
    text = draw(mixing_report(MIXED), io.StringIO(), coloured=False)
    assert max(map(len, text.split("\n"))) <= 80
    rows = [line.split() for line in text.split("\n")]
    assert ["a100-of-the-second-site", "128", "20.0", "100k", "optimal"] in rows
    assert ["v100", "64", "80.0", "25k", "optimal"] in rows
    assert ["sum", "of", "these", "192", "125k"] in rows
    assert ["this", "plan", "160", "18.0", "111k"] in rows
    said = " ".join(text.split())
    assert "1.11 times as fast as a100-of-the-second-site alone" in said
    assert "It trains 88.9% of the tokens that all of them train apart" in said
    assert "compute 94.8% of the slowest stage's time" in said


def test_what_is_not_proven_or_does_not_fit() -> None:
    open_ = replace(FAST, status="feasible", gap=0.15)
    text = draw(mixing_report(replace(MIXED, alone=(open_, NONE))), None)
    assert "gap 15.00%" in text
    assert "does not fit" in text
    assert "No plan of v100 alone: memory: all clusters together hold" in text
    assert "trains at most 1.11 times as fast" in text
    assert "It trains at most 88.9% of the tokens" in text


@pytest.mark.parametrize("status", ["unknown", "failed"])
def test_an_open_cluster_may_be_the_fastest(
    status: Literal["unknown", "failed"],
) -> None:
    lost = replace(NONE, status=status, tokens_per_s=None, reason="out of time")
    found = replace(MIXED, alone=(FAST, lost), hetero_speedup_ratio=None)
    said = " ".join(draw(mixing_report(found), None).split())
    assert "at most 1.11 times as fast as a100-of-the-second-site alone" in said
    assert "alone, the fastest of those with a plan." in said


def test_what_is_unknown_is_not_said() -> None:
    lost = replace(NONE, status="unknown", tokens_per_s=None, reason="out of time")
    found = replace(
        MIXED, alone=(lost, lost), over_fastest=None, hetero_speedup_ratio=None
    )
    text = draw(mixing_report(found), None)
    assert ["sum", "of", "these", "128", "-"] in [
        line.split() for line in text.split("\n")
    ]
    text = html(mixing_report(found))
    assert "none found" in text
    assert "times as fast" not in text
    assert "HeteroSpeedupRatio" not in text
