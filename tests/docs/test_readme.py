"""README is short, and its numbers are those of the data and of the benchmarks."""

from __future__ import annotations

import re

import hetopt
from hetopt.problem.catalogue import accelerators, software
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
    for family in ("A100", "H100", "B200"):
        known = {
            device.accuracy
            for device in accelerators().values()
            if device.name.partition("-")[0] == family
        }
        (accuracy,) = known - {None}
        assert accuracy is not None
        rows = [row for row in ROWS if row[0].startswith(f"{family}, bf16")]
        (said,) = (row[2:] for row in rows if row[1] == "none named")
        own = [cell.partition(";")[0] for cell in said]
        found = f"{accuracy.median:.1%}", f"{accuracy.worst:.0%}"
        assert own == [str(accuracy.runs), *found]


def test_errors_under_software_are_those_of_the_benchmark() -> None:
    """A family's line of the results is somewhere in the table, worst ones too."""
    said = {
        (runs, median, worst)
        for row in ROWS
        if len(row) == 5
        for runs, median, worst in zip(
            *(cell.split("; ") for cell in row[2:]), strict=False
        )
    }
    text = read_page("benchmarks/results/published_runs.md")
    lines = re.findall(
        r"^(.+): (\d+) runs, .*median ([\d.]+)%, worst ([\d.]+)%", text, re.MULTILINE
    )
    assert len(lines) > 10
    for family, runs, median, worst in lines:
        if family.endswith("fsdp") or "16 bits" in family:
            continue
        found = {f"{float(median):.1f}%", f"{float(median):.0f}%"}
        assert any((runs, each, f"{float(worst):.0f}%") in said for each in found), (
            family
        )


def test_devices_without_runs_are_said_to_be_unchecked() -> None:
    (unchecked,) = (row[0] for row in ROWS if "never checked" in row)
    named = unchecked.removesuffix(", others").split(", ")
    assert named == ["H20", "H800", "A40", "L40S", "V100", "MI300X"]
    stacks = [each for stack in software().values() for each in stack.reached]
    shown = {name for each in stacks if each.accuracy for name in each.devices}
    shown |= {name for name, device in accelerators().items() if device.accuracy}
    assert not {name.partition("-")[0] for name in shown} & {*named}


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
