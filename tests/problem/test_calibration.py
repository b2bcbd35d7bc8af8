from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.errors import InputError
from hetopt.problem.calibration import NO_CALIBRATION, Calibration
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem, read_problem_text
from tests.problem.writing import problem_to_data

TEXT = """\
model: {layers: 4, hidden: 1024, heads: 8}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 2}
training: {global_batch: 4, seq_len: 1024}
"""


def test_none_is_the_default() -> None:
    problem = read_problem_text(TEXT)
    assert problem.calibration == NO_CALIBRATION
    assert problem.calibration.efficiency_of("a") == 1
    same = read_problem_text(TEXT + "calibration: {intra_node: 1, notes: nothing}\n")
    assert problem_digest(same) == problem_digest(problem)


@pytest.mark.parametrize(
    "section",
    ["efficiency: {a: 0.9}", "bandwidth: 0.8", "intra_node: 0.8", "reserve: 8%"],
)
def test_each_factor_makes_another_problem(section: str) -> None:
    plain = read_problem_text(TEXT)
    changed = read_problem_text(f"{TEXT}calibration: {{{section}}}\n")
    assert problem_digest(changed) != problem_digest(plain)


def test_it_is_read_from_a_file_and_written_back(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "efficiency: {a: 0.9}\nbandwidth: 0.8\nintra_node: 0.7\nreserve: 0.1\n"
        "notes: one run\n"
    )
    path = tmp_path / "problem.yaml"
    path.write_text(TEXT + "calibration: mine.yaml\n")
    problem = read_problem(path)
    assert problem.calibration == Calibration(
        efficiency={"a": 0.9}, bandwidth=0.8, intra_node=0.7
    )
    assert problem.training.reserve == 0.1
    data = str(problem_to_data(problem))
    again = read_problem_text(data)
    assert problem_digest(again) == problem_digest(problem)


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("3", "calibration: is 3, expected a mapping with efficiency, bandwidth"),
        ("{efficiency: 0.9}", "calibration.efficiency: is 0.9, expected a mapping"),
        (
            "{efficiency: {a: 9}}",
            "efficiency.a: is 9, expected a factor from 0.25 to 2",
        ),
        ("{efficiency: {a: x}}", "efficiency.a: is 'x', expected a factor"),
        ("{efficiency: {b: 1}}", "efficiency.b: is 'b'"),
        ("{bandwidth: 0}", "calibration.bandwidth: is 0, expected a factor from 0.1"),
        ("{bandwidth: true}", "calibration.bandwidth: is true, expected a factor"),
        ("{bandwidth: .nan}", "calibration.bandwidth: is nan, expected a factor"),
        ("{intra_node: 3}", "calibration.intra_node: is 3, expected a factor from 0.1"),
        ("{overhead: 2 GB}", "calibration.overhead: is '2 GB', expected a mapping"),
        ("{overhead: {a: 2}}", "calibration.overhead.a: is 2 without a unit"),
        ("{overhead: {b: 2 GB}}", "calibration.overhead.b: is 'b', expected a cluster"),
        ("{overhead: {a: 1 TB}}", "is 1000000000000 bytes, expected less than"),
        ("{reserve: 0.9}", "reserve: is 0.9, expected a share from 0.01 to 0.5"),
        ("{reserve: 9}", "calibration.reserve: is 9, expected a share"),
        ("{factor: 1}", "calibration.factor: is not a known field"),
        ("none.yaml", "calibration: names 'none.yaml', which is not a file"),
    ],
)
def test_what_cannot_be_used(section: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_problem_text(f"{TEXT}calibration: {section}\n")
    assert message in str(error.value)


def test_an_overhead_has_one_bound_wherever_it_stands() -> None:
    """Less than the memory, in a cluster and in a calibration of it alike."""
    smaller = TEXT.replace("nodes: 1", "nodes: 1, memory: 10 GB")
    for text in (
        smaller.replace("10 GB", "10 GB, overhead: SIZE"),
        smaller + "calibration: {overhead: {a: SIZE}}\n",
    ):
        for size in (0, 6 * 10**9, 10**10 - 1):
            problem = read_problem_text(text.replace("SIZE", f"{size} B"))
            assert problem.clusters[0].overhead_bytes == size
        with pytest.raises(InputError, match="expected less than the memory"):
            read_problem_text(text.replace("SIZE", "10 GB"))


def test_nouns_are_bounded() -> None:
    with pytest.raises(ValueError, match=r"efficiency\.a: is 3, expected a factor"):
        Calibration(efficiency={"a": 3})
    with pytest.raises(
        ValueError, match=r"bandwidth: is 0, expected a factor from 0\.1"
    ):
        Calibration(bandwidth=0)
    with pytest.raises(ValueError, match=r"speed\.a: is 0, expected a number above 0"):
        Calibration(speed={"a": 0})


def test_a_supposed_speed_multiplies_the_efficiency() -> None:
    """It may be beyond what a correction can be, and makes another problem."""
    problem = read_problem_text(TEXT + "calibration: {efficiency: {a: 0.5}}\n")
    known = problem.calibration
    supposed = replace(problem, calibration=replace(known, speed={"a": 4.0}))
    assert supposed.calibration.efficiency_of("a") == 2.0
    assert problem_digest(supposed) != problem_digest(problem)
