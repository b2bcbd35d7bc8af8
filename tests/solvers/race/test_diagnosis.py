"""Why there is no plan, and how long finding out may take."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import yaml

import hetopt
from hetopt.formulations.chain import Chain
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.race.diagnosis import unusable, why_infeasible
from tests.fuzz.generator import make_case

APART = """
name: apart
model: {layers: 4, hidden: 256, heads: 4, kv_heads: 4, ffn: 1024, vocab: 512, tied: %s}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
  - {name: c, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
links:
  default: {bandwidth: 800 Gbps, latency: 1 us, staged: device}
  pairs: [{between: [a, c], bandwidth: none}]
training: {global_batch: 16, seq_len: 4096}
pin: {clusters: {a: {stages: 1}, b: {stages: %s}, c: {stages: 1}}}
"""


def plan(text: str) -> hetopt.Result:
    return hetopt.plan(read_problem_text(text), jobs=1)


def test_clusters_without_a_link_are_never_neighbours() -> None:
    found = plan(APART % ("false", "1"))
    assert found.best is not None
    clusters = [stage.cluster for stage in found.best.plan.pipeline.stages]
    assert clusters in (["a", "b", "c"], ["c", "b", "a"])


def test_nor_do_they_hold_a_tied_embedding() -> None:
    found = plan(APART % ("true", "1"))
    assert found.status == "infeasible"


def test_missing_links_are_named() -> None:
    found = plan(APART % ("false", "0"))
    assert found.status == "infeasible"
    assert found.reason == (
        "links: no order of clusters along existing links fits; there is no link "
        "between a and c"
    )


def test_five_thousand_layers_are_given_up() -> None:
    """Fuzz seed 80: bounds by 5,000 stage counts took minutes to say why."""
    problem = read_problem_text(yaml.safe_dump(make_case(80).problem))
    table = hetopt.build_table(problem)
    began = time.thread_time()
    assert "takes too long" in why_infeasible(problem, table)
    assert time.thread_time() - began < 6


@pytest.mark.parametrize("granularity", ["layer", "block"])
def test_runs_of_units_by_kind(granularity: str) -> None:
    text = APART % (f"false, granularity: {granularity}", "1")
    chain = Chain.of(hetopt.build_table(read_problem_text(text)))
    cost = np.arange(1, len(chain.lead) + 1) ** 2
    of_body = [int(cost[kind]) for kind in chain.body]
    least = [
        min(sum(of_body[i : i + n]) for i in range(chain.length + 1 - n))
        for n in range(chain.length + 1)
    ]
    assert chain.shortest(cost).tolist() == least


ONE = """
model: {layers: 6, hidden: 1024, heads: 8, vocab: 1000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 4,
     inter_node: {bandwidth: 100 Gbps}}
training: {global_batch: 4, seq_len: 2048, schedule: zb-v}
pin: {%s}
"""


@pytest.mark.parametrize(
    ("pins", "said"),
    [
        ("stages: 2, microbatches: 2", "zb-v needs more micro-batches than stages"),
        (
            "stages: 4",
            "is between 1 and 3: the transformer layers are 3 pairs, and the clusters "
            "have 4 devices",
        ),
    ],
)
def test_folded_pipelines_have_limits_of_their_own(pins: str, said: str) -> None:
    result = plan(ONE % pins)
    assert result.status == "infeasible"
    assert said in str(result.reason)


@pytest.mark.parametrize(
    ("chunks", "changed", "pins", "said"),
    [
        (
            2,
            ("devices_per_node: 4", "devices_per_node: 1"),
            "",
            "clusters: there is 1 ",
        ),
        (6, ("", ""), "", "training.chunks: is 6, so a chunk has 1 unit between"),
        (
            2,
            ("", ""),
            "stages: 4",
            "pin.stages: no permitted number of stages is between 2 and 3: a chunk's "
            "transformer layers are 3 units, and the clusters have 4 devices",
        ),
        (
            2,
            ("global_batch: 4", "global_batch: 1"),
            "",
            "training.chunks: is 2, so the number of micro-batches must be a multiple ",
        ),
        (
            2,
            ("A100-80GB,", "A100-80GB, memory: 2 GB,"),
            "",
            "memory: all clusters together hold at most 2 of the 3 body units of each "
            "of 2 chunks (a 2); more memory or devices or a higher ZeRO stage ",
        ),
        (
            2,
            ("A100-80GB,", "A100-80GB, memory: 1.7 GB,"),
            "",
            "memory: one layer of each of 2 chunks on a at any allowed strategy needs",
        ),
    ],
)
def test_chunks_have_reasons_of_their_own(
    chunks: int, changed: tuple[str, str], pins: str, said: str
) -> None:
    text = ONE.replace("zb-v", f"interleaved-1f1b, chunks: {chunks}")
    result = plan((text % pins).replace(*changed))
    assert result.status == "infeasible"
    assert str(result.reason).startswith(said)


def test_pairs_are_counted_as_pairs() -> None:
    tight = ONE.replace("A100-80GB,", "A100-80GB, memory: 2 GB,")
    reason = plan(tight % "").reason
    assert "2 of the model's 3 pairs of body units (a 2)" in str(reason)


def test_pinned_units_of_another_schedule_are_in_the_way() -> None:
    problem = read_problem_text(ONE % "units: [3, 1]")
    training = problem.training.under("1f1b")
    found = hetopt.plan(replace(problem, training=training), jobs=1)
    assert str(found.reason).startswith("pin.units: sums to 4, expected the model's 8")


LAYOUT = """
model: {layers: 7, hidden: 1024, heads: 8, ffn: 4096, vocab: 1000, gated: true}
clusters:
  - {name: a, accelerator: L4, nodes: 2, devices_per_node: 1, memory: %s GB,
     overhead: 0 GB, inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A10, nodes: 1, devices_per_node: 1, memory: 0.1 GB,
     overhead: 0 GB, inter_node: {bandwidth: 10 Gbps}}
links: {default: {bandwidth: 5 Gbps, latency: 1 ms}}
pin: {cuts: [2, 5, 7, 9]}
training: {global_batch: 4, seq_len: 2048, schedule: interleaved-1f1b, chunks: 2,
  recompute: none}
"""


def test_pinned_cuts_stay_where_other_pins_are_left_out() -> None:
    # Seven layers are not two equal chunks.
    found = plan(LAYOUT % "0.1")
    assert found.reason is not None
    assert found.reason.startswith("memory: one layer of each of 2 chunks on a")
    problem = read_problem_text(LAYOUT % "20")
    found = plan(LAYOUT % "20")
    assert (found.status, found.table is not None) == ("optimal", True)
    assert found.table is not None
    (why,) = unusable(problem, found.table)
    assert why.startswith("memory: one layer of each of 2 chunks on b")
