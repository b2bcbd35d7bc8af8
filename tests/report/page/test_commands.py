"""The printed commands are accepted, and make the same results again."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from hetopt.cli import main
from hetopt.cli.entry import parser
from tests.cli.conftest import SMALL
from tests.report.page.reading import Document

PRICED = SMALL.replace("{name: ", "{price_per_hour: 2, name: ")
#: Keys of results that no option decides.
FREE = ("search_time_s", "settled", "settlements", "solver_choice", "claims")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in a folder with ``problem.yaml``, whose clusters have prices."""
    monkeypatch.chdir(tmp_path)
    Path("problem.yaml").write_text(PRICED, "utf-8")
    return tmp_path


def printed(*options: str) -> list[list[str]]:
    """Return the words of the commands on the page of ``plan.json``."""
    asked = ["report", "problem.yaml", "plan.json", *options]
    assert main([*asked, "--out", "page.html"]) == 0
    text = Document(Path("page.html").read_text("utf-8")).text("code")
    lines = [each for each in text.splitlines() if "hetopt " in each]
    # The first one launches the plan.
    words = [shlex.split(each[each.index("hetopt ") :]) for each in lines[1:]]
    assert [each[1] for each in words] == ["plan", "check", "report"]
    for each in words:
        parser().parse_args(each[1:])
    return words


def planned(*arguments: str) -> dict[str, Any]:
    """Run ``hetopt plan``; return what it wrote to ``plan.json``."""
    Path("plan.json").unlink(missing_ok=True)
    assert main([*arguments, "--jobs", "1"]) == 0
    found: dict[str, Any] = json.loads(Path("plan.json").read_text("utf-8"))
    return found


def kept(data: dict[str, Any]) -> dict[str, Any]:
    """Return what two runs of one command have in common."""
    return {key: value for key, value in data.items() if key not in FREE}


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    "options",
    [
        "--schedule interleaved-1f1b --chunks 2",
        "--schedule auto --chunks 2",
        "--schedule gpipe --top 2",
        "--for megatron",
        "--for torch --schedule 1f1b",
        "--pipelines 2",
        "--budget 3.5",
        "--objective cost --min-tokens-per-s 1000.5",
        "--schedule auto --chunks 2 --budget 3.5 --pipelines 2 --top 2",
        pytest.param("--stability", marks=pytest.mark.slow),
    ],
)
def test_the_printed_commands_make_the_result_again(options: str) -> None:
    asked = ("plan", "problem.yaml", *options.split(), "--solver", "cp-sat")
    before = planned(*asked, "--out", "plan.json")
    assert before["plan"] is not None
    again, check, _ = printed()
    after = planned(*again[1:])
    assert kept(after) == kept(before)
    assert main(check[1:]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("options", ["--objective simulated", "--relax p3,p4"])
def test_so_do_those_of_other_searches(options: str) -> None:
    before = planned("plan", "problem.yaml", *options.split(), "--out", "plan.json")
    again, _, _ = printed()
    assert kept(planned(*again[1:])) == kept(before)


def test_a_table_is_left_out_where_it_would_be_refused() -> None:
    schedule = ("--schedule", "1f1b")
    asked = ("plan", "problem.yaml", *schedule, "--pipelines", "2")
    planned(*asked, "--solver", "cp-sat", "--out", "plan.json")
    assert main(["table", "problem.yaml", *schedule, "--out", "table.json"]) == 0
    again, check, _ = printed("--table", "table.json")
    planned(*again[1:])
    assert main(check[1:]) == 0
