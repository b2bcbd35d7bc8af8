"""The digest follows meaning, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem_text

ROOT = Path(__file__).parents[2]

TEXT = """\
model: {layers: 4, hidden: 64, heads: 4}
clusters:
  - name: a
    accelerator: A100-80GB
    nodes: 2
    devices_per_node: 8
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
  - name: b
    accelerator: H20-96GB
    nodes: 1
    devices_per_node: 8
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
links:
  default: {bandwidth: 10 Gbps, latency: 1 ms, staged: host}
training: {global_batch: 64, seq_len: 1024, recompute: [none, full]}
pin:
  stages: [2, 3, 4]
  clusters: {a: {dp: [1, 2]}, b: {tp: 2}}
  resharding: [p2p, leader]
  forbid: {next: [[a, b]], microbatches: [1, 64], clusters: {a: {cp: 4}}}
latency: {a: auto}
"""

CHANGES = [
    ("layers: 4", "layers: 5"),
    ("heads: 4", "heads: 4, granularity: block"),
    ("heads: 4", "heads: 4, tied: true"),
    ("heads: 4", "heads: 4, vocab: 100"),
    ("A100-80GB", "A100-40GB"),
    ("A100-80GB", "{like: A100-80GB}"),
    ("A100-80GB", "{preset: A100-80GB, peak_flops: 300 TFLOPS}"),
    ("nodes: 2", "nodes: 3"),
    ("nodes: 1", "nodes: 1\n    memory: 90 GB"),
    ("nodes: 1", "nodes: 1\n    max_tp: 4"),
    ("nodes: 1", "nodes: 1\n    nics_per_node: 1"),
    ("nodes: 1", "nodes: 1\n    uplink: 25 Gbps"),
    ("nodes: 1", "nodes: 1\n    offload: optimizer"),
    (
        "nodes: 1",
        "nodes: 1\n    offload: optimizer\n    host_memory_bandwidth: 20 GB/s",
    ),
    ("nodes: 1", "nodes: 1\n    price_per_hour: 32.5"),
    ("nodes: 1", "nodes: 1\n    group: {size: 2, bandwidth: 500 GB/s}"),
    ("nodes: 1", "nodes: 1\n    host_device: {bandwidth: 1 GB/s}"),
    ("latency: 5 us", "latency: 6 us"),
    ("10 Gbps", "11 Gbps"),
    ("staged: host", "staged: device"),
    ("10 Gbps", "none"),
    ("10 Gbps", "unlimited"),
    ("staged: host", "staged: host, per_node: 1 GB/s"),
    ("staged: host", "staged: host, per_connection: 1 GB/s"),
    ("staged: host", "staged: host, per_message: 1 us"),
    ("staged: host}", "staged: host}\n  pairs: [{between: [a, b]}]"),
    ("global_batch: 64", "global_batch: 128"),
    ("seq_len: 1024", "seq_len: 1024, zero: 2"),
    ("seq_len: 1024", "seq_len: 1024, overlap_gradients: false"),
    ("seq_len: 1024", "seq_len: 1024, schedule: 1f1b"),
    ("seq_len: 1024", "seq_len: 1024, schedule: auto"),
    ("latency: {a: auto}", "latency: {a: auto}\nlauncher: megatron"),
    ("seq_len: 1024", "seq_len: 1024, reserve: 0.1"),
    ("[none, full]", "auto"),
    ("stages: [2, 3, 4]", "stages: [2, 3]"),
    ("stages: [2, 3, 4]", "units: [3, 3]"),
    ("stages: [2, 3, 4]", "order: [b, a]"),
    ("dp: [1, 2]", "dp: 1"),
    ("[p2p, leader]", "p2p"),
    ("[[a, b]]", "[[b, a]]"),
    ("[1, 64]", "[1]"),
    ("cp: 4", "cp: 8"),
    ("latency: {a: auto}", "latency: {a: roofline}"),
]

SAME = [
    ("model:", "# a comment\nmodel:"),
    ("heads: 4", "heads: 4, kv_heads: 4, name: mine"),
    ("A100-80GB", "{preset: A100-80GB, name: other}"),
    ("100 Gbps", "12.5 GB/s"),
    ("nodes: 2", "nodes: 2\n    memory: 79.25 GiB"),
    ("nodes: 2", "nodes: 2\n    hosts: [n1, 10.0.0.2]"),
    ("nodes: 2", "nodes: 2\n    offload: null\n    host_memory_bandwidth: 37 GB/s"),
    ("[none, full]", "{a: [full, none], b: [none, full]}"),
    ("seq_len: 1024", "seq_len: 1024, zero: 1, overlap_gradients: true"),
    ("global_batch: 64", "global_batch: 64K tokens"),
    ("stages: [2, 3, 4]", "stages: [4, 3, 2]"),
    ("latency: {a: auto}", "name: other"),
    ("latency: {a: auto}", "latency: {b: auto, a: auto}"),
]


def digest(text: str) -> str:
    return problem_digest(read_problem_text(text, "p.yaml"))


def test_it_is_a_sha256() -> None:
    assert len(digest(TEXT)) == 64
    assert int(digest(TEXT), 16) > 0


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_changed_by(old: str, new: str) -> None:
    assert old in TEXT
    assert digest(TEXT.replace(old, new)) != digest(TEXT)


@pytest.mark.parametrize(("old", "new"), SAME)
def test_not_changed_by(old: str, new: str) -> None:
    assert old in TEXT
    assert digest(TEXT.replace(old, new)) == digest(TEXT)


def test_changed_by_the_order_of_clusters() -> None:
    head, first, second = TEXT.split("  - name: ")
    second, tail = second.split("links:")
    swapped = f"{head}  - name: {second}  - name: {first}links:{tail}"
    assert digest(swapped) != digest(TEXT)


def test_changed_by_the_name_of_a_cluster() -> None:
    text = TEXT.split("pin:")[0]
    assert digest(text.replace("name: a", "name: c")) != digest(text)


def test_all_changes_differ_from_each_other() -> None:
    digests = {digest(TEXT.replace(old, new)) for old, new in CHANGES}
    assert len(digests) == len(CHANGES)


@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_the_hash_seed_does_not_matter(seed: str) -> None:
    code = (
        "import sys; from hetopt.problem.reading import read_problem_text as read; "
        "from hetopt.problem.digest import problem_digest as digest; "
        "print(digest(read(sys.stdin.read(), 'p.yaml')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=TEXT,
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
    )
    assert done.stdout.strip() == digest(TEXT)


def test_the_epsilon_counts_by_its_value() -> None:

    def under(settings: str) -> str:
        return digest(TEXT.replace("seq_len: 1024", f"seq_len: 1024, {settings}"))

    left_out = under("schedule: h-1f1b")
    for same in ("0.05", "1/20", "0.05000000001", "null"):
        assert under(f"schedule: h-1f1b, warmup_epsilon: {same}") == left_out
    other = under("schedule: h-1f1b, warmup_epsilon: 0.01")
    assert len({left_out, other, under("schedule: h-1f1b, warmup_epsilon: 0.1")}) == 3
    assert under("schedule: 1f1b, warmup_epsilon: null") == under("schedule: 1f1b")
