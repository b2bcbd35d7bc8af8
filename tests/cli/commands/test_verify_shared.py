"""Certificates of answers that sharing, or ranges cut elsewhere, leave a gap in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hetopt.cli import main

if TYPE_CHECKING:
    from pathlib import Path

#: Programs are settled without sharing, and the plan is slower with it.
_THREE = """\
clusters:
  - {name: a, accelerator: H20-96GB, nodes: 2, devices_per_node: 1, max_tp: 1,
     memory: 0.8 GB, overhead: 0 GB, uplink: 2 Gbps,
     inter_node: &near {bandwidth: 10 Gbps, latency: 5 us}}
  - {name: b, accelerator: A40, nodes: 2, devices_per_node: 1, max_tp: 1,
     memory: 0.4 GB, overhead: 0 GB, uplink: 5 Gbps, inter_node: *near}
  - {name: c, accelerator: A100-80GB, nodes: 1, devices_per_node: 2, max_tp: 1,
     memory: 0.8 GB, overhead: 0 GB, uplink: 20 Gbps, inter_node: *near}
links: {default: {bandwidth: 20 Gbps, latency: 1 ms}}
model: {layers: 5, hidden: 1024, heads: 8, ffn: 4096, vocab: 1000}
pin: {clusters: {a: {cp: 1}, b: {cp: 1}, c: {cp: 1}}}
training: {global_batch: 4, schedule: free-1f1b, zero: 1, seq_len: 2048,
  recompute: [none, full]}
"""
#: The same in closed form, where a cluster may host stages again.
_AGAIN = """\
clusters:
  - {name: a, accelerator: L4, nodes: 1, devices_per_node: 2, max_tp: 1,
     memory: 20 GB, overhead: 0 GB, uplink: 5 Gbps,
     inter_node: &near {bandwidth: 10 Gbps, latency: 5 us}}
  - {name: b, accelerator: A100-80GB, nodes: 1, devices_per_node: 1, max_tp: 1,
     memory: 20 GB, overhead: 0 GB, uplink: 5 Gbps, inter_node: *near}
  - {name: c, accelerator: A40, nodes: 1, devices_per_node: 1, max_tp: 1,
     memory: 20 GB, overhead: 0 GB, uplink: 10 Gbps, inter_node: *near}
links: {default: {bandwidth: 20 Gbps, latency: 5 us, staged: device}}
model: {layers: 4, hidden: 512, heads: 8, ffn: 2048, vocab: 8000}
pin: {clusters: {a: {cp: 1, stages: [1, 2]}, b: {cp: 1, stages: 1},
  c: {cp: 1, stages: 1}}}
training: {global_batch: 8, schedule: 1f1b, zero: 0, seq_len: 2048, recompute: none}
"""
#: The race cuts other ranges of excess than ``verify``, as it knows another plan.
_TWO = """\
clusters:
  - {name: a, accelerator: H100, nodes: 2, devices_per_node: 2, max_tp: 2,
     memory: 0.8 GB, overhead: 0 GB, uplink: 20 Gbps,
     inter_node: &near {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: b, accelerator: L4, nodes: 1, devices_per_node: 2, max_tp: 1,
     memory: 0.8 GB, overhead: 0 GB, inter_node: *near}
links: {default: {bandwidth: 5 Gbps, latency: 0.1 ms}}
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 1000}
pin: {clusters: {a: {cp: 1}, b: {cp: 1}}}
training: {global_batch: 8, schedule: virtual-1f1b, zero: 2, seq_len: 2048,
  recompute: [none, full]}
"""


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (_THREE, ()),
        (_AGAIN, ("--objective", "closed", "--relax", "p3")),
        (_TWO, ("--relax", "p3")),
    ],
)
def test_what_is_left_open_is_said_and_verified(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    text: str,
    options: tuple[str, ...],
) -> None:
    problem, plan, cert = (str(tmp_path / n) for n in ("p.yaml", "o.json", "c.json"))
    (tmp_path / "p.yaml").write_text(text)
    files = ("--out", plan, "--certificate", cert)
    assert main(["plan", problem, "--jobs", "1", *options, *files]) == 0
    assert "from the best possible" in capsys.readouterr().out
    assert main(["verify", problem, plan, cert]) == 0
    assert "verified" in capsys.readouterr().out
