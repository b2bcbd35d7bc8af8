"""Whatever stands in a field of a number: a value, or one error in one line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.problem.reading import read_problem_text

FIELDS: list[tuple[str | int, ...]] = [
    *(
        ("model", name)
        for name in ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn")
    ),
    *(("model", name) for name in ("vocab", "positions", "patch", "classes")),
    *(("training", name) for name in ("global_batch", "seq_len", "zero", "reserve")),
    *(
        ("clusters", 0, name)
        for name in ("nodes", "devices_per_node", "max_tp", "nics_per_node", "memory")
    ),
    *(("pin", name) for name in ("stages", "microbatches", "units")),
    *(
        (*pin, "clusters", "a", name)
        for pin in (("pin",), ("pin", "forbid"))
        for name in ("stages", "units", "dp", "cp", "tp")
    ),
]
VALUES: list[Any] = [
    *("one", "1", "full", "", "<x>", "9" * 5000, True, 1.5, 1.0, float("inf"), None),
    *([], [1], [[1]], ["x"], [10**60], {}, {"a": 1}, 10**60, 10**9, -1, 0),
]


@pytest.mark.parametrize("field", FIELDS, ids=lambda path: ".".join(map(str, path)))
def test_any_value(field: tuple[str | int, ...]) -> None:
    for value in VALUES:
        problem: Any = {
            "model": {"layers": 4, "hidden": 512, "heads": 8, "vocab": 1000},
            "clusters": [
                {
                    "name": "a",
                    "accelerator": "A100-80GB",
                    "nodes": 2,
                    "devices_per_node": 8,
                    "inter_node": {"bandwidth": "100 Gbps"},
                }
            ],
            "training": {"global_batch": 16, "seq_len": 4096},
            "pin": {"clusters": {"a": {}}, "forbid": {"clusters": {"a": {}}}},
        }
        section = problem
        for key in field[:-1]:
            section = section[key]
        section[field[-1]] = value
        text = json.dumps(problem).replace("Infinity", "1e400")
        try:
            read_problem_text(text, "p.json")
        except InputError as error:
            said = str(error)
            assert said.startswith("p.json:1: ")
            assert len(said) < 400
            assert "\n" not in said
        else:
            # Texts and fractions are no whole numbers.
            assert not isinstance(value, str | float | dict)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("one", "is 'one', expected one of 0, 1, 2, 3"),
        ('"1"', "is '1', expected one of 0, 1, 2, 3"),
        ("full", "is 'full', expected one of 0, 1, 2, 3"),
        ("1.0", "is 1.0, expected one of 0, 1, 2, 3"),
    ],
)
def test_zero(value: str, said: str) -> None:
    text = (
        "model: {preset: llama-7b}\n"
        "clusters: [{name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 8}]\n"
        f"training: {{global_batch: 16, seq_len: 4096, zero: {value}}}\n"
    )
    with pytest.raises(InputError) as caught:
        read_problem_text(text)
    assert str(caught.value) == f"problem.yaml:3: training.zero: {said}"


@pytest.mark.parametrize("reserve", ["9" * 400, "9" * 40, "1" + "0" * 63])
def test_a_reserve_of_many_digits(reserve: str) -> None:
    text = (
        "model: {preset: llama-7b}\n"
        "clusters: [{name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 8}]\n"
        f"training: {{global_batch: 16, seq_len: 4096, reserve: {reserve}}}\n"
    )
    with pytest.raises(InputError, match=r"training\.reserve: is "):
        read_problem_text(text)


def test_a_bandwidth_of_almost_nothing() -> None:
    text = (
        "model: {preset: llama-7b}\n"
        "clusters: [{name: a, accelerator: A100-80GB, nodes: 2, devices_per_node: 8, "
        "inter_node: {bandwidth: 1e-300 Gbps}}]\n"
        "training: {global_batch: 16, seq_len: 4096}\n"
    )
    with pytest.raises(InputError, match="bandwidth: is '1e-300 Gbps', which no mach"):
        read_problem_text(text)
