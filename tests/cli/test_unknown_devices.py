"""A device that is like none of the catalogue: one warning says what is assumed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetopt.cli import main
from tests.cli.conftest import SMALL

OWN = (
    "{name: NAME, memory: 40 GB, peak_flops: 100 TFLOPS, memory_bandwidth: 1 TB/s, "
    "intra_node: {bandwidth: 100 GB/s, latency: 3 us}, "
    "host_device: {bandwidth: 25 GB/s, latency: 10 us}}"
)
#: What SMALL had when devices were known by their names.
OLD_DIGEST = "5f4ac9b11b514f2274c9efa50302d9c83fdb54bb323afdc7e6efbb2911b67ab9"


def planned(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the warnings of a plan."""
    (folder / "problem.yaml").write_text(text)
    options = ["--solver", "uniform", "--jobs", "1", "--out", str(folder / "plan.json")]
    assert main(["plan", str(folder / "problem.yaml"), *options]) == 0
    return capsys.readouterr().err.splitlines()


def test_one_warning_names_all_devices_without_a_relative(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SMALL.replace("A100-80GB", OWN.replace("NAME", "A4000"))
    both = text.replace("A40,", OWN.replace("NAME", "MyChip") + ",")
    assert planned(tmp_path, both, capsys) == [
        "warning: A4000, MyChip: the shares of their rates that devices reach are "
        "assumed where an accelerator has neither preset nor like: name the nearest "
        "device of `hetopt catalog`, as in {like: H100, ...}"
    ]
    (one,) = planned(tmp_path, text, capsys)
    assert one.startswith("warning: A4000: the shares ")


@pytest.mark.parametrize("said", ["like", "preset"])
def test_none_where_a_device_says_whose_facts_it_has(
    said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = SMALL.replace("A100-80GB", f"{{{said}: A100-80GB, name: mine}}")
    assert planned(tmp_path, text, capsys) == []


def test_a_plan_of_before_is_to_be_made_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    planned(tmp_path, SMALL, capsys)
    path = tmp_path / "plan.json"
    data = json.loads(path.read_text())
    plan = data.get("plan", data)
    assert plan["problem_digest"] != OLD_DIGEST
    plan["problem_digest"] = OLD_DIGEST
    path.write_text(json.dumps(data))
    assert main(["check", str(tmp_path / "problem.yaml"), str(path)]) == 2
    err = capsys.readouterr().err
    assert "plan again" in err
    assert err.count("\n") == 1
