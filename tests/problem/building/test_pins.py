"""Pins: what the file's shape becomes."""

import pytest

import hetopt
from hetopt.errors import InputError
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.pins import ANY, NO_CLUSTER_PINS, Domain, Pins

BASE = """\
model: {layers: 6, hidden: 64, heads: 4}
clusters:
  - {name: a, accelerator: A40, nodes: 1, devices_per_node: 8, inter_node: {bandwidth: 1 Gbps}}
  - {name: b, accelerator: A40, nodes: 1, devices_per_node: 8, inter_node: {bandwidth: 1 Gbps}}
links: {default: {bandwidth: 1 Gbps, latency: 1 ms}}
training: {global_batch: 12, seq_len: 64}
"""  # noqa: E501


def pins(text: str) -> Pins:
    return read_problem_text(BASE + text).pins


@pytest.mark.parametrize("text", ["", "pin:", "pin: {}", "pin: {forbid: {}}"])
def test_none(text: str) -> None:
    assert pins(text) == Pins()


def test_scalars_and_lists() -> None:
    found = pins("pin: {stages: 3, microbatches: [4, 6, 12]}")
    assert found.stages == Domain(allowed=frozenset({3}))
    assert found.microbatches == Domain(allowed=frozenset({4, 6, 12}))
    problem = read_problem_text(BASE + "pin: {stages: 3, forbid: {microbatches: 1}}")
    assert problem.stage_counts == (3,)
    assert problem.microbatch_counts == (2, 3, 4, 6, 12)


def test_clusters() -> None:
    found = pins(
        "pin: {clusters: {a: {stages: [0, 2], tp: 2}}, "
        "forbid: {clusters: {a: {tp: 4}, b: {stages: 0, recompute: full}}}}"
    )
    assert found.of("a").stages == Domain(allowed=frozenset({0, 2}))
    assert found.of("a").tp == Domain(allowed=frozenset({2}), forbidden=frozenset({4}))
    assert found.of("a").dp == ANY
    assert not found.of("b").stages.permits(0)
    assert found.of("b").recompute == Domain(forbidden=frozenset({"full"}))


def test_a_cluster_without_pins_is_left_out() -> None:
    found = pins("pin: {clusters: {a: {}}}")
    assert found == Pins()
    assert found.of("a") is NO_CLUSTER_PINS


def test_order_next_units_resharding() -> None:
    found = pins(
        "pin: {order: [b, a], units: [4, 4], resharding: [p2p, leader], "
        "forbid: {next: [[a, b]], resharding: inner-dp}}"
    )
    assert found.order == ("b", "a")
    assert found.units == (4, 4)
    assert found.forbidden_next == {("a", "b")}
    assert found.resharding == Domain(
        allowed=frozenset({"p2p", "leader"}), forbidden=frozenset({"inner-dp"})
    )


def test_one_stage_may_hold_everything() -> None:
    assert pins("pin: {units: [8]}").units == (8,)


def test_sums_are_compared_only_where_every_cluster_has_one_value() -> None:
    assert pins("pin: {stages: 5, clusters: {a: {stages: 2}}}")
    assert pins("pin: {stages: 5, clusters: {a: {stages: [1, 2]}, b: {stages: 2}}}")
    assert pins("pin: {stages: 2, order: [a], clusters: {a: {stages: 2}}}")


PLACED = """
model: {layers: 6, hidden: 1024, heads: 8, vocab: 1000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps}}
training: {global_batch: 4, seq_len: 2048, %s}
pin: {units: %s, microbatches: 4}
"""


@pytest.mark.parametrize(
    ("training", "units", "said"),
    [
        ("schedule: interleaved-1f1b, chunks: 2", [2, 3], ""),
        ("schedule: interleaved-1f1b, chunks: 2", [4, 4], "a chunk's 5 units"),
        ("schedule: zb-v", [3, 1], ""),
        ("schedule: zb-v", [4, 4], "expected 4 pairs (embedding and head, 3"),
        ("schedule: 1f1b", [4, 4], ""),
    ],
)
def test_units_are_those_that_stages_place(
    training: str, units: list[int], said: str
) -> None:
    text = PLACED % (training, units)
    if said:
        with pytest.raises(InputError) as error:
            read_problem_text(text)
        assert said in str(error.value)
        return
    problem = read_problem_text(text)
    result = hetopt.plan(problem, jobs=1)
    assert result.best is not None
    stages = result.best.plan.pipeline.stages
    assert [stage.end_unit - stage.first_unit for stage in stages] == units
