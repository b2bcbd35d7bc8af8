"""What ships: every device and model says where its numbers come from."""

import json
import re
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path

import pytest

from hetopt.problem.catalogue import accelerators, model_presets, problem_files
from hetopt.problem.cluster.links import ClusterLinks
from hetopt.problem.model.kinds import HEAD
from hetopt.problem.model.model import Model
from hetopt.problem.reading import read_problem

DATA = Path(__file__).parents[2] / "data"

#: From the issue that asked for the catalogue.
DEVICES = [
    "A100-40GB", "A100-80GB", "H100", "H800", "H20-96GB", "H20-141GB", "H200", "B200",
    "V100-16GB", "V100-32GB", "L40S", "A40", "TITAN-Xp", "MI300X", "Ascend-A2-64GB",
    "A10", "A10G", "L4", "L40", "T4", "MI325X",
    "GB200", "GB300", "B300", "A800-80GB", "H100-96GB", "MI355X",
    "Ascend-910B2-64GB", "Ascend-910C-64GB", "RTX-4090", "RTX-3090",
    "H2-Chip-A", "H2-Chip-B", "H2-Chip-C", "H2-Chip-D",
]  # fmt: skip
PROBLEMS = [
    "hetauto-exp1", "hetauto-exp2", "hetauto-exp3", "hetauto-exp2-32k",
    "hetauto-exp1-10gbps", "hetauto-exp2-10gbps", "hetauto-exp3-10gbps",
    "hetauto-exp3-published", "hetauto-table1-a100", "hetauto-table1-h20",
    "hetauto-table1-a2", "hetauto-appendix-a", "h2-exp-a-1", "h2-exp-a-2",
    "h2-exp-b-1", "h2-exp-b-2", "h2-exp-c-1", "h2-exp-c-2", "h2-exp-d", "hapt-gpt39b",
    "hetu-32b-16h800-16h20", "hetu-32b-16h800-24h20", "hetu-32b-16h800-32h20",
    "hetu-70b-16h800-16h20", "hetu-70b-16h800-24h20", "hetu-70b-16h800-32h20",
    "uniap-bert-huge", "uniap-t5-large", "uniap-vit-huge", "uniap-swin-huge",
    "uniap-llama-7b", "uniap-llama-13b", "a100-h100-v100",
    "deepseek-v3-h20-h800", "qwen3-235b-h800", "deepseek-v3-h800",
    "deepseek-v3-h800-published",
]  # fmt: skip

#: Those of them that are of no paper.
OURS = ["a100-h100-v100", "deepseek-v3-h20-h800", "qwen3-235b-h800"]


def preset(name: str) -> Model:
    return Model.of(name)


def parameters(model: Model) -> float:
    """Weights in billions, without norms."""
    heads = model.heads * model.head_dim * 2 + model.kv_heads * model.head_dim * 2
    mlp = model.ffn * (3 if model.gated else 2)
    ends = model.vocab * (1 if model.tied else 2) + model.positions
    return model.hidden * (model.layers * (heads + mlp) + ends) / 1e9


def test_every_device_is_there() -> None:
    assert set(DEVICES) <= set(accelerators())


@pytest.mark.parametrize("name", accelerators())
def test_every_number_has_a_source(name: str) -> None:
    device = accelerators()[name]
    rates = {f"peak_flops.{name}" for name in device.peak_flops.known}
    stated = set(device.sources) - {"operators.grouped"}
    assert stated == rates | {
        "memory", "overhead", "memory_bandwidth", "intra_node.bandwidth",
        "intra_node.latency", "host_device.bandwidth", "host_device.latency",
        "intra_node_share", "roofline.multiplication", "roofline.attention",
        "roofline.elementwise", "roofline.ramp", "roofline.sustained",
        "operators.relatives", "operators.sustained", "operators.accuracy",
        "visible_devices",
    }  # fmt: skip
    for source in device.sources.values():
        assert re.match(r"(measured|published|modelled): \S", source)


def test_bidirectional_sums_are_halved() -> None:
    """Vendors print the sum of both directions; the files say what they did."""
    for path in sorted((DATA / "accelerators").glob("*.json")):
        link = json.loads(path.read_text("utf-8"))["intra_node"]["bandwidth"]
        total = re.search(r"(?:NVLink|HCCS) (\d+) GB/s", link["source"])
        if total:
            assert link["value"] == f"{int(total[1]) // 2} GB/s", path.name
            assert "both directions" in link["source"]


@pytest.mark.parametrize(
    ("chip", "low", "high", "memory"),
    [
        ("A", 0.5, 1.0, 96),
        ("B", 0.5, 1.0, 64),
        ("C", 0.0, 0.5, 32),
        ("D", 1.5, 2.0, 32),
    ],
)
def test_h2_chips_lie_in_table_5(
    chip: str, low: float, high: float, memory: int
) -> None:
    device, a100 = accelerators()[f"H2-Chip-{chip}"], accelerators()["A100-80GB"]
    assert low < device.peak_flops_of("bf16") / a100.peak_flops_of("bf16") < high
    assert device.memory_bytes == memory * 10**9


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("llama-7b", 6.74),
        ("llama-13b", 13.0),
        ("llama-70b", 69.0),
        ("llama-3-8b", 8.03),
        ("llama-3-70b", 70.55),
        ("h2-100b", 103),
        ("hetu-llama-32b", 32.5),
        ("hetu-llama-70b", 69.0),
        ("gpt-39b", 39.1),
        ("gpt3-175b", 174.6),
    ],
)
def test_presets_have_the_size_of_their_name(name: str, billions: float) -> None:
    assert parameters(preset(name)) == pytest.approx(billions, rel=0.01)


@pytest.mark.parametrize("name", model_presets())
def test_presets_load_and_say_their_sources(name: str) -> None:
    assert preset(name).name == name
    sources = model_presets()[name]["sources"].values()
    assert all(re.match(r"(published|modelled): \S", source) for source in sources)


def test_every_problem_is_there() -> None:
    assert set(PROBLEMS) <= set(problem_files())


@pytest.mark.parametrize("name", problem_files())
def test_problems_load_and_say_whose_numbers_they_hold(name: str) -> None:
    file = problem_files()[name]
    problem = read_problem(str(file))
    assert problem.name == name
    assert problem.model.units[-1] == HEAD
    text = file.read_text("utf-8")
    assert "# Ours: " in text
    if name not in OURS:
        assert text.startswith(("# H", "# UniAP", "# DeepSeek"))
        assert "# The paper gives: " in text


def test_hapt_has_146_units() -> None:
    problem = read_problem(str(problem_files()["hapt-gpt39b"]))
    assert len(problem.model.units) == 146


@pytest.mark.parametrize(
    ("name", "sequences"),
    [("h2-exp-a-1", 512), ("h2-exp-a-2", 1536), ("h2-exp-c-1", 1024)],
)
def test_h2_batches(name: str, sequences: int) -> None:
    problem = read_problem(str(problem_files()[name]))
    assert problem.training.global_batch == sequences


@pytest.mark.parametrize("number", [1, 2, 3])
def test_hetauto_s_experiments_differ_from_those_at_10_gbps_in_the_rate_alone(
    number: int,
) -> None:
    """40 Gbps per node are inferred, see docs/explanation/fidelity.md."""
    ours, old = (
        read_problem(str(problem_files()[f"hetauto-exp{number}{rate}"]))
        for rate in ("", "-10gbps")
    )
    link = ours.links.default
    assert link is not None
    assert link.node_bytes_per_s == 40e9 / 8
    slower = ClusterLinks(default=replace(link, node_bytes_per_s=10e9 / 8))
    assert replace(ours, name=old.name, links=slower) == old


def test_hetauto_exp3_s_published_solution_uses_every_device() -> None:
    problem = read_problem(str(problem_files()["hetauto-exp3-published"]))
    pins = problem.pins
    assert pins.order == ("h20", "h800", "a100", "ascend")
    assert problem.stage_counts == (18,)
    assert problem.microbatch_counts == (64,)
    for cluster in problem.clusters:
        own = pins.of(cluster.name)
        used = [
            (stages, dp, cp, tp)
            for stages, dp, cp, tp in product(range(1, 9), (8,), (1, 2), (1, 2, 4, 8))
            if own.stages.permits(stages)
            and own.dp.permits(dp)
            and own.cp.permits(cp)
            and own.tp.permits(tp)
        ]
        assert len(used) == 1
        assert prod(used[0]) == cluster.devices
