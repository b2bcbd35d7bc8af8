"""The commented problem that ``hetopt init`` writes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from string import Template

#: Clusters of the example; their nodes have 8 devices.
CLUSTERS = ("a100", "h20")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleText:
    """What differs between examples: values of fields, with their comments.

    Attributes
    ----------
    pin
        Whole lines: the section, or a comment that shows one.
    """

    zero: str = "1                         # 0, 1, 2 or 3"
    recompute: str = (
        "auto                 # none, selective, full, or auto to let hetopt choose"
    )
    schedule: str = "virtual-1f1b          # auto (the best), 1f1b, h-1f1b, gpipe..."
    pin: str = """\
# Decisions that are yours: a value or a list of values allowed; `forbid` rules out.
# pin:
#   stages: [2, 3, 4]
#   order: [h20, a100]
#   clusters: {a100: {tp: [2, 4], recompute: none}}
#   forbid: {microbatches: 1, clusters: {h20: {cp: [2, 4, 8]}}}
"""


def example(text: ExampleText) -> str:
    """Return an example, which can be loaded and planned unchanged."""
    return _TEMPLATE.substitute(asdict(text))


_TEMPLATE = Template("""\
# A hetopt problem: which model to train, on which clusters, and how.
# `hetopt plan` this file; `hetopt catalog` lists presets and accelerators, and
# `hetopt schema` prints a JSON Schema with which editors complete this file.
# Quantities carry their unit: Gbps are bits, GB/s bytes, 1 GB is 1e9 bytes.
# Every section may also be another file: `clusters: my-clusters.yaml`.

# A preset, `{hf_config: path/to/config.json}`, or the fields themselves:
# {layers: 32, hidden: 4096, heads: 32, kv_heads: 8, ffn: 14336, vocab: 128256}
model: {preset: llama-7b}

# Bandwidths are per device or network interface (NIC), and per direction.
clusters:
  - name: a100
    accelerator: A100-80GB        # a name, or {like: A100-80GB, memory: 64 GB, ...}
    nodes: 2
    devices_per_node: 8
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
    # memory: 75 GB               # of one device, if less than the catalogue says
    # max_tp: 4                   # largest tensor parallelism; default: 8 here
    # nics_per_node: 1            # default: one per device
    # domain: {nodes: 18}         # nodes whose devices share a fast link (NVL72)
    # uplink: 25 Gbps             # what all its links to other clusters share
    # offload: optimizer          # optimizer states are in the hosts' memory
    # hosts: [gpu-01, gpu-02]     # for launchers; `hetopt inventory` writes such a list
  - name: h20
    accelerator: H20-96GB
    nodes: 1
    devices_per_node: 8
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}

# Between clusters: what all connections share, per direction; `unlimited`, where only
# the nodes limit it; `none`, where there is no link. `staged: host` copies through
# both hosts, `device` goes straight from device to device.
links:
  default: {bandwidth: 10 Gbps, latency: 1 ms, staged: host}
  # pairs:
  #   - {between: [a100, h20], bandwidth: 100 Gbps, per_node: 25 Gbps}

training:
  global_batch: 64                # sequences per iteration, or "1M tokens"
  seq_len: 4096
  precision: bf16
  zero: $zero
  overlap_gradients: true         # false: reduced after the backward pass
  recompute: $recompute
  schedule: $schedule
  reserve: 0%                     # device memory left free besides the overhead

$pin
# Where latencies come from: a profile of yours (`hetopt profile` writes h20.csv, say),
# or auto, which is the modelled roofline if no other profile ships.
latency: {a100: auto, h20: auto}

# What `hetopt calibrate` wrote after a run of your own corrects the latencies.
# calibration: calibration.yaml
""")
#: The example under hetopt's default schedule, with every decision left open.
EXAMPLE = example(ExampleText())
