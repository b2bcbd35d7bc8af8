"""What a right problem file means: defaults, presets, units, other files."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.accelerator import Link, PeakFlops
from hetopt.problem.cluster.links import ClusterLink
from hetopt.problem.cluster.nearby import DeviceGroup
from hetopt.problem.example import EXAMPLE
from hetopt.problem.model.model import Model
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.problem.training.choices import RECOMPUTE


def problem(**sections: Any) -> Problem:
    """Read a small right problem in which ``sections`` take the place of its own."""
    cluster = {
        "name": "a",
        "accelerator": "A100-80GB",
        "nodes": 2,
        "devices_per_node": 8,
        "inter_node": {"bandwidth": "100 Gbps"},
    }
    data = {
        "model": "llama-7b",
        "clusters": [cluster, {**cluster, "name": "b", "accelerator": "H20-96GB"}],
        "links": {"default": {"bandwidth": "10 Gbps", "latency": "1 ms"}},
        "training": {"global_batch": 64, "seq_len": 4096},
        **sections,
    }
    return read_problem_text(json.dumps(data), "small.yaml")


def model(**fields: Any) -> Model:
    return problem(model=fields).model


def test_defaults_of_a_cluster() -> None:
    cluster = problem().clusters[0]
    a100 = accelerators()["A100-80GB"]
    assert cluster.accelerator == a100
    assert cluster.memory_bytes == a100.memory_bytes
    assert cluster.overhead_bytes == a100.overhead_bytes
    assert cluster.max_tp == 8
    assert cluster.nics_per_node == 8
    assert cluster.intra_node == a100.intra_node
    assert cluster.host_device == a100.host_device
    assert cluster.inter_node == Link(latency_s=5e-6, bandwidth_bytes_per_s=12.5e9)
    assert cluster.group is None


def test_a_cluster_says_otherwise() -> None:
    base = {
        "name": "a",
        "accelerator": {"preset": "A100-80GB", "memory_bandwidth": "1 TB/s"},
        "nodes": 1,
        "devices_per_node": 8,
        "memory": "70 GiB",
        "max_tp": 2,
        "intra_node": {"bandwidth": "32 GB/s"},
        "host_device": {"latency": "20 us"},
        "nics_per_node": 1,
        "group": {"size": 2, "bandwidth": "300 GB/s", "latency": "1 us"},
    }
    cluster = problem(clusters=[base], links=None).clusters[0]
    a100 = accelerators()["A100-80GB"]
    assert cluster.accelerator.memory_bandwidth_bytes_per_s == 1e12
    assert cluster.accelerator.peak_flops == a100.peak_flops
    assert "memory_bandwidth" not in cluster.accelerator.sources
    rate = "peak_flops.bf16"
    assert cluster.accelerator.sources[rate] == a100.sources[rate]
    assert cluster.memory_bytes == 70 * 2**30
    assert cluster.max_tp == 2
    assert cluster.intra_node == replace(a100.intra_node, bandwidth_bytes_per_s=32e9)
    assert cluster.host_device == replace(a100.host_device, latency_s=20e-6)
    assert cluster.nics_per_node == 1
    assert cluster.group == DeviceGroup(
        size=2, link=Link(latency_s=1e-6, bandwidth_bytes_per_s=300e9)
    )


def test_an_accelerator_of_ones_own() -> None:
    own = {
        "name": "mine",
        "peak_flops": "100 TFLOPS",
        "memory": "24 GB",
        "memory_bandwidth": "1 TB/s",
        "intra_node": {"bandwidth": "16 GB/s", "latency": "5 us"},
        "host_device": {"bandwidth": "16 GB/s", "latency": "5 us"},
    }
    cluster = {"name": "a", "accelerator": own, "nodes": 1, "devices_per_node": 2}
    found = problem(clusters=[cluster], links=None).clusters[0]
    assert found.accelerator.name == "mine"
    assert found.accelerator.peak_flops == PeakFlops.dense_16_bit(1e14)
    assert found.memory_bytes == 24 * 10**9


def test_a_single_node_needs_no_network_but_two_nodes_do() -> None:
    cluster = {"name": "a", "accelerator": "L40S", "devices_per_node": 4}
    assert problem(clusters=[{**cluster, "nodes": 1}], links=None).clusters
    with pytest.raises(InputError, match=r"clusters\.0\.inter_node: is missing"):
        problem(clusters=[{**cluster, "nodes": 2}], links=None)


def test_model_presets_and_overrides() -> None:
    assert problem(model="llama-7b").model == model(preset="llama-7b")
    longer = model(preset="llama-7b", layers=48, granularity="block", tied=True)
    assert (longer.layers, longer.hidden, longer.ffn) == (48, 4096, 11008)
    assert len(longer.units) == 3 * 48 + 2
    assert longer.tied
    wider = model(preset="llama-70b", hidden=4096, heads=32)
    assert (wider.kv_heads, wider.head_dim, wider.ffn) == (32, 128, 11008)
    assert model(preset="llama-70b", layers=2).kv_heads == 8


@pytest.mark.parametrize(
    ("hidden", "ffn"), [(4096, 11008), (8192, 22016), (6656, 17920)]
)
def test_ffn_follows_llama(hidden: int, ffn: int) -> None:
    assert model(layers=1, hidden=hidden, heads=2).ffn == ffn


def test_defaults_of_a_model() -> None:
    gated = model(layers=2, hidden=64, heads=4)
    assert (gated.kv_heads, gated.head_dim, gated.vocab) == (4, 16, 32000)
    assert (gated.gated, gated.tied, gated.norm, gated.positions) == (
        True,
        False,
        "rms",
        0,
    )
    plain = model(layers=2, hidden=64, heads=4, gated=False, kv_heads=None)
    assert (plain.ffn, plain.norm) == (256, "layer")


@pytest.mark.parametrize(
    ("text", "sequences"),
    [(64, 64), ("2M tokens", 512), ("2 M tokens", 512), ("8192 tokens", 2)],
)
def test_global_batch_in_tokens(text: object, sequences: int) -> None:
    training = problem(training={"global_batch": text, "seq_len": 4096}).training
    assert training.global_batch == sequences


@pytest.mark.parametrize(
    ("given", "of_a", "of_b"),
    [
        ("auto", RECOMPUTE, RECOMPUTE),
        ("none", ("none",), ("none",)),
        (["full", "none"], ("none", "full"), ("none", "full")),
        ({"a": "full"}, ("full",), RECOMPUTE),
        ({"a": ["selective"], "b": "auto"}, ("selective",), RECOMPUTE),
    ],
)
def test_recompute(given: object, of_a: tuple[str], of_b: tuple[str]) -> None:
    training = {"global_batch": 64, "seq_len": 4096, "recompute": given}
    found = problem(training=training).training.recompute
    assert dict(found) == {"a": of_a, "b": of_b}


@pytest.mark.parametrize("reserve", [0.1, "10%", "10 %"])
def test_reserve(reserve: object) -> None:
    training = {"global_batch": 64, "seq_len": 4096, "reserve": reserve}
    assert problem(training=training).training.reserve == pytest.approx(0.1)


def test_links_by_pair() -> None:
    links = problem(
        links={
            "default": {
                "bandwidth": "10 Gbps",
                "latency": "1 ms",
                "per_node": "40 Gbps",
                "staged": "device",
            },
            "pairs": [{"between": ["b", "a"], "bandwidth": "20 Gbps"}],
        }
    ).links
    assert links.default == ClusterLink(
        latency_s=1e-3,
        capacity_bytes_per_s=1.25e9,
        node_bytes_per_s=5e9,
        staged="device",
    )
    # What a pair leaves out is as in the default.
    assert links.between("a", "b") == replace(links.default, capacity_bytes_per_s=2.5e9)
    only = {"between": ["b", "a"], "bandwidth": "20 Gbps", "latency": "1 ms"}
    alone = problem(links={"pairs": [only]}).links.between("b", "a")
    assert alone == ClusterLink(latency_s=1e-3, capacity_bytes_per_s=2.5e9)


def test_links_that_nothing_or_nobody_limits() -> None:
    default = {"bandwidth": "unlimited", "latency": 0, "per_connection": "1 GB/s"}
    assert problem(links={"default": default}).links.default == ClusterLink(
        latency_s=0.0, connection_bytes_per_s=1e9
    )
    none = {"default": {"bandwidth": "none"}}
    assert problem(links=none).links.between("a", "b") is None
    pair = {"between": ["a", "b"], "bandwidth": "none"}
    assert problem(links={"default": default, "pairs": [pair]}).links.pairs == {
        frozenset({"a", "b"}): None
    }


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ({"bandwidth": "10 Gbps", "latency": 0, "aggregate": "40 Gbps"}, "aggregate"),
        ({"bandwidth": "unlimted", "latency": 0}, "unlimited"),
        ({"bandwidth": "10 Gbps"}, "latency: is missing"),
        ({"latency": 0}, "unlimited or none"),
        ({"bandwidth": 0, "latency": 0}, "more than 0"),
        ({"bandwidth": "10 Gbps", "latency": 0, "per_node": "none"}, "per_node"),
    ],
)
def test_links_that_are_refused(link: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        problem(links={"default": link})


def test_a_pinned_order_needs_links() -> None:
    with pytest.raises(InputError, match=r"pin\.order: puts 'b' after 'a'"):
        problem(links={"default": {"bandwidth": "none"}}, pin={"order": ["a", "b"]})


def test_latency_sources() -> None:
    assert problem().latency == {"a": "auto", "b": "auto"}
    named = problem(latency={"b": "roofline"})
    assert named.latency == {"a": "auto", "b": "roofline"}


def test_names() -> None:
    assert problem().name == "small"
    assert problem(name="mine").name == "mine"
    assert [c.name for c in problem().clusters] == ["a", "b"]


def test_yaml_words_stay_text() -> None:
    text = EXAMPLE.replace("name: h20", "name: no").replace(
        "latency: {a100: auto, h20: auto}", "latency: {no: auto}"
    )
    assert read_problem_text(text).clusters[1].name == "no"


def test_the_example_loads() -> None:
    found = read_problem_text(EXAMPLE)
    assert found.training.reserve == 0
    assert found.latency == {"a100": "auto", "h20": "auto"}


def test_the_example_s_comments_are_right_too() -> None:
    lines = EXAMPLE.splitlines()
    start = lines.index("# pin:")
    end = lines.index("", start)
    pins = [line.removeprefix("# ") for line in lines[start:end]]
    assert read_problem_text("\n".join([*lines, *pins])).pins.order == ("h20", "a100")


def test_sections_of_another_problem(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "all.yaml").write_text(
        "clusters:\n  - {file: a.yaml}\n  - {name: b, accelerator: A40, nodes: 0}\n"
        "links: {default: {bandwidth: 1 Gbps, latency: 1 ms}}\n"
    )
    (tmp_path / "site" / "a.yaml").write_text(
        "name: a\naccelerator: A40\nnodes: 1\ndevices_per_node: 8\n"
        "inter_node: {bandwidth: 100 Gbps}\n"
    )
    main = tmp_path / "main.yaml"
    main.write_text(
        "model: llama-7b\nclusters: site/all.yaml\nlinks: site/all.yaml\n"
        "training: {global_batch: 8, seq_len: 1024}\n"
    )
    with pytest.raises(InputError) as caught:
        read_problem(main)
    where = tmp_path / "site" / "all.yaml"
    assert str(caught.value).startswith(f"{where}:3: clusters.1.nodes: is 0")

    text = where.read_text().replace("nodes: 0", "nodes: 1, devices_per_node: 8")
    where.write_text(text.replace("8}", "8, inter_node: {bandwidth: 1 Gbps}}"))
    found = read_problem(main)
    assert [cluster.name for cluster in found.clusters] == ["a", "b"]
    assert found.links.default is not None
    assert found.links.default.latency_s == 1e-3

    where.write_text(where.read_text().partition("links:")[0])
    with pytest.raises(InputError) as caught:
        read_problem(main)
    message = f"names {str(where)!r}, which has clusters but no links"
    assert str(caught.value) == f"{main}:3: links: {message}"


def test_sections_in_other_files(tmp_path: Path) -> None:
    (tmp_path / "parts" / "chips").mkdir(parents=True)
    (tmp_path / "parts" / "model.json").write_text('{\t"preset": "llama-7b"}')
    (tmp_path / "parts" / "clusters.yaml").write_text("- a.yaml\n- {file: b.yaml}\n")
    for name in "ab":
        (tmp_path / "parts" / f"{name}.yaml").write_text(
            f"name: {name}\naccelerator: chips/own.yaml\nnodes: 1\n"
            "devices_per_node: 8\ninter_node: {bandwidth: 100 Gbps}\n"
        )
    own = tmp_path / "parts" / "chips" / "own.yaml"
    own.write_text("preset: A100-80GB\nmemory: 64 GB\n")
    (tmp_path / "links.yml").write_text("default: {bandwidth: 1 Gbps, latency: 1 ms}\n")
    (tmp_path / "training.yaml").write_text("global_batch: 8\nseq_len: 1024\n")
    (tmp_path / "pin.yaml").write_text("stages: 2\n")
    (tmp_path / "latency.yaml").write_text("{}\n")
    main = tmp_path / "main.yaml"
    main.write_text(
        "model: parts/model.json\nclusters: {file: parts/clusters.yaml}\n"
        "links: links.yml\ntraining: training.yaml\npin: pin.yaml\n"
        "latency: latency.yaml\n"
    )
    found = read_problem(main)
    assert [c.name for c in found.clusters] == ["a", "b"]
    assert found.clusters[1].memory_bytes == 64 * 10**9
    assert found.pins.stages.allowed == frozenset({2})

    own.write_text("preset: A100-80GB\nmemory: 64\n")
    with pytest.raises(InputError) as caught:
        read_problem(main)
    assert str(caught.value).startswith(
        f"{own}:2: clusters.0.accelerator.memory: is 64 without a unit"
    )
    assert (caught.value.file, caught.value.line) == (str(own), 2)

    own.write_text("own.yaml\n")
    with pytest.raises(InputError, match="names a file that names a file"):
        read_problem(main)


def test_an_included_file_of_the_wrong_shape(tmp_path: Path) -> None:
    (tmp_path / "training.yaml").write_text("\n- 1\n")
    main = tmp_path / "main.yaml"
    main.write_text("model: llama-7b\nclusters: []\ntraining: training.yaml\n")
    with pytest.raises(InputError) as caught:
        read_problem(main)
    assert str(caught.value) == (
        f"{main}:2: clusters: is an empty list, expected a list of at least one "
        "cluster (and 1 more)"
    )
    main.write_text(
        "model: llama-7b\nclusters: [{name: a, accelerator: A40, nodes: 1, "
        "devices_per_node: 1}]\ntraining: training.yaml\n"
    )
    with pytest.raises(InputError) as caught:
        read_problem(main)
    assert str(caught.value).startswith(
        f"{tmp_path / 'training.yaml'}:2: training: is a list, expected a mapping"
    )
