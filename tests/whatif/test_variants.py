"""Which variants options ask for, and what is wrong with them in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.problem.reading import read_problem
from hetopt.whatif.variants import Variant, Variants

TEXT = """\
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: fast, accelerator: A100-80GB, nodes: 2, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: slow, accelerator: A40, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 4, seq_len: 1024}
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Return a problem's path."""
    (tmp_path / "p.yaml").write_text(TEXT)
    return str(tmp_path / "p.yaml")


def asked(path: str, **options: Any) -> list[Variant]:
    every: dict[str, Any] = {
        "drop_each": False,
        "added": [],
        "settings": [],
        "sweeps": [],
    }
    return Variants(path).all(**every | options)


def nodes(variants: list[Variant]) -> list[tuple[str, dict[str, int]]]:
    return [
        (each.change, {c.name: c.nodes for c in each.problem.clusters})
        for each in variants
        if each.problem is not None
    ]


def test_each_cluster_and_each_node_is_dropped(path: str) -> None:
    assert nodes(asked(path, drop_each=True)) == [
        ("as it is", {"fast": 2, "slow": 1}),
        ("without fast", {"slow": 1}),
        ("fast:-1", {"fast": 1, "slow": 1}),
        # Its only node is the cluster.
        ("without slow", {"fast": 2}),
    ]


def test_nodes_are_added_to_one_cluster_or_several(path: str) -> None:
    found = asked(path, added=["slow:2", "fast:1,slow:1"])
    assert nodes(found)[1:] == [
        ("slow:+2", {"fast": 2, "slow": 3}),
        ("fast:+1, slow:+1", {"fast": 3, "slow": 2}),
    ]


def test_settings_stand_alone_or_together(path: str) -> None:
    first, second = asked(
        path,
        settings=[
            "links.default.bandwidth=25Gbps",
            "clusters.slow.nodes=4,pin.stages=[1, 2],links.default.latency=2 ms",
        ],
    )[1:]
    assert first.problem is not None
    assert second.problem is not None
    assert first.change == "links.default.bandwidth=25Gbps"
    link = first.problem.links.default
    assert link is not None
    assert link.capacity_bytes_per_s == 25e9 / 8
    other = second.problem.links.default
    assert other is not None
    assert (other.latency_s, other.capacity_bytes_per_s) == (0.002, 10e9 / 8)
    assert second.problem.clusters[1].nodes == 4
    assert list(second.problem.pins.stages.allowed or ()) == [1, 2]


def test_two_sweeps_are_a_grid(path: str) -> None:
    found = asked(
        path, sweeps=["clusters.fast.nodes=1,2", "training.global_batch=4,8,16"]
    )[1:]
    points = [
        (each.problem.clusters[0].nodes, each.problem.training.global_batch)
        for each in found
        if each.problem is not None
    ]
    assert points == [(1, 4), (1, 8), (1, 16), (2, 4), (2, 8), (2, 16)]
    assert found[1].change == "clusters.fast.nodes=1,training.global_batch=8"


def test_a_schedule_is_of_every_variant(path: str) -> None:
    made = Variants(path, "gpipe")
    found = made.all(drop_each=True, added=[], settings=[], sweeps=[])
    problems = [each.problem for each in found if each.problem is not None]
    assert {each.training.schedule for each in problems} == {"gpipe"}
    assert made.base == problems[0]
    assert read_problem(path).training.schedule != "gpipe"


def test_a_pin_that_a_drop_breaks_is_that_variants_end(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(f"{TEXT}pin: {{clusters: {{fast: {{dp: 4, tp: 1, cp: 1}}}}}}\n")
    _, without_fast, less, without_slow = asked(str(path), drop_each=True)
    assert without_fast.problem is not None
    assert without_slow.problem is not None
    assert less.problem is None
    assert "pin.clusters.fast" in str(less.failure)


@pytest.mark.parametrize(
    ("option", "text", "told"),
    [
        ("added", "fats:2", "--add fats:2: no cluster is named 'fats' (did you mean"),
        ("added", "fast", "--add fast: is 'fast', expected a cluster and its new"),
        ("added", "fast:0", "--add fast:0: is 'fast:0', expected a cluster and"),
        ("added", "fast:-1", "--add fast:-1: is 'fast:-1', expected a cluster and"),
        ("added", "fast:1,", "--add fast:1,: is '', expected a cluster and its"),
        ("added", "fast:9999999999", "clusters.0.nodes: is 10000000001, expected at"),
        (
            "settings",
            "links.default.bandwith=25Gbps",
            "--set links.default.bandwith=25Gbps: links.default.bandwith: is not a "
            "known field (did you mean 'bandwidth'?), expected one of bandwidth,",
        ),
        (
            "settings",
            "links.default.bandwidth=fast",
            "--set links.default.bandwidth=fast: links.default.bandwidth: is 'fast', "
            "expected a bandwidth",
        ),
        (
            "settings",
            "clusters.slwo.nodes=2",
            "--set clusters.slwo.nodes=2: clusters: has no 'slwo' (did you mean 'slow'"
            "?), expected one of fast, slow",
        ),
        (
            "settings",
            "clusters.slow.nodes=0",
            "--set clusters.slow.nodes=0: clusters.1.nodes: is 0, expected a whole",
        ),
        (
            "settings",
            "clusters.slow.price_per_hour=$3",
            "clusters.1.price_per_hour: is '$3', expected a number from 0",
        ),
        ("settings", "training", "--set training: is 'training', expected KEY=VALUE"),
        ("settings", "=3", "--set =3: is '=3', expected KEY=VALUE"),
        ("settings", "pin.stages=2,3", "is '3', expected KEY=VALUE, such as links"),
        ("settings", "pin.stages=[2", "--set pin.stages=[2: '[2' is not valid YAML"),
        (
            "sweeps",
            "clusters.slow.nodes=1,x",
            "--sweep clusters.slow.nodes=x: clusters.1.nodes: is 'x', expected a whole",
        ),
        ("sweeps", "clusters.slow.nodes=1,,2", "has an empty value, expected"),
        ("sweeps", "clusters.slow.nodes", "expected KEY=VALUE"),
    ],
)
def test_what_cannot_be_asked(path: str, option: str, text: str, told: str) -> None:
    with pytest.raises(InputError) as caught:
        asked(path, **{option: [text]})
    line = str(caught.value)
    assert told in line
    assert "\n" not in line


def test_three_sweeps_are_too_many(path: str) -> None:
    with pytest.raises(InputError, match=r"--sweep: is given 3 times, expected at"):
        asked(path, sweeps=["training.seq_len=1024,2048"] * 3)


def test_one_node_cannot_be_dropped(tmp_path: Path) -> None:
    start, end = TEXT.index("  - {name: fast"), TEXT.index("  - {name: slow")
    (tmp_path / "p.yaml").write_text(TEXT[:start] + TEXT[end:])
    with pytest.raises(InputError, match=r"--drop-each: leaves nothing"):
        asked(str(tmp_path / "p.yaml"), drop_each=True)
