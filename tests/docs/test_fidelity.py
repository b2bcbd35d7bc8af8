"""The page about fidelity quotes what `hetopt forest evaluate` and benchmarks find."""

from __future__ import annotations

import re

import pytest

from hetopt.cost.forests.judging import NEIGHBOUR, ROOFLINE
from hetopt.cost.profiles.file import read_profile
from hetopt.cost.sources import evaluation
from tests.docs.pages import ROOT, read_page

PROFILE = str(ROOT / "data" / "profiles" / "cpu-measured.csv")


@pytest.mark.slow
def test_errors_of_the_forest_are_those_on_the_profile_that_ships(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    split, larger = quoted = ("80/20", "larger batch")
    monkeypatch.setattr(evaluation, "SPLITS", quoted)
    found = evaluation.evaluate(read_profile(PROFILE))
    page = " ".join(read_page("docs/explanation/fidelity.md").split())
    assert (
        f"the mean error is {found.score(split).mape:.1%} on a fifth of the shards "
        f"that are left out, and {found.score(larger).mape:.1%} on larger batches"
    ) in page
    assert (
        f"the roofline's error is {found.score(split, ROOFLINE).mape:.1%}, that of the "
        f"nearest profiled shape {found.score(split, NEIGHBOUR).mape:.1%}"
    ) in page


def test_rates_between_clusters_are_those_of_the_benchmark() -> None:
    found = (ROOT / "benchmarks" / "results" / "links.md").read_text("utf-8")
    head = "| hetauto-exp3 | "
    rows = [
        "| " + line.removeprefix(head)
        for line in found.splitlines()
        if line.startswith(head)
    ]
    assert len(rows) > 2
    assert "\n".join(rows) in read_page("docs/explanation/fidelity.md")


def memory_errors(rows: str) -> str:
    """Return the range of the errors of all rows of results that begin alike."""
    results = read_page("benchmarks/results/memory.md")
    found = re.findall(rf"^\| {rows}.*\| ([+-][\d.]+)% \|$", results, re.MULTILINE)
    assert found
    return f"{min(found, key=float)} to {max(found, key=float)}% from"


def test_errors_of_memory_are_those_of_the_benchmark() -> None:
    page = read_page("docs/explanation/fidelity.md")
    for rows, words in (
        ("llama3_70b", "peaks of Llama measured on B200"),
        ("deepseekv2", "those of DeepSeek-V2"),
        ("gpt3_7b", "those of a GPT of 7B"),
    ):
        assert f"{memory_errors(rows)} {words}" in page
    results = read_page("benchmarks/results/memory.md")
    (line,) = re.findall(r"^\| inputs of multiplications.* \| yes \|$", results, re.M)
    ours, usable = re.findall(r"\d+\.\d", line)
    assert f"needs {ours} of {usable} GiB under its software" in page
