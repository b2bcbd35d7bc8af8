"""Pins that no strategy of their cluster satisfies are errors that say what would."""

from __future__ import annotations

import pytest

from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.race.diagnosis import unusable, why_infeasible, without_strategy

PROBLEM = """\
model: {preset: llama-7b}
clusters:
  - &c {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 8, inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A100-80GB, nodes: 1, devices_per_node: 8, inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 16, seq_len: 4096}
pin: """.replace("&c ", "")  # noqa: E501


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        (
            "{clusters: {a: {tp: 3}}}",
            "pin.clusters.a.tp: is 3: no strategy of cluster 'a' satisfies it, tp can "
            "be 1, 2, 4, 8",
        ),
        (
            "{clusters: {a: {cp: [3, 5]}}}",
            "pin.clusters.a.cp: is 3 or 5: no strategy of cluster 'a' satisfies it, cp "
            "can be 1, 2, 4, 8",
        ),
        (
            "{clusters: {a: {tp: 8, dp: 2}}}",
            "pin.clusters.a.dp: is 2: no strategy of cluster 'a' satisfies it beside "
            "tp 8, with which dp can be 1",
        ),
        (
            "{microbatches: 16, clusters: {a: {dp: 4}}}",
            "pin.clusters.a.dp: is 4: no strategy of cluster 'a' satisfies it beside "
            "microbatches 16, with which dp can be 1",
        ),
        (
            "{clusters: {a: {tp: 8, stages: 2}}}",
            "pin.clusters.a.tp: is 8: no strategy of cluster 'a' satisfies it beside "
            "stages 2, with which tp can be 1, 2, 4",
        ),
        (
            "{forbid: {clusters: {a: {tp: [1, 2, 4, 8]}}}}",
            "pin.forbid.clusters.a.tp: is not 1 or 2 or 4 or 8: no strategy of cluster "
            "'a' satisfies it",
        ),
        (
            "{clusters: {a: {dp: 8, cp: 8, tp: 8}}}",
            "pin.clusters.a: leave no strategy together, (dp, cp, tp) can be (1, 1, 1)",
        ),
    ],
)
def test_impossible_pins(pin: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read_problem_text(PROBLEM + pin)
    assert str(caught.value).startswith(f"problem.yaml:7: {said}")


@pytest.mark.parametrize(
    "pin",
    [
        "{clusters: {a: {tp: [3, 4]}}}",
        "{microbatches: [16, 4], clusters: {a: {dp: 4}}}",
        # Who says that a cluster is not used may leave its other pins where they are.
        "{clusters: {a: {stages: 0, tp: 3}}}",
        "{order: [b], clusters: {a: {tp: 3}}}",
    ],
)
def test_possible_pins(pin: str) -> None:
    assert read_problem_text(PROBLEM + pin).pins.of("a")


def test_pins_that_only_memory_rules_out_leave_a_reason() -> None:
    # Eight layers of 13B parameters each fit no device whole, but split by eight.
    text = PROBLEM.replace("llama-7b", "llama-7b, hidden: 32768, heads: 64, ffn: 90112")
    problem = read_problem_text(text + "{clusters: {a: {tp: 1, dp: 1, cp: 1}}}")
    table = build_table(problem)
    assert without_strategy(table) == ["a"]
    (why,) = unusable(problem, table)
    assert why.startswith("memory: one layer on a at any allowed strategy needs at")
    assert why.endswith("; strategies that its pins rule out would fit")
    needed = read_problem_text(
        text + "{clusters: {a: {tp: 1, dp: 1, cp: 1}}, forbid: {clusters: "
        "{a: {stages: 0}}}}"
    )
    assert why_infeasible(needed, build_table(needed)) == why
