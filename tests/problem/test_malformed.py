"""Whatever a user writes wrong: one line with file, line, field and expectation."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetopt.errors import InputError
from hetopt.problem.reading import read_problem, read_problem_text

BASE = """\
model: {preset: llama-7b}
clusters:
  - name: a100
    accelerator: A100-80GB
    nodes: 2
    devices_per_node: 8
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
  - name: h20
    accelerator: H20-96GB
    nodes: 1
    devices_per_node: 8
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
links:
  default: {bandwidth: 10 Gbps, latency: 1 ms, staged: host}
training:
  global_batch: 64
  seq_len: 4096
"""

MODEL = "{preset: llama-7b}"
LINK = "default: {bandwidth: 10 Gbps, latency: 1 ms, staged: host}"
SEQ = "seq_len: 4096"

#: What to replace in BASE, by what, and the error after the file's name.
REPLACED = [
    ("nodes: 2", "nodes: 0", "5: clusters.0.nodes: is 0, expected a whole number"),
    ("nodes: 2", "nodes: two", "5: clusters.0.nodes: is 'two', expected a whole"),
    ("nodes: 2", "nodes: 2.5", "5: clusters.0.nodes: is 2.5, expected a whole"),
    ("nodes: 2", "nodes: true", "5: clusters.0.nodes: is true, expected a whole"),
    ("nodes: 2", "nodes:", "5: clusters.0.nodes: is empty, expected a whole"),
    (
        "nodes: 2",
        "nodes: [8, 7]",
        "6: clusters.0.devices_per_node: is 8, but nodes lists the devices of each",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        "nodes: []",
        "5: clusters.0.nodes: is an empty list, expected the devices of each node",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        "nodes: [8, 0]",
        "5: clusters.0.nodes.1: is 0, expected a whole number of at least 1",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        "nodes: [8, 7.5]",
        "5: clusters.0.nodes.1: is 7.5, expected a whole number",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        "nodes: [8, [7]]",
        "5: clusters.0.nodes.1: is a list, expected a whole number",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        "nodes: 2",
        "3: clusters.0.devices_per_node: is missing, expected the number of devices",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        "nodes: [8, 7]\n    hosts: [a, b, c]",
        "6: clusters.0.hosts: names 3, expected one host for each of the 2 nodes",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        "nodes: [8, 7]\n    price_per_hour: 20",
        "6: clusters.0.price_per_hour: is the price of one of several equal nodes, but",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        "nodes: [8, 7]\n    max_tp: 9",
        "6: clusters.0.max_tp: is 9, expected at most the 8 devices of a node",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        "nodes: [8, 7]\n    group: {size: 2, bandwidth: 600 GB/s}",
        "6: clusters.0.group.size: is 2, which does not divide the 7 devices of a node",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        f"nodes: [{', '.join(['8'] * 10_001)}]",
        "5: clusters.0.nodes: lists 10001 nodes, expected at most 10000",
    ),
    (
        "nodes: 2\n    devices_per_node: 8",
        f"nodes: [{', '.join(['8'] * 10**6)}]",
        "5: holds more than 100000 values",
    ),
    (
        "nodes: 2",
        "nodes: 2\n    uplink: 0 Gbps",
        "6: clusters.0.uplink: is '0 Gbps', expected more than 0",
    ),
    (
        "nodes: 2",
        "nodes: 2\n    uplink: fast",
        "6: clusters.0.uplink: is 'fast', expected a bandwidth",
    ),
    *(
        (
            "nodes: 2",
            f"nodes: 2\n    offload: {written}",
            f"6: clusters.0.offload: is {told}, expected 'optimizer'",
        )
        for written, told in (
            ("weights", "'weights'"),
            ("true", "true"),
            ("[optimizer]", "a list"),
            ("Optimizer", "'Optimizer'"),
        )
    ),
    (
        "nodes: 2",
        "nodes: 2\n    host_memory_bandwidth: 0 GB/s",
        "6: clusters.0.host_memory_bandwidth: is '0 GB/s', expected more than 0",
    ),
    *(
        (
            "nodes: 2",
            f"nodes: 2\n    price_per_hour: {written}",
            f"6: clusters.0.price_per_hour: is {told}, expected a number from 0 to "
            "1e+09, without a currency",
        )
        for written, told in (
            ("-1", "-1"),
            ("$32", "'$32'"),
            ("1e10", "10000000000.0"),
            (".inf", "inf"),
            (".nan", "nan"),
            ("true", "true"),
            ("[1, 2]", "a list"),
        )
    ),
    ("nodes: 2", "nodes: 99999999999", "5: clusters.0.nodes: is 99999999999, expec"),
    (
        "nodes: 2",
        "node: 2",
        "5: clusters.0.node: is not a known field (did you mean 'n",
    ),
    (
        "    nodes: 2\n",
        "",
        "3: clusters.0.nodes: is missing, expected the number of no",
    ),
    ("nodes: 2", "nodes: 2\n    nodes: 3", "6: clusters.0.nodes: is given twice, fi"),
    ("A100-80GB", "A100-80G", "4: clusters.0.accelerator: is 'A100-80G' (did you mean"),
    ("A100-80GB", "A100", "4: clusters.0.accelerator: is 'A100' (did you mean 'A100-8"),
    ("A100-80GB", "[A100]", "4: clusters.0.accelerator: is a list, expected a mapping"),
    ("A100-80GB", "{name: x}", "4: clusters.0.accelerator.peak_flops: is missing"),
    (
        "A100-80GB",
        "{like: A100}",
        "4: clusters.0.accelerator.like: is 'A100' (did you mean 'A100-8",
    ),
    (
        "A100-80GB",
        "{like: A100-80GB, preset: A100-80GB}",
        "4: clusters.0.accelerator.like: is given together with preset, expected only",
    ),
    ("A100-80GB", "{like: 3.5}", "4: clusters.0.accelerator.like: is 3.5, expected a"),
    (
        "A100-80GB",
        "{name: x, peak_flops: 1 TFLOPS}",
        "4: clusters.0.accelerator.memory: is missing, expected it, or like: a device",
    ),
    (
        "A100-80GB",
        "{preset: A100-80GB, memory: 80}",
        "4: clusters.0.accelerator.memory",
    ),
    (
        "nodes: 2",
        "nodes: 2\n    hosts: [a]",
        "6: clusters.0.hosts: names 1, expected one host for each of the 2 nodes",
    ),
    ("nodes: 2", "nodes: 2\n    hosts: a", "6: clusters.0.hosts: is 'a', expected a"),
    (
        "nodes: 2",
        "nodes: 2\n    hosts: [a, a]",
        "6: clusters.0.hosts.1: is 'a' a second time, first in cluster 'a100'",
    ),
    (
        "nodes: 1",
        "nodes: 1\n    hosts: [b; reboot]",
        "11: clusters.1.hosts.0: is 'b; reboot', expected a host name or address",
    ),
    (
        "devices_per_node: 8",
        "devices_per_node: 8\n    max_tp: 16",
        "7: clusters.0.max_",
    ),
    (
        "devices_per_node: 8",
        "devices_per_node: 8\n    group: {size: 3, bandwidth: 1 GB/s}",
        "7: clusters.0.group.size: is 3, which does not divide the 8 devices of a node",
    ),
    (
        "devices_per_node: 8",
        "devices_per_node: 8\n    group: {size: 2}",
        "7: clusters.0.group.bandwidth: is missing, expected one such as",
    ),
    ("100 Gbps", "100", "7: clusters.0.inter_node.bandwidth: is 100 without a unit"),
    ("100 Gbps", "100 GB", "7: clusters.0.inter_node.bandwidth: is '100 GB', which is"),
    ("100 Gbps", "100 gbps", "7: clusters.0.inter_node.bandwidth: is '100 gbps' with"),
    ("100 Gbps", "-1 Gbps", "7: clusters.0.inter_node.bandwidth: is '-1 Gbps', expec"),
    ("100 Gbps", "0 Gbps", "7: clusters.0.inter_node.bandwidth: is '0 Gbps', expecte"),
    ("latency: 5 us", "latency: 5", "7: clusters.0.inter_node.latency: is 5 without"),
    (
        "latency: 5 us",
        "latency: 5 GB",
        "7: clusters.0.inter_node.latency: is '5 GB', w",
    ),
    (
        "    inter_node: {bandwidth: 100 Gbps, latency: 5 us}\n",
        "",
        "3: clusters.0.inter_node: is missing, expected one such as",
    ),
    (
        "name: h20",
        "name: a100",
        "8: clusters.1.name: is 'a100' a second time, expected",
    ),
    ("name: h20", "name: ''", "8: clusters.1.name: is '', expected a name"),
    (
        MODEL,
        "{preset: lama-7b}",
        "1: model.preset: is 'lama-7b' (did you mean 'llama-7b",
    ),
    (MODEL, "gpt5", "1: model.preset: is 'gpt5'"),
    (MODEL, "3", "1: model: is 3, expected a mapping with preset"),
    (MODEL, "{layers: 3}", "1: model.hidden: is missing, expected it, or a preset"),
    (MODEL, "{layers: 3, hidden: 100, heads: 3}", "1: model.heads: is 3, which does"),
    (MODEL, "{preset: llama-7b, kv_heads: 5}", "1: model.kv_heads: is 5, which does n"),
    (MODEL, "{preset: llama-7b, gated: 1}", "1: model.gated: is 1, expected true or f"),
    (MODEL, "{preset: llama-7b, granularity: x}", "1: model.granularity: is 'x', expe"),
    (
        MODEL,
        "{preset: llama-7b, hf_config: c}",
        "1: model.hf_config: is given together with",
    ),
    (MODEL, "{hf_config: no.json}", "1: model.hf_config: names 'no.json', which is no"),
    (MODEL, "no.yaml", "1: model: names 'no.yaml', which is not a file"),
    (MODEL, "{file: 3}", "1: model.file: is 3, expected a path"),
    (
        MODEL,
        "{file: a.yaml, preset: x}",
        "1: model.file: is given together with other fields",
    ),
    (MODEL, '{preset: "a\\eb"}', "1: model.preset: contains characters that cannot"),
    ("links:\n  " + LINK, "", "1: links: is missing, expected the network between the"),
    (
        "links:\n  " + LINK,
        "links: {}",
        "13: links.default: is missing, expected the ne",
    ),
    ("staged: host", "staged: gpu", "14: links.default.staged: is 'gpu', expected one"),
    ("latency: 1 ms, ", "", "14: links.default.latency: is missing, expected one such"),
    (LINK, "pairs: {}", "14: links.pairs: is a mapping, expected a list of links"),
    (
        LINK,
        "pairs: [{between: [a100, b], bandwidth: 1 Gbps, latency: 1 us}]",
        "14: links.pairs.0.between.1: is 'b', expected a cluster of this problem: a10",
    ),
    (
        LINK,
        LINK + "\n  pairs:\n  - between: [a100]",
        "16: links.pairs.0.between: names 1 cluster, expected two such as",
    ),
    (
        LINK,
        LINK + "\n  pairs: [{between: [a100, a100]}]",
        "15: links.pairs.0.between: names 'a100' twice, expected two clusters",
    ),
    (
        LINK,
        LINK + "\n  pairs: [{between: [a100, h20]}, {between: [h20, a100]}]",
        "15: links.pairs.1.between: gives h20 and a100 a second time",
    ),
    (
        "global_batch: 64",
        "global_batch: 2M",
        "16: training.global_batch: is '2M', expe",
    ),
    (
        "global_batch: 64",
        "global_batch: 9 tokens",
        "16: training.global_batch: is '9 t",
    ),
    ("global_batch: 64", "global_batch: 0", "16: training.global_batch: is 0, expecte"),
    (
        "  global_batch: 64\n",
        "",
        "15: training.global_batch: is missing, expected the s",
    ),
    (SEQ, SEQ + "\n  zero: 4", "18: training.zero: is 4, expected one of 0, 1, 2, 3"),
    (
        SEQ,
        SEQ + "\n  overlap_gradients: 1",
        "18: training.overlap_gradients: is 1, expected true or false",
    ),
    (SEQ, SEQ + "\n  zero: true", "18: training.zero: is true, expected one of 0, 1"),
    (
        SEQ,
        SEQ + "\n  schedule: 1f1",
        "18: training.schedule: is '1f1' (did you mean '1",
    ),
    (SEQ, SEQ + "\n  precision: int8", "18: training.precision: is 'int8', expected o"),
    (SEQ, SEQ + "\n  precision: fp8", "18: training.precision: is 'fp8', which A100-8"),
    (SEQ, SEQ + "\n  emulate: bf16", "18: training.emulate: is 'bf16', expected '"),
    (SEQ, SEQ + "\n  attention: flash", "18: training.attention: is 'flash', expecte"),
    (SEQ, SEQ + "\n  cross_entropy: 1", "18: training.cross_entropy: is 1, expected "),
    (SEQ, SEQ + "\n  gradients: fp16", "18: training.gradients: is 'fp16' (did you m"),
    (
        SEQ,
        SEQ + "\n  precision: fp32\n  gradients: bf16",
        "19: training.gradients: is 'bf16' with precision fp32, expected fp32",
    ),
    (
        SEQ,
        SEQ + "\n  sequence_parallel: 1",
        "18: training.sequence_parallel: is 1, expected true or false",
    ),
    (
        "nodes: 2",
        "nodes: 2\n    overhead: 90 GB",
        "6: clusters.0.overhead: is 90000000000 bytes, expected less than the memory",
    ),
    (
        "nodes: 2",
        "nodes: 2\n    overhead: 3",
        "6: clusters.0.overhead: is 3 without a unit, expected a memory size",
    ),
    *(
        (
            SEQ,
            f"{SEQ}\n  schedule: h-1f1b\n  warmup_epsilon: {value}",
            f"19: training.warmup_epsilon: is {shown}, expected 1/n with a whole n "
            "from 3 to 1000, such as 0.05 or 1/30",
        )
        for value, shown in (
            ("0.03", "0.03"),
            ("0.5", "0.5"),
            ("1/2", "'1/2'"),
            ("0", "0"),
            ("-0.05", "-0.05"),
            (".nan", "nan"),
            ("0.0005", "0.0005"),
            ("1/20 of it", "'1/20 of it'"),
            ("true", "true"),
            ("[0.05]", "a list"),
        )
    ),
    (
        SEQ,
        SEQ + "\n  warmup_epsilon: 0.05",
        "18: training.warmup_epsilon: is 0.05 with schedule virtual-1f1b, expected "
        "schedule h-1f1b, or leave it out",
    ),
    (
        SEQ,
        SEQ + "\n  warmup_epsilom: 0.05",
        "18: training.warmup_epsilom: is not a known field (did you mean 'warmup_eps",
    ),
    (SEQ, SEQ + "\n  reserve: 1.5", "18: training.reserve: is 1.5, expected a fracti"),
    (SEQ, SEQ + "\n  reserve: six%", "18: training.reserve: is 'six%', expected a fra"),
    (SEQ, SEQ + "\n  recompute: some", "18: training.recompute: is 'some', expected o"),
    (SEQ, SEQ + "\n  recompute: []", "18: training.recompute: is an empty list, expec"),
    (SEQ, SEQ + "\n  recompute: {a10: full}", "18: training.recompute.a10: is 'a10' ("),
    (
        SEQ,
        SEQ + "\n  recompute:\n    a100: [full, no]",
        "19: training.recompute.a100.1: is 'no' (did you mean 'none'?), expected one",
    ),
    (
        "clusters:",
        "cluster:",
        "2: cluster: is not a known field (did you mean 'clusters",
    ),
]

#: Lines to append to BASE, and the error they make on line 18.
APPENDED = [
    ("pin: 3", "pin: is 3, expected a mapping with stages"),
    ("pin: {stage: 3}", "pin.stage: is not a known field (did you mean 'stages'?)"),
    ("pin: {stages: 0}", "pin.stages: is 0, expected a whole number of at least 1"),
    ("pin: {stages: 99}", "pin.stages: is 99, expected at most 24: the model has 32"),
    ("pin: {stages: []}", "pin.stages: is an empty list, expected at least one value"),
    ("pin: {stages: [2, 2]}", "pin.stages.1: is 2 a second time"),
    ("pin: {microbatches: 7}", "pin.microbatches: is 7, expected a divisor of the glo"),
    ("pin: {microbatches: [8, 7]}", "pin.microbatches: is 7, expected a divisor of"),
    ("pin: {order: [a100, b]}", "pin.order.1: is 'b', expected a cluster of this pro"),
    ("pin: {order: [h20, h20]}", "pin.order.1: is 'h20' a second time; a cluster's"),
    ("pin: {order: a100}", "pin.order: is 'a100', expected a list"),
    ("pin: {order: []}", "pin.order: is an empty list, expected cluster names"),
    ("pin: {clusters: {x: {dp: 1}}}", "pin.clusters.x: is 'x', expected a cluster"),
    ("pin: {clusters: [a100]}", "pin.clusters: is a list, expected a mapping from"),
    ("pin: {clusters: {a100: 3}}", "pin.clusters.a100: is 3, expected a mapping with"),
    ("pin: {clusters: {a100: {dp: 17}}}", "pin.clusters.a100.dp: is 17, more than its"),
    ("pin: {clusters: {a100: {tp: 16}}}", "pin.clusters.a100.tp: is 16, more than its"),
    ("pin: {clusters: {a100: {stages: 17}}}", "pin.clusters.a100.stages: is 17, more"),
    ("pin: {clusters: {a100: {recompute: x}}}", "pin.clusters.a100.recompute: is 'x'"),
    ("pin: {units: 3}", "pin.units: is 3, expected a list"),
    ("pin: {units: [3, 3]}", "pin.units: sums to 6, expected the model's 34 units"),
    ("pin: {units: [33, 1]}", "pin.units.1: is 1, expected more than the head alone"),
    ("pin: {units: [1, 33]}", "pin.units.0: is 1, expected more than the embedding a"),
    ("pin: {units: [20, 14], stages: 3}", "pin.units: lists 2 stages, which pin.stag"),
    ("pin: {resharding: leeder}", "pin.resharding: is 'leeder' (did you mean 'leader'"),
    ("pin: {forbid: {next: [[a100]]}}", "pin.forbid.next.0: names 1 cluster, expect"),
    ("pin: {forbid: {next: [a100]}}", "pin.forbid.next.0: is 'a100', expected a list"),
    ("pin: {forbid: {next: [[a100, x]]}}", "pin.forbid.next.0.1: is 'x', expected a c"),
    ("pin: {forbid: {clusters: {x: {}}}}", "pin.forbid.clusters.x: is 'x', expected a"),
    ("pin: {stages: 2, forbid: {stages: [2, 3]}}", "pin.forbid.stages: forbids all"),
    (
        "pin: {stages: 5, clusters: {a100: {stages: 2}, h20: {stages: 2}}}",
        "pin.clusters: pins 4 stages in all, but 5 are pinned overall",
    ),
    (
        "pin: {clusters: {a100: {units: 2}, h20: {units: 30}}, units: [17, 17]}",
        "pin.clusters: pins 32 units in all, but 34 are pinned overall",
    ),
    (
        "pin: {order: [h20], clusters: {a100: {stages: 2}}}",
        "pin.clusters.a100.stages: needs cluster 'a100', which pin.order leaves out",
    ),
    (
        "pin: {order: [h20], clusters: {h20: {stages: 0}}}",
        "pin.clusters.h20.stages: is 0, but pin.order uses cluster 'h20'",
    ),
    ("latency: {a100: magic}", "latency.a100: is 'magic', expected the path of a .csv"),
    (
        "latency: {a100: a100-80gb-modelled}",
        "latency.a100: is 'a100-80gb-modelled', a profile that no longer ships",
    ),
    ("latency: {a100: rofline}", "latency.a100: is 'rofline' (did you mean 'roofline'"),
    ("latency: {a100: x.csv}", "latency.a100: names 'x.csv', which is not a file"),
    (
        "latency: {a100: 3}",
        "latency.a100: is 3, expected auto, operators, roofline, or a p",
    ),
    ("latency: {a10: auto}", "latency.a10: is 'a10' (did you mean 'a100'?), expected"),
    ("latency: auto", "latency: is 'auto', expected a mapping such as {a100: auto}"),
    ("lengths: {4096: 1}", "lengths: is not a known field (did you mean 'training.len"),
    ("lenghts: {4096: 1}", "lenghts: is not a known field (did you mean 'training.len"),
    ("layers: 3", "layers: is not a known field (did you mean 'model.layers'?), exp"),
    ("tp: 2", "tp: is not a known field (did you mean 'pin.clusters.NAME.tp'?), exp"),
    ("bandwidth: 1 Gbps", "bandwidth: is not a known field (did you mean 'clusters[]."),
    (
        "pin: {schedule: 1f1b}",
        "pin.schedule: is not a known field (did you mean 'training.schedule'?)",
    ),
    (
        "pin: {latency: auto}",
        "pin.latency: is not a known field (did you mean 'latency' at the top level?)",
    ),
    (
        "pin: {forbid: {order: [a100]}}",
        "pin.forbid.order: is not a known field (did you mean 'pin.order'?), expected",
    ),
    ("extra: 1", "extra: is not a known field, expected one of name, model"),
    ("1: 2", "1: is not a known field"),
    ('"a\\nb": 2', "'a\\nb': is not a known field"),
    ("model: 3", "model: is given twice, first on line 1"),
    ("<<: {a: 1}", "<<: merge keys (<<) are not supported"),
    ("? [1]\n: 2", "has a key that is not text"),
    ("x: !!python/name:os.system 1", "x: has the tag 'tag:yaml.org,2002:python/name"),
    ("x: !mine 1", "x: has the tag '!mine', expected none"),
    ("x: &a [*a]", "x.0: contains itself through an alias"),
    ("\tx: 3", "is not valid YAML: while scanning"),
]

WHOLE = [
    ("", ":1: is empty, expected a YAML mapping"),
    ("# nothing\n", ":1: is empty, expected a YAML mapping"),
    ("3", ":1: is 3, expected a mapping with model, clusters"),
    ("[]", ":1: is a list, expected a mapping with model, clusters"),
    ("{}", ":1: model: is missing, expected a preset, a Hugging Face config.json or"),
    ("model: llama-7b", ":1: clusters: is missing, expected a list of clusters"),
    ("a: [1, 2", "is not valid YAML: while parsing a flow sequence"),
    ("--- 1\n--- 2\n", ":2: is not valid YAML: expected a single document"),
    ("[" * 3000, ": is nested too deeply to be a problem"),
    ("\x00", ": is not valid YAML: unacceptable character"),
]


def complaint(text: str) -> str:
    with pytest.raises(InputError) as caught:
        read_problem_text(text, "p.yaml")
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_the_base_is_right() -> None:
    assert read_problem_text(BASE, "p.yaml").name == "p"


@pytest.mark.parametrize(("old", "new", "said"), REPLACED)
def test_replaced(old: str, new: str, said: str) -> None:
    assert old in BASE
    assert complaint(BASE.replace(old, new, 1)).startswith(f"p.yaml:{said}")


@pytest.mark.parametrize(("line", "said"), APPENDED)
def test_appended(line: str, said: str) -> None:
    assert complaint(f"{BASE}{line}\n").startswith(f"p.yaml:18: {said}")


@pytest.mark.parametrize(("text", "said"), WHOLE)
def test_whole(text: str, said: str) -> None:
    assert said in complaint(text)


def test_the_first_error_counts_the_others() -> None:
    text = BASE.replace("nodes: 2", "nodes: 0").replace("seq_len: 4096", "seq_len: no")
    assert complaint(text) == (
        "p.yaml:5: clusters.0.nodes: is 0, expected a whole number of at least 1 "
        "(and 1 more)"
    )


def test_aliases_cannot_make_a_short_file_endless() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for level in range(1, 9):
        items = ", ".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{items}]")
    assert "more than 100000 values" in complaint("\n".join(lines))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "none.yaml"
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"model: x\nname: \xff\n")
    for path, said in (
        (missing, f"{missing}: no such file"),
        (tmp_path, f"{tmp_path}: is a directory, expected a YAML file"),
        (binary, f"{binary}:2: byte 0xff is not UTF-8 text, expected a YAML file"),
        ("a\0b", "a\0b: no such file"),
    ):
        with pytest.raises(InputError) as caught:
            read_problem(path)
        assert str(caught.value).startswith(said)


@given(st.data())
def test_any_damage_is_an_input_error_or_harmless(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(BASE)))
    end = data.draw(st.integers(start, min(len(BASE), start + 12)))
    new = data.draw(st.text(alphabet="ab0-:[]{}, \n\"'&*!%#|>?\\\t", max_size=6))
    message = "p.yaml"
    try:
        read_problem_text(BASE[:start] + new + BASE[end:], "p.yaml")
    except InputError as error:
        message = str(error)
    assert message.startswith("p.yaml")
    assert message.isprintable()
