"""README is short, and its numbers are those of the data and of the benchmarks."""

from __future__ import annotations

import re

import hetopt
from hetopt.problem.catalogue import accelerators
from tests.docs.pages import ROOT, read_page

README = read_page("README.md")
#: Rows of tables by their first cell; one device may have several.
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in README.splitlines()
    if line.startswith("|")
]
RESULTS = ROOT / "benchmarks" / "results" / "mixed_fleet.md"


def test_the_readme_fits_a_few_screens() -> None:
    assert README.count("\n") <= 120


def test_the_changelog_is_short_and_begins_with_this_version() -> None:
    text = read_page("CHANGELOG.md")
    assert text.count("\n") <= 40
    newest = re.findall(r"^## (.+)$", text, re.MULTILINE)[0]
    assert newest == hetopt.__version__


def test_errors_are_those_on_runs_that_no_fit_has_seen() -> None:
    stated = {row[0]: row[1:] for row in reversed(ROWS) if row[-1].endswith("%")}
    known = {name: device.accuracy for name, device in accelerators().items()}
    for family in ("A100", "H100", "B200"):
        (accuracy,) = {known[name] for name in known if name.startswith(family)}
        assert accuracy is not None
        runs, median, worst = stated[family]
        assert runs.split()[0] == str(accuracy.runs)
        assert (median, worst) == (f"{accuracy.median:.1%}", f"{accuracy.worst:.0%}")


def test_devices_without_runs_are_said_to_be_unchecked() -> None:
    unchecked = {
        name
        for row in ROWS
        if "never checked" in row
        for name in row[0].removesuffix(", others").split(", ")
    }
    assert unchecked == {
        "H20", "Ascend A2", "H800", "H200", "A40", "L40S", "V100", "MI300X",
    }  # fmt: skip
    for name, device in accelerators().items():
        known = any(name.startswith(each.split()[0]) for each in unchecked)
        assert not (known and device.accuracy), name


def test_launchers_cost_what_the_benchmark_found() -> None:
    found = {}
    for line in RESULTS.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and cells[1] == "best":
            found[cells[0]] = cells[2], cells[5], cells[6]
    stated = {
        name: (schedule, seconds, price)
        for first, seconds, schedule, price in (row for row in ROWS if len(row) == 4)
        for name in re.findall(r"`(\w+)`", first.partition(":")[0])
    }
    assert stated.keys() == found.keys()
    for name, (schedule, seconds, price) in found.items():
        told = f"{float(seconds.split()[0]):.2f} s", f"{float(price[1:-1]):.0f}%"
        assert stated[name] == (schedule, *told), name
