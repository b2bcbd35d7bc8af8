"""Forged certificates of simulated times are rejected under every schedule."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.cli import main
from tests.cli.commands.forgeries import FORGERIES, settle_all
from tests.cli.conftest import SMALL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Data = dict[str, Any]

#: Schedules, with further options.
SCHEDULES = (
    ("1f1b",),
    ("1f1b-batched",),
    ("1f1b-blocking",),
    ("eager-1f1b",),
    ("virtual-1f1b",),
    ("h-1f1b",),
    # Its proof would take a minute, and no forgery is of what it adds.
    ("interleaved-1f1b", "--chunks", "2", "--time-limit", "4"),
    ("zb-h1",),
    ("v-half",),
    ("gpipe",),
)
#: Forgeries of ``FORGERIES`` that suit any certificate.
SHARED = (
    "problem digest",
    "table digest",
    "status without plan",
    "plan's digest",
    "no plan",
    "value left out",
    "lower value",
    "worse value",
    "higher bound",
    "lower bound",
    "bound of one q",
    "program left out",
    "program twice",
    "another solver",
)


def _nearest(data: Data) -> Data:
    """Return the claim of least bound that is not the plan's."""
    found: Data = min(
        (
            claim
            for claim in data["programs"]
            if claim["bound_ps"] is not None and claim["how"] != "solved"
        ),
        key=lambda claim: claim["bound_ps"],
    )
    return found


def _raised(data: Data) -> None:
    _nearest(data)["bound_ps"] = 20 * data["value_ps"]
    settle_all(data)


def _never(data: Data) -> None:
    _nearest(data).update(how="infeasible", bound_ps=None)
    settle_all(data)


def _units(data: Data) -> None:
    data["plan"]["pipelines"][0]["stages"][0]["end_unit"] += 1


def _elsewhere(data: Data) -> None:
    stages = data["plan"]["pipelines"][0]["stages"]
    stages[0]["cluster"] = "slow" if stages[0]["cluster"] == "fast" else "fast"


def _closed(data: Data) -> None:
    data["objective"] = "closed"


def _other_schedule(data: Data) -> None:
    other = "1f1b" if data["plan"]["schedule"] == "gpipe" else "gpipe"
    data["plan"]["schedule"] = other


KINDS: dict[str, Callable[[Data], None]] = {
    **{name: FORGERIES[name][0] for name in SHARED},
    "bound raised above a plan": _raised,
    "said to have no plan": _never,
    "stage's units": _units,
    "stage's cluster": _elsewhere,
    "other objective": _closed,
    "other schedule": _other_schedule,
}

#: Of eight layers and two devices in each cluster, so that folded stages fit.
PROBLEM = (
    SMALL.replace("layers: 4", "layers: 8")
    .replace("devices_per_node: 1", "devices_per_node: 2")
    .replace("global_batch: 4", "global_batch: 8")
)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda given: given[0])
def test_forged_certificates_are_rejected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], schedule: tuple[str, ...]
) -> None:
    problem, plan, certificate = (
        str(tmp_path / name) for name in ("problem.yaml", "plan.json", "cert.json")
    )
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    files = "--out", plan, "--certificate", certificate
    arguments = "--objective", "simulated", "--jobs", "1", "--schedule", *schedule
    assert main(["plan", problem, *arguments, *files]) == 0
    assert main(["verify", problem, plan, certificate]) == 0, capsys.readouterr()
    said = capsys.readouterr().out
    assert "by bounds" in said
    data = json.loads((tmp_path / "cert.json").read_text())
    accepted = []
    for kind, forge in KINDS.items():
        changed = copy.deepcopy(data)
        forge(changed)
        assert changed != data
        (tmp_path / "forged.json").write_text(json.dumps(changed))
        forged = ["verify", problem, plan, str(tmp_path / "forged.json")]
        if main(forged) == 0:
            accepted.append(kind)
        capsys.readouterr()
    assert len(KINDS) == 20
    assert accepted == []
