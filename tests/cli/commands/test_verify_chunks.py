"""``hetopt verify`` of plans whose stages hold several chunks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.forging import KINDS, forged, settle
from hetopt.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Data = dict[str, Any]

PROBLEM = """\
model: {layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: fast, accelerator: H100, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: slow, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 25 Gbps, latency: 10 us}}
training: {global_batch: 8, seq_len: 1024, schedule: interleaved-1f1b, chunks: 2}
"""


@pytest.fixture(scope="module")
def interleaved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a problem, its two best plans and the certificate."""
    folder = tmp_path_factory.mktemp("interleaved")
    (folder / "problem.yaml").write_text(PROBLEM)
    arguments = ["plan", str(folder / "problem.yaml"), "--top", "2", "--jobs", "1"]
    arguments += ["--solver", "cp-sat"]
    for flag, name in (("--out", "plan.json"), ("--certificate", "cert.json")):
        arguments += [flag, str(folder / name)]
    assert main(arguments) == 0
    return folder


def _read(folder: Path, name: str) -> Data:
    data: Data = json.loads((folder / name).read_text())
    return data


def _verify(
    folder: Path,
    written: Path,
    capsys: pytest.CaptureFixture[str],
    plan: Data,
    certificate: Data,
) -> tuple[int, list[str]]:
    files = [str(folder / "problem.yaml")]
    for name, data in (("plan.json", plan), ("cert.json", certificate)):
        (written / name).write_text(json.dumps(data, indent=1))
        files.append(str(written / name))
    code = main(["verify", *files])
    said = capsys.readouterr()
    return code, (said.out + said.err).splitlines()


@pytest.mark.slow
def test_a_certificate_is_verified(
    interleaved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [_read(interleaved, name) for name in ("plan.json", "cert.json")]
    code, lines = _verify(interleaved, tmp_path, capsys, *data)
    assert code == 0, lines
    assert "all 5 programs; 2 by bounds (40.0%), 3 by running" in lines[0]
    assert "all of them confirmed" in lines[0]
    # No other engine had to help.
    assert "with" not in lines[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_careful_forgeries_are_rejected(
    interleaved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    plan = _read(interleaved, "plan.json")
    certificate = _read(interleaved, "cert.json")
    data = forged(kind, plan, certificate, plan["alternatives"][0])
    code, lines = _verify(interleaved, tmp_path, capsys, *data)
    assert code in (1, 2), lines


def _simulated(data: Data) -> None:
    data["objective"] = "simulated"


def _no_program(data: Data) -> None:
    data["programs"][0]["stages"] = 3
    settle(data)


def _solved_too_well(data: Data) -> None:
    claim = next(one for one in data["programs"] if one["how"] == "solved")
    claim["bound_ps"] += data["value_ps"] // 100
    settle(data)


def _raised(data: Data) -> None:
    for claim in data["programs"]:
        if claim["how"] == "refuted-by-search":
            claim["bound_ps"] *= 2
    settle(data)


FORGERIES: dict[str, tuple[Callable[[Data], None], int, str]] = {
    "another objective": (
        _simulated,
        1,
        "objective: simulated, but the plan",
    ),
    "stages that do not divide": (_no_program, 1, "(3, 2) is not a (p, q)"),
    "bound above the plan": (_solved_too_well, 1, "but the plan belongs to it"),
    "bound raised": (_raised, 1, "has a plan below the claimed bound"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_what_is_wrong_is_named(
    interleaved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    forge, expected, says = FORGERIES[name]
    plan, certificate = (
        _read(interleaved, file) for file in ("plan.json", "cert.json")
    )
    forge(certificate)
    code, lines = _verify(interleaved, tmp_path, capsys, plan, certificate)
    assert code == expected, lines
    assert any(says in line for line in lines), lines
