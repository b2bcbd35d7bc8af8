"""Stacks of software: what ships, and what a problem that names one means."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from benchmarks.published_runs import ABOUT
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators, software
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem_text

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem
    from hetopt.problem.training.training import Training

PROBLEM = """
model: {preset: llama-3-8b, layers: 4}
clusters: [{name: a, accelerator: DEVICE, nodes: 1, devices_per_node: 8}]
training: {seq_len: 8192, global_batch: 64, recompute: none, MORE}
"""


def problem(more: str, device: str = "H100-96GB") -> Problem:
    text = PROBLEM.replace("MORE", more).replace("DEVICE", device)
    return read_problem_text(text, "x.yaml")


def forward_ns(given: Problem, tp: int = 1) -> np.ndarray:
    (rows,) = build_table(given).slices[0].clusters
    chosen = [x.tp == tp and x.cp == 1 for x in rows.strategies]
    total: np.ndarray = rows.forward_ns[chosen].sum(axis=0)
    return total


@pytest.mark.parametrize("name", software())
def test_every_stack_says_what_it_is_and_where_its_shares_come_from(name: str) -> None:
    stack = software()[name]
    assert stack.about == ABOUT[name]
    seen = set()
    for each in stack.reached:
        assert each.source
        assert {*each.devices} <= {*accelerators()}
        for device in each.devices:
            for precision in each.precisions:
                assert not accelerators()[device].lacks(precision)
                assert (device, precision, each.experts) not in seen
                seen.add((device, precision, each.experts))


def test_software_changes_times_as_its_shares_say() -> None:
    usual, eager = problem("precision: bf16"), problem("software: torchtitan-eager")
    compiled = problem("software: torchtitan")
    assert (forward_ns(eager) > forward_ns(compiled)).any()
    assert (forward_ns(compiled) != forward_ns(usual)).any()
    assert len({problem_digest(each) for each in (usual, eager, compiled)}) == 3


def test_overlap_of_tensor_parallelism_is_what_the_stack_gains() -> None:
    plain = problem("software: torchtitan")
    beside = problem("software: torchtitan, overlap_tensor: true")
    assert forward_ns(beside, 8).sum() < forward_ns(plain, 8).sum()
    assert (forward_ns(beside) == forward_ns(plain)).all()


def test_a_launcher_has_the_software_that_it_starts() -> None:
    def of(launcher: str, more: str, model: str = "llama-3-8b, layers: 4") -> Training:
        text = PROBLEM.replace("llama-3-8b, layers: 4", model).replace("MORE", more)
        text = f"launcher: {launcher}" + text.replace("DEVICE", "H100")
        return read_problem_text(text, "x.yaml").training

    nemo = of("nemo", "precision: fp8")
    assert nemo.software is not None
    assert (nemo.software.name, nemo.gradients) == ("megatron-2026", "bf16")
    assert nemo.overlap_tensor
    assert not of("nemo", "overlap_tensor: false").overlap_tensor
    assert not of("nemo", "sequence_parallel: false").overlap_tensor
    assert not of("nemo", "zero: 1", "mixtral-8x7b").overlap_tensor
    named = of("nemo", "software: torchtitan")
    assert named.software is not None
    assert named.software.name == "torchtitan"
    for usual in (of("nemo", "software: null"), of("megatron", "zero: 1")):
        assert (usual.software, usual.gradients) == (None, "fp32")


def test_overlapped_collectives_need_sequence_parallelism() -> None:
    with pytest.raises(InputError, match="overlap_tensor: is true, expected sequence"):
        problem("overlap_tensor: true, sequence_parallel: false")


def test_collectives_of_sharded_weights_run_beside_computation() -> None:
    zero = "zero: 3, software: torchtitan"
    beside = problem(zero)
    (stack,) = {beside.training.software} - {None}
    assert stack is not None
    after = tuple(replace(each, sharding_beside=False) for each in stack.reached)
    training = replace(beside.training, software=replace(stack, reached=after))
    one_by_one = replace(beside, training=training)
    none = problem("software: torchtitan")
    assert forward_ns(none).sum() < forward_ns(beside).sum()
    assert forward_ns(beside).sum() < forward_ns(one_by_one).sum()


def test_a_device_that_no_run_shows_has_its_usual_times() -> None:
    usual = problem("zero: 1", "H20-96GB")
    named = problem("software: torchtitan", "H20-96GB")
    assert (forward_ns(usual) == forward_ns(named)).all()
    stack = named.training.software
    assert stack is not None
    device = named.clusters[0].accelerator
    assert stack.on(device.known_as, "bf16", experts=False) is None


def test_a_device_that_is_like_another_has_its_shares_whatever_its_name() -> None:
    own = problem("software: torchtitan")
    like = problem("software: torchtitan", "{like: H100-96GB, name: ours}")
    assert (forward_ns(like) == forward_ns(own)).all()
    named = problem("software: torchtitan", "{like: H100-96GB, name: theirs}")
    assert problem_digest(named) == problem_digest(like)
    other = problem("software: torchtitan", "{like: A100-80GB, name: ours}")
    assert problem_digest(other) != problem_digest(like)


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("precision: bf16", "fp32"),
        ("software: torchtitan", "fp32"),
        ("software: megatron-2026", "bf16"),
        ("software: megatron-2026, precision: fp8", "bf16"),
        ("software: megatron-2026, precision: fp16", "fp32"),
        ("software: megatron-2026, gradients: fp32", "fp32"),
        ("gradients: bf16", "bf16"),
    ],
)
def test_gradients_are_the_problems_else_those_of_the_stack(
    more: str, expected: str
) -> None:
    assert problem(more).training.gradients == expected


def test_what_a_stack_keeps_counts_in_the_digest() -> None:
    """Also on devices of which nothing is known, and in FP8 alone."""

    def digest(precision: str, *, casts_again: bool) -> str:
        found = problem(f"software: torchtitan, precision: {precision}", "GB200")
        stack = software()["torchtitan"]
        assert stack.casts_again
        stack = replace(stack, casts_again=casts_again)
        return problem_digest(
            replace(found, training=replace(found.training, software=stack))
        )

    for precision, same in (("bf16", True), ("fp8", False)):
        kept, again = (digest(precision, casts_again=x) for x in (False, True))
        assert (kept == again) == same


def test_an_unknown_stack_is_refused() -> None:
    with pytest.raises(InputError, match="did you mean 'torchtitan'") as caught:
        problem("software: torchtitn")
    assert caught.value.field == "training.software"


@pytest.mark.parametrize(
    ("precision", "device", "than"),
    [("fp8", "H100", "bf16"), ("mxfp8", "GB200", "bf16"), ("nvfp4", "GB300", "mxfp8")],
)
def test_lower_precisions_are_sums_of_operators_and_quicker(
    precision: str, device: str, than: str
) -> None:
    lower, higher = (
        problem(f"precision: {each}", device) for each in (precision, than)
    )
    assert build_table(lower).sources == ("operators",)
    # The lower precision fits where the higher does not.
    quicker, slower = (
        {
            str(strategy): rows.forward_ns[k].sum()
            for rows in build_table(each).slices[0].clusters
            for k, strategy in enumerate(rows.strategies)
        }
        for each in (lower, higher)
    )
    assert {*slower} <= {*quicker}
    assert all(quicker[name] < slower[name] for name in slower)


@pytest.mark.parametrize("precision", ["mxfp8", "nvfp4"])
def test_scales_of_blocks_need_a_device_that_has_them(precision: str) -> None:
    with pytest.raises(InputError, match="H100 of cluster 'a' lacks"):
        problem(f"precision: {precision}", "H100")
