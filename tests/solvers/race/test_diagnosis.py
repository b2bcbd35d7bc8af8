"""Why there is no plan, and how long finding out may take."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import yaml

import hetopt
from hetopt.formulations.chain import Chain
from hetopt.formulations.restricting import restrict
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
  - {name: b, accelerator: A10, nodes: 1, devices_per_node: 1, memory: 0.01 GB,
     overhead: 0 GB, inter_node: {bandwidth: 10 Gbps}}
links: {default: {bandwidth: 5 Gbps, latency: 1 ms}}
pin: {cuts: [2, 5, 7, 9]}
training: {global_batch: 4, seq_len: 2048, schedule: interleaved-1f1b, chunks: 2,
  recompute: none}
"""


def test_pinned_cuts_stay_where_other_pins_are_left_out() -> None:
    # Seven layers are not two equal chunks.
    for size, said in (
        ("0.01", "memory: one unit on a at any allowed strategy needs at least 0.0"),
        ("0.1", "pin.cuts: no permitted clusters have the memory and the links"),
    ):
        found = plan(LAYOUT % size)
        assert str(found.reason).startswith(said)
    problem = read_problem_text(LAYOUT % "20")
    found = plan(LAYOUT % "20")
    assert (found.status, found.table is not None) == ("optimal", True)
    assert found.table is not None
    (why,) = unusable(problem, found.table)
    assert why.startswith("memory: one unit on b")


CRAMPED = """
model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, gated: false, vocab: 1000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 2, devices_per_node: 1, overhead: 0 GB,
     memory: 1.252859904 GB, inter_node: {bandwidth: 100 Gbps}}
training: {global_batch: 16, seq_len: 4096, recompute: none, zero: 0,
           schedule: interleaved-1f1b, chunks: 2}
pin: {cuts: [%s], microbatches: 16, clusters: {a: {dp: 1, cp: 1, tp: 1}}}
"""


def test_stages_that_fit_nowhere_are_the_pinned_ones() -> None:
    assert plan(CRAMPED % "2, 3, 4, 6").best is not None
    result = plan(CRAMPED % "3, 4, 5, 6")
    assert result.status == "infeasible"
    assert str(result.reason).startswith("pin.cuts: no permitted clusters have the mem")


LEAN = """
model: {layers: 4, hidden: 256, heads: 4, ffn: 2048, vocab: 200000}
clusters:
  - {name: a, accelerator: A40, nodes: 2, devices_per_node: 1, overhead: 0 GB,
     memory: 1.075418624 GB, inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A100-80GB, nodes: 1, devices_per_node: 2, overhead: 0 GB,
     memory: 0.667090431 GB, inter_node: {bandwidth: 100 Gbps}}
  - {name: c, accelerator: H100, nodes: 1, devices_per_node: 1, overhead: 0 GB,
     memory: 0.1945856 GB, inter_node: {bandwidth: 10 Gbps}}
links: {default: {bandwidth: unlimited, latency: 1 ms}}
training: {global_batch: 8, seq_len: 512, recompute: none, zero: 0, schedule: %s}
pin: {clusters: {a: {cp: 1}, b: {cp: 1}, c: {cp: 1}}}
"""


@pytest.mark.parametrize(
    ("schedule", "rises", "leaner"),
    [
        ("1f1b", True, False),
        ("eager-1f1b", True, True),
        ("gpipe", False, True),
        ("v-min", False, False),
    ],
)
def test_only_what_needs_less_memory_is_named(
    schedule: str, rises: bool, leaner: bool
) -> None:
    result = plan(LEAN % schedule)
    assert result.status == "infeasible"
    said = str(result.reason)
    assert said.startswith("memory: no order of clusters and split of layers fits")
    assert ("as earlier stages keep more" in said) == rises
    assert ("schedule 1f1b" in said) == leaner


def test_rows_that_a_launcher_leaves_out_lack_no_memory() -> None:
    problem = read_problem_text(LEAN % "1f1b")
    table = hetopt.build_table(problem)
    none = [np.zeros(0, dtype=np.int64)] * len(problem.clusters)
    slices = tuple(restrict(part, none) for part in table.slices)
    found = list(unusable(problem, replace(table, slices=slices)))
    said = "the launcher permits none of the strategies that fit its memory"
    assert found[0] == f"a: {said}"
