"""What vendors, drivers and sites call accelerators."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetopt.inventory.naming import match_accelerator
from hetopt.problem.catalogue import accelerators

DATA = Path(__file__).parents[2] / "data" / "accelerator_names.json"
MIB = 2**20


@pytest.mark.parametrize(
    ("label", "mib", "accelerator"),
    [
        ("NVIDIA-A100-SXM4-80GB", 81920, "A100-80GB"),
        ("NVIDIA-A100-SXM4-80GB", None, "A100-80GB"),
        ("NVIDIA A100-SXM4-40GB", None, "A100-40GB"),
        ("a100", 40960, "A100-40GB"),
        ("a100_80g", None, "A100-80GB"),
        ("A100-40G", None, "A100-40GB"),
        ("a100-sxm-80gb", None, "A100-80GB"),
        ("nvidia_a100-sxm4-80gb", None, "A100-80GB"),
        ("nvidia-tesla-a100", None, "A100-40GB"),
        ("nvidia-a100-80gb", None, "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", 81559, "H100"),
        ("NVIDIA-H100-80GB-HBM3", None, "H100"),
        ("nvidia_h100_80gb_hbm3", None, "H100"),
        ("nvidia-h100-mega-80gb", None, "H100"),
        ("h100", None, "H100"),
        ("NVIDIA-H800", 81559, "H800"),
        ("NVIDIA-H20", 97871, "H20-96GB"),
        ("NVIDIA H20-3e", None, "H20-141GB"),
        ("NVIDIA-H200", 143771, "H200"),
        ("H200", None, "H200"),
        ("nvidia-h200-141gb", None, "H200"),
        ("NVIDIA-B200", 183359, "B200"),
        ("Tesla V100-SXM2-32GB", None, "V100-32GB"),
        ("Tesla-V100-SXM2-16GB", 16384, "V100-16GB"),
        ("V100", 32768, "V100-32GB"),
        ("NVIDIA L40S", 46068, "L40S"),
        ("l40s", None, "L40S"),
        ("NVIDIA-A40", 46068, "A40"),
        ("NVIDIA-A10G", 23028, "A10G"),
        ("NVIDIA A10", 23028, "A10"),
        ("NVIDIA-L4", 23034, "L4"),
        ("nvidia-l4", None, "L4"),
        ("NVIDIA L40", 46068, "L40"),
        ("Tesla T4", 15360, "T4"),
        ("nvidia-tesla-t4", None, "T4"),
        ("mi325x", None, "MI325X"),
        ("AMD-Instinct-MI355X-OAM", None, "MI355X"),
        ("NVIDIA GB200", 189471, "GB200"),
        ("NVIDIA GB300", None, "GB300"),
        ("NVIDIA B300 SXM6 AC", None, "B300"),
        ("NVIDIA A800-SXM4-80GB", 81920, "A800-80GB"),
        ("NVIDIA GeForce RTX 4090", 24564, "RTX-4090"),
        ("rtx3090", None, "RTX-3090"),
        ("910B2", None, "Ascend-910B2-64GB"),
        ("910c", None, "Ascend-910C-64GB"),
        ("NVIDIA TITAN Xp", 12288, "TITAN-Xp"),
        ("AMD_Instinct_MI300X_OAM", 196592, "MI300X"),
        ("AMD-Instinct-MI300X-OAM", None, "MI300X"),
        ("mi300x", None, "MI300X"),
        ("Ascend910B", None, "Ascend-A2-64GB"),
        ("910B3", None, "Ascend-A2-64GB"),
        ("Ascend-A2-64GB", None, "Ascend-A2-64GB"),
        ("h2-chip-a", None, "H2-Chip-A"),
    ],
)
def test_recognised(label: str, mib: int | None, accelerator: str) -> None:
    match = match_accelerator(label, None if mib is None else mib * MIB)
    assert match.accelerator == accelerator
    assert (match.candidates, match.question) == ((), "")


@pytest.mark.parametrize(
    ("label", "mib", "candidates", "question"),
    [
        (None, None, "", "does not say which accelerator"),
        ("a100", None, "A100-40GB A100-80GB", "'a100' is A100-40GB or A100-80GB"),
        ("Tesla V100", None, "V100-16GB V100-32GB", "V100-16GB or V100-32GB"),
        ("h20", None, "H20-96GB H20-141GB", "H20-96GB or H20-141GB"),
        # Another form of the device, with other rates or links.
        ("NVIDIA-A100-PCIE-40GB", None, "A100-40GB", "pcie may make it another"),
        ("NVIDIA H100 PCIe", None, "H100", "pcie may make it another"),
        ("NVIDIA H800 PCIe", None, "H800", "pcie may make it another"),
        ("Tesla V100-PCIE-16GB", None, "V100-16GB", "pcie may make it another"),
        ("a100-bigmem", None, "A100-40GB A100-80GB", "bigmem may make it another"),
        # Another memory: another device.
        ("NVIDIA H100 NVL", 95830, "", "nvl may make it another device"),
        ("A100-SXM-64GB", None, "", "has 64 GB of memory, the catalogue's has 40 GB"),
        ("A100-SXM4-80GB", 40960, "", "has 43 GB and 80 GB of memory"),
        ("H100", 16000, "", "has 17 GB of memory, the catalogue's has 80 GB"),
        # Words that only look alike.
        ("A8000", None, "", "not in the catalogue"),
        ("gh200", None, "", "not in the catalogue"),
        ("L20", None, "", "not in the catalogue"),
        ("A4000", None, "", "not in the catalogue"),
        ("V100S-PCIE-32GB", None, "", "not in the catalogue"),
        ("TITAN X", None, "", "not in the catalogue"),
        ("mi300a", None, "", "not in the catalogue"),
        ("Ascend910", None, "", "not in the catalogue"),
        ("910B4", None, "", "not in the catalogue"),
        ("NVIDIA GeForce RTX 5090", 32607, "", "not in the catalogue"),
        ("gpu", None, "", "not in the catalogue"),
    ],
)
def test_questioned(
    label: str | None, mib: int | None, candidates: str, question: str
) -> None:
    match = match_accelerator(label, None if mib is None else mib * MIB)
    assert match.accelerator is None
    assert match.candidates == tuple(candidates.split())
    assert question in match.question


@pytest.mark.parametrize("name", accelerators())
def test_the_catalogue_s_own_names(name: str) -> None:
    device = accelerators()[name]
    assert match_accelerator(name).accelerator == name
    assert match_accelerator(name, device.memory_bytes).accelerator == name
    assert match_accelerator(name, device.memory_bytes // 2).accelerator is None


def test_every_name_has_a_source_and_means_something() -> None:
    data = json.loads(DATA.read_text("utf-8"))
    assert data["passed_over"]["source"]
    for item in data["names"]:
        assert item["source"]
        assert item["words"]
        assert set(item["accelerators"]) <= set(accelerators())
        # Lower case, as names are compared.
        for word in (*item["words"], *item["forms"]):
            assert word == word.lower()
    for item in data["labels"]:
        assert item["source"]
        assert item["accelerator"] in accelerators()
