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
NODES = "nodes: 2\n    devices_per_node: 8"
INTER_NODE = "    inter_node: {bandwidth: 100 Gbps, latency: 5 us}\n"

#: What to replace in BASE, by what, and the error after the file's name: its line, and
#: what contradicts something else. ``tests/readers`` has every single wrong value.
REPLACED = [
    ("nodes: 2", "nodes: 0", "5: clusters.0.nodes: is 0, expected a whole number"),
    (
        "    nodes: 2\n",
        "",
        "3: clusters.0.nodes: is missing, expected the number of no",
    ),
    (INTER_NODE, "", "3: clusters.0.inter_node: is missing, expected one such as"),
    ("nodes: 2", "nodes: 2\n    nodes: 3", "6: clusters.0.nodes: is given twice, fi"),
    (
        "nodes: 2",
        "nodes: [8, 7]",
        "6: clusters.0.devices_per_node: is 8, but nodes lists the devices of each",
    ),
    (
        NODES,
        "nodes: [8, 7]\n    price_per_hour: 20",
        "6: clusters.0.price_per_hour: is the price of one of several equal nodes, but",
    ),
    (
        NODES,
        "nodes: [8, 7]\n    max_tp: 9",
        "6: clusters.0.max_tp: is 9, expected at most the 8 devices of a node",
    ),
    (
        "nodes: 2",
        "nodes: 2\n    group: {size: 2, bandwidth: 1 GB/s}",
        "6: clusters.0.group.bandwidth: is 1 GB/s, slower than the 300 GB/s of intra",
    ),
    (
        NODES,
        "nodes: [8, 7]\n    group: {size: 2, bandwidth: 600 GB/s}",
        "6: clusters.0.group.size: is 2, which does not divide the 7 devices of a node",
    ),
    (
        NODES,
        f"nodes: [{', '.join(['8'] * 10_001)}]",
        "5: clusters.0.nodes: lists 10001 nodes, expected at most 10000",
    ),
    (
        NODES,
        f"nodes: [{', '.join(['8'] * 10**6)}]",
        "5: holds more than 100000 values",
    ),
    ("A100-80GB", "A100", "4: clusters.0.accelerator: is 'A100' (did you mean 'A100-8"),
    (
        "A100-80GB",
        "{like: A100-80GB, preset: A100-80GB}",
        "4: clusters.0.accelerator.like: is given together with preset, expected only",
    ),
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
        "nodes: 2",
        "nodes: 2\n    overhead: 90 GB",
        "6: clusters.0.overhead: is 90000000000 bytes, expected less than the memory",
    ),
    (
        MODEL,
        "{preset: lama-7b}",
        "1: model.preset: is 'lama-7b' (did you mean 'llama-7b",
    ),
    (MODEL, "{layers: 3, hidden: 100, heads: 3}", "1: model.heads: is 3, which does"),
    (MODEL, "{preset: llama-7b, kv_heads: 5}", "1: model.kv_heads: is 5, which does n"),
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
    (SEQ, SEQ + "\n  precision: fp8", "18: training.precision: is 'fp8', which A100-8"),
    (SEQ, SEQ + "\n  emulate: bf16", "18: training.emulate: is 'bf16', expected '"),
    (
        SEQ,
        SEQ + "\n  precision: fp32\n  gradients: bf16",
        "19: training.gradients: is 'bf16' with precision fp32, expected fp32",
    ),
    (
        SEQ,
        f"{SEQ}\n  schedule: h-1f1b\n  warmup_epsilon: 1/20 of it",
        "19: training.warmup_epsilon: is '1/20 of it', expected 1/n with a whole n ",
    ),
    (
        SEQ,
        SEQ + "\n  warmup_epsilon: 0.05",
        "18: training.warmup_epsilon: is 0.05 with schedule virtual-1f1b, expected "
        "schedule h-1f1b, or leave it out",
    ),
]

#: Lines to append to BASE, and the error they make on line 18.
APPENDED = [
    ("pin: {stages: 99}", "pin.stages: is 99, expected at most 24: the model has 32"),
    ("pin: {clusters: {a100: {dp: 17}}}", "pin.clusters.a100.dp: is 17, more than its"),
    ("pin: {clusters: {a100: {tp: 16}}}", "pin.clusters.a100.tp: is 16, more than its"),
    ("pin: {clusters: {a100: {stages: 17}}}", "pin.clusters.a100.stages: is 17, more"),
    ("pin: {units: [33, 1]}", "pin.units.1: is 1, expected more than the head alone"),
    ("pin: {units: [1, 33]}", "pin.units.0: is 1, expected more than the embedding a"),
    ("pin: {units: [20, 14], stages: 3}", "pin.units: lists 2 stages, which pin.stag"),
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
        "latency: {a100: a100-80gb-modelled}",
        "latency.a100: is 'a100-80gb-modelled', a profile that no longer ships",
    ),
    ("latency: {a100: x.csv}", "latency.a100: names 'x.csv', which is not a file"),
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
