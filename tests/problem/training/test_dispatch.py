"""The ``moe`` section of ``training``, and pins of experts' degrees."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.problem.digest import problem_digest
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.dispatch import EVEN, Dispatch

PROBLEM = """\
model: {{preset: {model}}}
clusters:
  - {{name: a, accelerator: H100, nodes: 2, devices_per_node: 8, inter_node: {{bandwidth: 400 Gbps}}}}
training: {{global_batch: 64, seq_len: 4096{training}}}
pin: {pin}
"""  # noqa: E501


def read(training: str = "", pin: str = "{}", model: str = "mixtral-8x7b") -> Problem:
    text = PROBLEM.format(model=model, training=training, pin=pin)
    return read_problem_text(text)


@pytest.mark.parametrize(
    ("moe", "expected"),
    [
        ("", EVEN),
        (", moe: {}", EVEN),
        (", moe: {capacity: none}", EVEN),
        (", moe: {imbalance: 1.2}", Dispatch(imbalance=1.2)),
        (
            ", moe: {imbalance: 2, capacity: 1.25, node_dedup: true}",
            Dispatch(imbalance=2.0, capacity=1.25, node_dedup=True),
        ),
    ],
)
def test_assumptions_are_read(moe: str, expected: Dispatch) -> None:
    problem = read(moe)
    assert problem.training.moe == expected
    same = problem_digest(problem) == problem_digest(read())
    assert same == (expected == EVEN)


def test_an_all_to_all_sends_every_copy() -> None:
    with pytest.raises(InputError, match="node_dedup: is true, but an all-to-all"):
        read(", moe: {dispatcher: alltoall, node_dedup: true}")


def test_models_without_experts_assume_nothing() -> None:
    with pytest.raises(InputError) as caught:
        read(", moe: {imbalance: 1.5}", model="llama-7b")
    assert str(caught.value) == (
        "problem.yaml:4: training.moe: is only for models with experts, and 'llama-7b' "
        "has none: leave it out"
    )


def test_pins_of_experts() -> None:
    pins = read(pin="{clusters: {a: {ep: [4, 8], etp: 1}}}").pins.of("a")
    assert pins.ep.permits(8)
    assert not pins.ep.permits(2)
    assert not pins.etp.permits(2)
    forbidden = read(pin="{forbid: {clusters: {a: {etp: [2, 4]}}}}").pins.of("a")
    assert not forbidden.etp.permits(4)


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        (
            "{clusters: {a: {ep: 3}}}",
            "pin.clusters.a.ep: is 3: no strategy of cluster 'a' satisfies it, ep can "
            "be 1, 2, 4, 8",
        ),
        (
            "{clusters: {a: {ep: 8, dp: 1, cp: 1, tp: 4}}}",
            "pin.clusters.a.dp: is 1: no strategy of cluster 'a' satisfies it beside "
            "cp 1 and tp 4 and ep 8, with which dp can be 2, 4",
        ),
        (
            "{clusters: {a: {ep: 32}}}",
            "pin.clusters.a.ep: is 32, more than its devices (16)",
        ),
        (
            "{clusters: {a: {etp: 16}}}",
            "pin.clusters.a.etp: is 16, more than its max_tp (8)",
        ),
    ],
)
def test_pins_of_experts_that_no_strategy_satisfies(pin: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        read(pin=pin)
    assert str(caught.value).startswith(f"problem.yaml:5: {said}")


def test_pins_of_experts_of_a_model_without() -> None:
    assert read(pin="{clusters: {a: {ep: 1}}}", model="llama-7b").pins.of("a")
    with pytest.raises(InputError) as caught:
        read(pin="{clusters: {a: {ep: 2}}}", model="llama-7b")
    assert str(caught.value) == (
        "problem.yaml:5: pin.clusters.a.ep: is 2: no strategy of cluster 'a' satisfies "
        "it, ep can be 1"
    )
