"""``hetopt plan --stability`` together with all that a search may branch over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetopt.base.deadline import Deadline
from hetopt.cli import main
from hetopt.planning.posed import Posed
from hetopt.solvers.request import Request
from hetopt.solvers.search.search import TreeSearch
from tests.schemas import ensure_fits

#: One cluster: its speed, and its memory.
DATA: dict[str, Any] = {
    "model": {"layers": 2, "hidden": 512, "heads": 4, "ffn": 2048, "vocab": 1000},
    "clusters": [
        {
            "name": "fast",
            "accelerator": "A100-80GB",
            "nodes": 2,
            "devices_per_node": 1,
            "memory": "1 GB",
            "overhead": "0 GB",
            "inter_node": {"bandwidth": "100 Gbps"},
            "price_per_hour": 4,
        },
    ],
    "training": {"global_batch": 2, "seq_len": 2048, "precision": "fp16"},
}
MIXED = {**DATA["training"], "lengths": {1024: 0.5, 2048: 0.5}}


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(
    "options",
    [
        pytest.param(["--schedule", "auto", "--chunks", "2"], marks=pytest.mark.slow),
        ["--budget", "5"],
        ["--objective", "cost"],
        ["--for", "megatron"],
        ["--pipelines", "2", "--lengths"],
    ],
)
def test_it_goes_with_every_branching(
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    data = {**DATA, "training": MIXED} if "--lengths" in options else DATA
    Path("site.yaml").write_text(yaml.safe_dump(data))
    asked = [each for each in options if each != "--lengths"]
    command = ["plan", "site.yaml", *asked, "--jobs", "1", "--stability"]
    assert main([*command, "--out", "plan.json"]) == 0
    printed = capsys.readouterr().out
    assert "until another plan is better by more than 1%" in printed
    found = json.loads(Path("plan.json").read_text())
    ensure_fits(found, "result")
    kinds = [(each["kind"], each["direction"]) for each in found["stability"]]
    assert kinds == [(k, d) for k in ("speed", "memory") for d in ("less", "more")]
    assert any(each["factor"] is not None for each in found["stability"])
    costs = any("other_cost" in each for each in found["stability"])
    assert costs == ("cost" in options)
    assert main(["check", "site.yaml", "plan.json"]) == 0


def test_a_search_that_stops_before_its_first_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer is one to what was asked, all the same."""
    monkeypatch.chdir(tmp_path)
    Path("site.yaml").write_text(yaml.safe_dump(DATA))
    command = ["plan", "site.yaml", "--jobs", "1", "--stability"]
    assert main([*command, "--time-limit", "0.001", "--out", "plan.json"]) == 0
    assert json.loads(Path("plan.json").read_text())["stability"] == []
    assert main(["check", "site.yaml", "plan.json"]) == 0


def test_a_time_limit_is_for_the_plan_and_for_this(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search has three quarters; all searches of changed problems end with it."""
    monkeypatch.chdir(tmp_path)
    Path("site.yaml").write_text(yaml.safe_dump(DATA))
    limits: list[Deadline] = []
    of = Posed.tree

    def tree(posed: Posed, request: Request) -> TreeSearch:
        limits.append(request.deadline)
        return of(posed, request)

    monkeypatch.setattr(Posed, "tree", tree)
    command = ["plan", "site.yaml", "--jobs", "1", "--stability", "--time-limit", "80"]
    assert main(command) == 0
    first, *others = limits
    assert first.limit_s == pytest.approx(60, abs=1e-3)
    assert others
    assert {each.limit_s for each in others} == {80}
    # One clock, which began with the search.
    assert len({each.began for each in others}) == 1
    assert others[0].began <= first.began
