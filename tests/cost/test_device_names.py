"""An accelerator's name is a label: a new one changes no coefficient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from hetopt.cost.build import build_table
from hetopt.cost.table_file.file import table_to_json
from hetopt.problem.catalogue import accelerators
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem_text
from tests.cost.sources.test_operator_source import operators

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.problem.problem import Problem

TEXT = """\
model: {{layers: 4, hidden: 2048, heads: 16, ffn: 5504, vocab: 32000}}
clusters:
  - {{name: a, accelerator: {device}, nodes: 2, devices_per_node: 4,
     inter_node: {{bandwidth: 100 Gbps}}}}
training: {{global_batch: 8, seq_len: 1024, precision: {precision}, zero: 3}}
latency: {{a: {latency}}}
"""

OWN = (
    "{{name: {name}, peak_flops: {{bf16: 200 TFLOPS, fp32: 20 TFLOPS}}, "
    "memory: 80 GB, memory_bandwidth: 2 TB/s, "
    "intra_node: {{bandwidth: 200 GB/s, latency: 3 us}}, "
    "host_device: {{bandwidth: 30 GB/s, latency: 10 us}}}}"
)

#: Prefixes of names of the catalogue, names that contain them, and that of a profile.
NAMES = ["A4000", "A1000", "NVIDIA-H100", "H100-NVL", "H20", "B200X", "Ascend9", "MI1"]


def problem(device: str, latency: str = "auto", precision: str = "bf16") -> Problem:
    text = TEXT.format(device=device, latency=latency, precision=precision)
    return read_problem_text(text)


def coefficients(of: Problem) -> dict[str, Any]:
    data = table_to_json(build_table(of))
    data.pop("problem_digest")
    return data


@pytest.mark.quick_cases(20)
@pytest.mark.parametrize("name", accelerators())
@pytest.mark.parametrize("latency", ["auto", "roofline"])
def test_a_new_name_changes_no_coefficient(name: str, latency: str) -> None:
    device = accelerators()[name]
    precision = next(p for p in ("bf16", "fp16", "fp32") if not device.lacks(p))
    old = problem(name, latency, precision)
    renamed = problem(f"{{preset: {name}, name: my-{name}}}", latency, precision)
    like = problem(f"{{like: {name}, name: Mine}}", latency, precision)
    expected = coefficients(old)
    for new in (renamed, like):
        assert coefficients(new) == expected
    assert problem_digest(renamed) == problem_digest(old)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("latency", ["auto", "roofline"])
def test_a_device_of_ones_own_inherits_nothing_by_its_name(
    name: str, latency: str
) -> None:
    found, plain = (
        problem(OWN.format(name=each), latency) for each in (name, "anything")
    )
    assert coefficients(found) == coefficients(plain)
    assert problem_digest(found) == problem_digest(plain)


def test_the_name_of_a_shipped_profiles_device_is_a_label_too() -> None:
    found, plain = (
        problem(OWN.format(name=name), precision="fp32") for name in ("CPU", "other")
    )
    assert coefficients(found) == coefficients(plain)


@pytest.mark.parametrize("name", ["X1", "H100"])
def test_a_users_operators_do_not_depend_on_the_label(
    tmp_path: Path, name: str
) -> None:
    """The file is of X1, and so is, outside the catalogue, the user's device."""
    path = tmp_path / "mine.csv"
    path.write_text(operators())
    found, other = (
        problem(OWN.format(name=each), str(path)) for each in (name, "other")
    )
    assert coefficients(found) == coefficients(other)


def test_what_a_device_is_like_counts() -> None:
    """Its shares are lent, its own rates stay; errors of others' runs are not lent."""
    like = OWN.format(name="mine").replace("{name", "{like: H100, name", 1)
    plain, lent = (problem(device) for device in (OWN.format(name="mine"), like))
    assert problem_digest(plain) != problem_digest(lent)
    h100, device = accelerators()["H100"], lent.clusters[0].accelerator
    assert device.roofline == h100.roofline
    assert device.relatives == h100.relatives
    assert device.intra_node_share == h100.intra_node_share
    assert device.peak_flops == plain.clusters[0].accelerator.peak_flops.__class__(
        **{name: getattr(h100.peak_flops, name) for name in h100.peak_flops.known}
        | {"bf16": 200e12, "fp32": 20e12}
    )
    assert h100.accuracy is not None
    assert device.accuracy is None
    assert "operators.accuracy" not in device.sources
