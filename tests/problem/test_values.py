"""Numbers of very many digits, or of almost nothing: one error in one line."""

from __future__ import annotations

import pytest

from hetopt.errors import InputError
from hetopt.problem.reading import read_problem_text


@pytest.mark.parametrize("reserve", ["9" * 400, "9" * 40, "1" + "0" * 63])
def test_a_reserve_of_many_digits(reserve: str) -> None:
    text = (
        "model: {preset: llama-7b}\n"
        "clusters: [{name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 8}]\n"
        f"training: {{global_batch: 16, seq_len: 4096, reserve: {reserve}}}\n"
    )
    with pytest.raises(InputError, match=r"training\.reserve: is "):
        read_problem_text(text)


def test_groups_that_shard_nothing() -> None:
    text = (
        "model: {preset: llama-7b}\n"
        "clusters: [{name: a, accelerator: A100-80GB, nodes: 1, devices_per_node: 8}]\n"
        "training: {global_batch: 16, seq_len: 4096, zero: 0, shard_group: 8}\n"
    )
    with pytest.raises(InputError, match=r"training\.shard_group: is 8, expected zero"):
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
