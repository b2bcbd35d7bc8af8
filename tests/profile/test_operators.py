"""``hetopt profile --operators`` on this machine's CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hetopt.cli import main
from hetopt.cost.operators.file import GROUP_MATMUL, parse_operators, read_operators
from hetopt.cost.operators.relatives import rates_of_header
from hetopt.cost.operators.work import SETTINGS
from hetopt.errors import HetoptError, InputError
from hetopt.profile import operators
from hetopt.profile.device import Device, describe, find_device
from hetopt.profile.kernels import Attention, Elementwise, Kernel, Product
from hetopt.profile.operators import (
    best_rates,
    measure_kernel,
    measure_operators,
    mended_peak,
)
from hetopt.profile.task_loop import MeasuringProgress

pytestmark = pytest.mark.torch

CPU = find_device("cpu")
ABOUT = describe(CPU)
KERNELS: tuple[Kernel, ...] = (
    Product(m=128, k=256, n=128),
    Attention(batch=1, seq=128, heads=4, kv_heads=2, head_dim=64),
    Elementwise(what="rmsnorm", tokens=128, width=256),
    Elementwise(what="rope", tokens=128, width=256),
    Elementwise(what="swiglu", tokens=128, width=256),
    Elementwise(what="add", tokens=128, width=256),
    Product(groups=4, m=128, k=128, n=256),
)
ROWS = 3 + 2 + 2 + 2 + 2 + 1 + 3


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure a few small kernels."""
    monkeypatch.setattr(operators, "kernels", lambda rates, **_: KERNELS)
    rates = {"peak_flops": "0.1 TFLOPS", "memory_bandwidth": "10 GB/s"}
    monkeypatch.setattr(operators, "best_rates", lambda device, dtype: rates)


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_pass_of_a_kernel_is_timed(kernel: Kernel) -> None:
    rows = measure_kernel(kernel, "bf16", CPU)
    assert len(rows) == len(kernel.operators)
    assert all(1 < row.time_us < 1e6 for row in rows)


def test_a_larger_product_takes_longer() -> None:
    small, large = (
        measure_kernel(Product(m=128, k=k, n=256), "bf16", CPU) for k in (128, 2048)
    )
    assert all(a.time_us < b.time_us for a, b in zip(small, large, strict=True))


def test_rates_are_what_a_header_states() -> None:
    header = {"device": "this", **best_rates(CPU, "bf16")}
    found = rates_of_header(header, "x.csv")
    assert 1e8 < found.flops < 1e15
    assert 1e8 < found.bytes_per_s < 1e14


def test_the_command_writes_what_a_problem_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A device that no catalogue has: from kernels to a plan."""
    path = tmp_path / "mine.csv"
    command = ["profile", "--operators", "--quick", "--device", "cpu"]
    assert main([*command, "--out", str(path)]) == 0
    out, err = capsys.readouterr()
    done, line, rates = out.splitlines()
    assert done == f"{path}: 7 kernels measured, {ROWS} rows"
    needs = "of accelerator CPU, training.precision bf16"
    assert line == f"in a problem: latency: {{CLUSTER: {path}}}  # {needs}"
    assert rates.startswith("in a problem: accelerator: {name: CPU, peak_flops: {bf16")
    assert err == ""
    profile = read_operators(str(path))
    assert {row.op for row in profile.rows} == set(SETTINGS)
    assert {row.dtype for row in profile.rows} == {"bf16"}
    assert profile.header["accelerator"] == "CPU"
    assert "thread" in profile.header["device"]
    problem = tmp_path / "problem.yaml"
    problem.write_text(
        "model: {layers: 4, hidden: 256, heads: 4, ffn: 512, vocab: 1000}\n"
        "clusters:\n"
        "  - name: a\n"
        "    nodes: 1\n"
        "    devices_per_node: 2\n"
        "    accelerator: {name: CPU, peak_flops: 0.2 TFLOPS, memory: 16 GiB,\n"
        "                  memory_bandwidth: 20 GB/s,\n"
        "                  intra_node: {bandwidth: 5 GB/s, latency: 10 us},\n"
        "                  host_device: {bandwidth: 5 GB/s, latency: 10 us}}\n"
        "training: {global_batch: 8, seq_len: 256}\n"
        "latency: {a: mine.csv}\n"
    )
    assert main(["plan", str(problem), "--solver", "dp", "--jobs", "1", "-v"]) == 0
    assert "operators" in capsys.readouterr().out


def test_an_interrupted_profile_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"

    def stop(progress: MeasuringProgress) -> None:
        if progress.done == 3:
            raise KeyboardInterrupt

    first = measure_operators(str(path), CPU, "bf16", ABOUT, stop)
    assert (first.found, len(first.measured), first.interrupted) == (0, 3, True)
    before = path.read_text()
    path.write_text(before + "memory,bf16,,,")
    second = measure_operators(str(path), CPU, "bf16", ABOUT)
    assert (second.found, len(second.measured), second.remaining) == (3, 4, 0)
    assert path.read_text().startswith(before)
    third = measure_operators(str(path), CPU, "bf16", ABOUT)
    assert (third.found, third.measured) == (7, ())


def test_element_wise_kernels_are_named(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    measure_operators(str(path), CPU, "bf16", ABOUT)
    rows = [row for row in read_operators(str(path)).rows if row.op == "memory"]
    assert [row.kernel for row in rows] == [
        *("rmsnorm", "rmsnorm", "rope", "rope", "swiglu", "swiglu", "add")
    ]
    assert {row.n for row in rows} == {256}


def test_a_file_without_kernels_is_continued(tmp_path: Path) -> None:
    """Its rows stay, and its element-wise kernels are measured again with names."""
    path = tmp_path / "o.csv"
    measure_operators(str(path), CPU, "bf16", ABOUT)
    old = [
        line if line.startswith("#") else line.rpartition(",")[0]
        for line in path.read_text().splitlines()
        if not line.startswith("memory,") or ",rope" not in line
    ]
    old = [
        line.replace(",256,,,", ",,,,") if "memory" in line else line for line in old
    ]
    path.write_text("\n".join(old) + "\n")
    before = read_operators(str(path)).rows
    assert {row.kernel for row in before} == {None}
    assert len(measure_operators(str(path), CPU, "bf16", ABOUT).measured) == 4
    after = read_operators(str(path)).rows
    assert after[: len(before)] == before
    assert {row.kernel for row in after} == {None, "rmsnorm", "rope", "swiglu", "add"}


def test_kernels_that_move_as_much_are_told_apart(tmp_path: Path) -> None:
    """Norm and rotary embedding move equally much: one is not taken for the other."""
    path = tmp_path / "o.csv"
    measure_operators(str(path), CPU, "bf16", ABOUT)
    rows = [line for line in path.read_text().splitlines() if line[:6] == "memory"]
    text = path.read_text().replace(rows[0] + "\n", "").replace(rows[1] + "\n", "")
    path.write_text(text)
    assert len(measure_operators(str(path), CPU, "bf16", ABOUT).measured) == 1


def test_a_peak_that_kernels_exceed_is_not_written(tmp_path: Path) -> None:
    """It is replaced by the most that was measured, whatever was measured first."""
    path = tmp_path / "o.csv"
    measure_operators(str(path), CPU, "bf16", ABOUT)
    low = path.read_text().replace("peak_flops: 0.1 TFLOPS", "peak_flops: 1 MFLOPS")
    path.write_text(low)
    rows = read_operators(str(path)).rows
    rates = mended_peak(str(path))
    found = read_operators(str(path))
    assert found.rows == rows
    assert {key: found.header[key] for key in rates} == rates
    reached = [
        2 * (row.groups or 1) * row.m * row.k * row.n / (row.time_us * 1e-6)
        for row in rows
        if row.m and row.k and row.n
    ]
    peak = rates_of_header(found.header, "o.csv").flops
    assert max(reached) <= peak <= max(reached) + 1e9
    assert mended_peak(str(path)) == rates


@pytest.mark.parametrize("key", ["accelerator", "device", "driver", "libraries"])
def test_another_devices_profile_is_refused(tmp_path: Path, key: str) -> None:
    path = tmp_path / "o.csv"
    measure_operators(str(path), CPU, "bf16", {**ABOUT, key: "another"})
    before = path.read_bytes()
    said = f"{key}: is 'another' in the file but .*; choose another"
    with pytest.raises(InputError, match=said):
        measure_operators(str(path), CPU, "bf16", ABOUT)
    assert path.read_bytes() == before


def test_another_precision_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    measure_operators(str(path), CPU, "bf16", ABOUT)
    with pytest.raises(
        InputError, match="dtype: is bf16 in the file but fp16 now; choose"
    ):
        measure_operators(str(path), CPU, "fp16", ABOUT)


def test_running_out_of_memory_leaves_a_kernel_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(operators, "steps_of", fail)
    assert measure_kernel(KERNELS[0], "bf16", CPU) == ()


def test_other_errors_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a kernel is missing\nException raised from ...")

    monkeypatch.setattr(operators, "steps_of", fail)
    with pytest.raises(HetoptError, match=r"cannot run matmul \(.*\): a kernel is m"):
        measure_kernel(KERNELS[0], "bf16", CPU)


def test_catalogued_devices_keep_their_rates(tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    measure_operators(str(path), CPU, "bf16", {**ABOUT, "accelerator": "H100"})
    profile = parse_operators(path.read_text(), "o.csv")
    assert "peak_flops" not in profile.header
    assert any(row.op == GROUP_MATMUL for row in profile.rows)


@pytest.mark.parametrize("has_bf16", [True, False])
def test_a_gpu_says_whether_it_has_bf16(has_bf16: bool) -> None:
    class Api:
        @staticmethod
        def is_bf16_supported(*, including_emulation: bool) -> bool:
            assert not including_emulation
            return has_bf16

    assert Device("cuda", torch.device("cpu"), Api).has_bf16 == has_bf16
    assert CPU.has_bf16
