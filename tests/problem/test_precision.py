"""What a device multiplies in, and what becomes of a precision that it lacks."""

from __future__ import annotations

from typing import Any

import pytest

from hetopt.errors import InputError
from hetopt.problem.catalogue import accelerators
from hetopt.problem.cluster.accelerator import PeakFlops
from hetopt.problem.reading import read_problem_text

TEMPLATE = """\
model: {{preset: llama-7b}}
clusters:
  - {{name: one, accelerator: {accelerator}, nodes: 1, devices_per_node: 8}}
training: {{global_batch: 8, seq_len: 1024, {training}}}
"""
INLINE = (
    "{{name: x, peak_flops: {rate}, memory: 32 GB, memory_bandwidth: 1 TB/s, "
    "intra_node: {{bandwidth: 1 GB/s, latency: 1 us}}, "
    "host_device: {{bandwidth: 1 GB/s, latency: 1 us}}}}"
)


def read(accelerator: str, training: str = "precision: bf16") -> Any:
    text = TEMPLATE.format(accelerator=accelerator, training=training)
    return read_problem_text(text, "p.yaml").clusters[0].accelerator


@pytest.mark.parametrize("device", ["V100-16GB", "V100-32GB", "TITAN-Xp"])
def test_bf16_is_refused_where_there_is_none(device: str) -> None:
    with pytest.raises(InputError) as error:
        read(device)
    text = str(error.value)
    assert text.startswith("p.yaml:4: training.precision: is 'bf16', which " + device)
    assert "emulate: fp32" in text
    assert "\n" not in text


@pytest.mark.parametrize("device", ["V100-16GB", "TITAN-Xp"])
def test_what_is_emulated_has_the_rate_of_fp32(device: str) -> None:
    found = read(device, "precision: bf16, emulate: fp32")
    assert found.peak_flops_of("bf16", "fp32") == found.peak_flops.fp32


def test_devices_with_the_precision_are_not_emulated() -> None:
    found = read("A100-80GB", "precision: bf16, emulate: fp32")
    assert found.peak_flops_of("bf16", "fp32") == 312e12


def test_fp32_is_tf32_where_the_device_has_it() -> None:
    assert accelerators()["A100-80GB"].peak_flops_of("fp32") == 156e12
    assert accelerators()["V100-32GB"].peak_flops_of("fp32") == 15.7e12


def test_one_number_is_the_16_bit_rate() -> None:
    found = read(INLINE.format(rate="100 TFLOPS"))
    assert found.peak_flops == PeakFlops.dense_16_bit(1e14)


@pytest.mark.parametrize("precision", ["fp32", "fp8"])
def test_one_number_says_nothing_of_other_precisions(precision: str) -> None:
    with pytest.raises(InputError, match=f"is '{precision}', which x .* lacks"):
        read(INLINE.format(rate="100 TFLOPS"), f"precision: {precision}")


@pytest.mark.parametrize(
    ("rate", "precision"),
    [("{fp32: 10 TFLOPS}", "fp32"), ("{bf16: 90 TFLOPS, fp8: 180 TFLOPS}", "fp8")],
)
def test_rates_by_precision(rate: str, precision: Any) -> None:
    found = read(INLINE.format(rate=rate), f"precision: {precision}")
    assert found.peak_flops_of(precision) in (1e13, 1.8e14)


@pytest.mark.parametrize(
    ("accelerator", "training", "message"),
    [
        (
            "{preset: V100-32GB, peak_flops: 100 TFLOPS}",
            "precision: fp16",
            "accelerator.peak_flops: is one number, which means BF16 and FP16 alike",
        ),
        ("A100-80GB", "emulate: tf32", "training.emulate: is 'tf32'"),
        (
            INLINE.format(rate="1 TFLOPS"),
            "precision: fp8, emulate: fp32",
            "training.emulate: is 'fp32', which x of cluster 'one' lacks",
        ),
    ],
)
def test_bad_rates_are_refused(accelerator: str, training: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(accelerator, training)


@pytest.mark.parametrize(
    ("name", "has"),
    [("H100", True), ("H20-96GB", True), ("B200", True), ("A100-80GB", False)],
)
def test_fp8_is_for_hopper_and_later(name: str, has: bool) -> None:
    assert accelerators()[name].lacks("fp8") is not has
