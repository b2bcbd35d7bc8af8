"""Times and sizes that exceed what a table may hold."""

from __future__ import annotations

import copy
from dataclasses import replace

import numpy as np
import pytest

from hetopt.cost.build import build_table
from hetopt.cost.ranges import LARGEST_SUM, ensure_sums_fit, nanoseconds
from hetopt.cost.table.ticks import LONGEST_NS, TOO_LONG_NS
from hetopt.cost.table_file.file import table_digest, table_from_json, table_to_json
from hetopt.errors import InputError
from hetopt.problem.quantity import TOO_MANY_BYTES
from hetopt.problem.reading import read_problem_text

TEXT = """\
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: b, accelerator: A40, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: %s, latency: %s}}
training: {global_batch: 4, seq_len: 1024}
"""


def test_the_longest_time_is_exact_and_a_longer_one_is_too_long() -> None:
    seconds = np.array([1e-9, 1e5, 1.1e5, 1e10, 1e300, np.inf])
    assert nanoseconds(seconds).tolist() == [1, LONGEST_NS, *[TOO_LONG_NS] * 4]


@pytest.mark.parametrize(
    ("bandwidth", "latency"),
    [("10 Gbps", "1e10 s"), ("1e-3 bps", "1 ms"), ("1 bps", "1 ms"), ("1 B/s", "0")],
)
def test_a_dead_link_is_too_long_both_ways(bandwidth: str, latency: str) -> None:
    table = build_table(read_problem_text(TEXT % (bandwidth, latency)))
    for part in table.slices:
        home = np.array([layout.cluster for layout in part.layouts])
        across = home[:, None] != home[None, :]
        assert (part.transfer_ns[:, across] == TOO_LONG_NS).all()
        assert (part.occupancy_ns <= part.transfer_ns).all()
        assert (part.transfer_ns[:, ~across] < LONGEST_NS).all()
    again = table_from_json(table_to_json(table))
    assert table_digest(again) == table_digest(table)


def test_a_slow_link_keeps_its_time() -> None:
    table = build_table(read_problem_text(TEXT % ("1 Mbps", "1 s")))
    slowest = max(int(part.transfer_ns.max()) for part in table.slices)
    assert 10**9 < slowest < LONGEST_NS


@pytest.mark.parametrize(
    ("place", "value", "most"),
    [
        (("forward_ns", "head"), TOO_LONG_NS + 1, TOO_LONG_NS),
        (("sync_ns",), 10**16, TOO_LONG_NS),
        (("activation_bytes", "head"), 10**16, TOO_MANY_BYTES),
        (("fixed_bytes",), TOO_MANY_BYTES + 1, TOO_MANY_BYTES),
    ],
)
def test_a_table_with_larger_numbers_is_refused(
    place: tuple[str, ...], value: int, most: int
) -> None:
    table = build_table(read_problem_text(TEXT % ("10 Gbps", "1 ms")))
    data = copy.deepcopy(table_to_json(table))
    entry = data["slices"][0]["clusters"][0]["strategies"][0]
    *path, last = place
    for key in path:
        entry = entry[key]
    entry[last] = value
    field = f"slices.0.clusters.0.strategies.0.{'.'.join(place)}"
    message = f"t.json: {field}: is {value}, expected at most {most}"
    with pytest.raises(InputError, match=message):
        table_from_json(data, file="t.json")


def test_a_table_whose_sums_exceed_64_bits_is_refused() -> None:
    table = build_table(read_problem_text(TEXT % ("10 Gbps", "1 ms")))
    ensure_sums_fit(table)
    last = table.slices[-1]
    own = last.clusters[0]
    large = np.full_like(own.activation_bytes, TOO_MANY_BYTES)
    in_flight = LARGEST_SUM // TOO_MANY_BYTES
    part = replace(
        last,
        microbatches=in_flight,
        clusters=(replace(own, activation_bytes=large), *last.clusters[1:]),
    )
    gpipe = replace(table, slices=(part,), schedule="gpipe")
    with pytest.raises(
        InputError, match=r"t\.json: slices\.0\.clusters\.0: .* 2\*\*62"
    ):
        ensure_sums_fit(gpipe, "t.json")
    # Fewer micro-batches are in flight here.
    ensure_sums_fit(replace(gpipe, schedule="1f1b"))


@pytest.mark.parametrize("memory", ["1e16 B", "1 PB", "1e20 B", "1e30 B"])
def test_memory_that_no_device_has_is_refused(memory: str) -> None:
    text = (TEXT % ("10 Gbps", "1 ms")).replace(
        "nodes: 1, devices_per_node: 2,",
        f"nodes: 1, devices_per_node: 2, memory: {memory},",
        1,
    )
    with pytest.raises(InputError, match=r":3: clusters\.0\.memory: .* less than 1 PB"):
        read_problem_text(text)
