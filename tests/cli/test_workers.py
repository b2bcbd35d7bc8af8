"""That fewer workers start than --jobs asks for is said once, where they start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hetopt.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SITE = """\
model: {layers: 2, hidden: 512, heads: 4, ffn: 2048, vocab: 1000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 2}
training: {global_batch: 2, seq_len: 512, schedule: 1f1b}
"""


@pytest.mark.parametrize(
    ("command", "times"),
    [
        ("plan site.yaml --jobs 2 --out other.json", 1),
        ("explain site.yaml --jobs 2", 1),
        ("compare site.yaml --solvers uniform --time-limit 2 --jobs 2 --out c", 1),
        ("check site.yaml plan.json", 0),
        ("simulate site.yaml plan.json", 0),
    ],
)
def test_it_is_said_once_where_workers_start(
    command: str,
    times: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text(SITE)
    # Planned on a larger machine.
    monkeypatch.setattr("hetopt.solvers.pools.opening.most_workers", lambda: 2)
    asked = ["plan", "site.yaml", "--schedule", "gpipe", "--jobs", "2"]
    assert main([*asked, "--out", "plan.json"]) == 0
    monkeypatch.setattr("hetopt.solvers.pools.opening.most_workers", lambda: 1)
    assert main(command.split()) == 0
    printed = capsys.readouterr()
    assert (printed.out + printed.err).count("workers are started") == times
