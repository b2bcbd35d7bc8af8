"""Rows are kept as they are measured, whatever happens between them."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hetopt.cost.profiles.file import interquartile_range, read_profile
from hetopt.cost.profiles.units import shard_key
from hetopt.errors import HetoptError, InputError
from hetopt.profile import device as device_module
from hetopt.profile import measuring
from hetopt.profile.device import catalogue_name, describe, find_device
from hetopt.profile.measuring import measure, measure_grid
from hetopt.profile.task_loop import MeasuringProgress
from hetopt.profile.units.timed import ShardUnit
from tests.profile.shapes import small_shape

pytestmark = pytest.mark.torch

CPU = find_device("cpu")
ABOUT = describe(CPU)
SHAPES = tuple(
    small_shape(unit, microbatch=b) for unit in ("layer", "head") for b in (1, 2, 3)
)


def keys(path: Path) -> list[tuple[str | int, ...]]:
    return [shard_key(row) for row in read_profile(str(path)).rows]


def test_times_are_medians_of_what_was_repeated() -> None:
    row = measure(small_shape(seq_len=256), CPU)
    assert row.status == "ok"
    assert row.repetitions == 10
    assert row.forward_s is not None
    assert row.backward_s is not None
    assert 1e-6 < row.forward_s < 1
    assert row.forward_s < row.backward_s < 20 * row.forward_s


def test_more_work_takes_longer() -> None:
    small, large = (measure(small_shape("mlp-up", hidden=h), CPU) for h in (64, 2048))
    assert small.forward_s is not None
    assert large.forward_s is not None
    assert large.forward_s > small.forward_s


def test_every_repetition_is_warm(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    class Unit:
        def forward(self) -> None:
            calls.append("forward")

        def backward(self) -> None:
            calls.append("backward")

    forward, backward = measuring.time_unit(Unit(), CPU)
    assert calls == ["forward", "backward"] * 15
    assert len(forward) == len(backward) == 10


def test_accelerators_are_timed_by_events(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    class Event:
        clock = 0.0

        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            log.append("event")
            Event.clock += 2.0
            self.at = Event.clock

        def elapsed_time(self, other: "Event") -> float:
            return other.at - self.at

    class Api:
        @staticmethod
        def synchronize() -> None:
            log.append("synchronize")

    Api.Event = Event  # type: ignore[attr-defined]
    accelerator = device_module.Device("cuda", torch.device("cpu"), Api)
    times = accelerator.seconds_between((lambda: log.append("step"),), 2)
    assert times == [[0.002, 0.002]]
    launched = ["event", "step", "event"] * 2
    assert log == ["synchronize", *launched, "synchronize"]


def test_the_spread_is_between_quartiles() -> None:
    assert interquartile_range([1.0, 2.0, 3.0, 4.0, 5.0]) == 2.0
    assert interquartile_range([7.0] * 10) == 0.0


def test_an_interrupted_profile_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    seen: list[MeasuringProgress] = []

    def stop(progress: MeasuringProgress) -> None:
        seen.append(progress)
        if progress.done == 2:
            raise KeyboardInterrupt

    first = measure_grid(str(path), SHAPES, CPU, ABOUT, stop)
    assert (first.found, len(first.measured), first.remaining) == (0, 2, 4)
    assert len(keys(path)) == 2
    before = path.read_text()

    second = measure_grid(str(path), SHAPES, CPU, ABOUT, seen.append)
    assert (second.found, len(second.measured), second.remaining) == (2, 4, 0)
    assert path.read_text().startswith(before)
    assert keys(path) == [shard_key(shape) for shape in SHAPES]
    assert seen[-1].label is None
    assert seen[-1].done == seen[-1].total == len(SHAPES)
    assert seen[-1].work_done == pytest.approx(seen[-1].work_total)

    third = measure_grid(str(path), SHAPES, CPU, ABOUT)
    assert (third.found, third.measured, third.remaining) == (6, (), 0)


def test_a_row_cut_in_two_is_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    measure_grid(str(path), SHAPES, CPU, ABOUT)
    path.write_bytes(path.read_bytes()[:-30])
    outcome = measure_grid(str(path), SHAPES, CPU, ABOUT)
    assert (outcome.found, len(outcome.measured)) == (5, 1)
    assert len(keys(path)) == len(SHAPES)


@pytest.mark.parametrize("key", ["accelerator", "device", "driver", "libraries"])
def test_another_devices_profile_is_refused(tmp_path: Path, key: str) -> None:
    path = tmp_path / "p.csv"
    measure_grid(str(path), SHAPES[:1], CPU, {**ABOUT, key: "another"})
    before = path.read_bytes()
    with pytest.raises(
        InputError, match=f"{key}: is 'another' in the file but .*; choose another"
    ):
        measure_grid(str(path), SHAPES, CPU, ABOUT)
    assert path.read_bytes() == before


def test_a_modelled_profile_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    measure_grid(str(path), SHAPES[:1], CPU, ABOUT)
    text = path.read_text()
    path.write_text(text.replace("kind: measured", "kind: modelled"))
    with pytest.raises(
        InputError, match="kind: is 'modelled' in the file but 'measured' now"
    ):
        measure_grid(str(path), SHAPES, CPU, ABOUT)


def test_shapes_that_would_not_fit_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_module, "free_cpu_bytes", lambda: 2_000_000)
    path = tmp_path / "p.csv"
    large = small_shape(microbatch=64)
    outcome = measure_grid(str(path), (large, SHAPES[3]), CPU, ABOUT)
    assert [row.status for row in outcome.measured] == ["oom", "ok"]
    row = read_profile(str(path)).rows[0]
    assert (row.status, row.forward_s, row.repetitions) == ("oom", None, 0)
    assert measure_grid(str(path), (large,), CPU, ABOUT).measured == ()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("NPU out of memory. Tried to allocate"),
    ],
)
def test_running_out_of_memory_is_a_result(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(self: ShardUnit) -> None:
        raise error

    monkeypatch.setattr(ShardUnit, "forward", fail)
    assert measure(small_shape(), CPU).status == "oom"


def test_other_errors_are_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: ShardUnit) -> None:
        raise RuntimeError("a kernel is missing\nException raised from ...")

    monkeypatch.setattr(ShardUnit, "forward", fail)
    with pytest.raises(HetoptError, match=r"layer fp32 .* tp=1: a kernel is missing$"):
        measure(small_shape(), CPU)


def test_the_header_says_what_was_measured() -> None:
    assert ABOUT["accelerator"] == "CPU"
    assert f"torch {torch.__version__}" in ABOUT["libraries"]
    assert "thread" in ABOUT["device"]
    assert all(ABOUT.values())


@pytest.mark.parametrize(
    ("name", "memory_gb", "expected"),
    [
        ("NVIDIA A100-SXM4-80GB", 85.0, "A100-80GB"),
        ("NVIDIA A100-PCIE-40GB", 42.4, "A100-40GB"),
        ("NVIDIA H200", 150.1, "H200"),
        ("NVIDIA H100 80GB HBM3", 85.0, "H100"),
        ("NVIDIA H20", 102.6, "H20-96GB"),
        ("AMD Instinct MI300X", 206.1, "MI300X"),
        ("NVIDIA GeForce RTX 4090", 25.4, "RTX-4090"),
        ("NVIDIA GeForce RTX 5090", 33.7, "NVIDIA GeForce RTX 5090"),
    ],
)
def test_devices_get_their_names_from_the_catalogue(
    name: str, memory_gb: float, expected: str
) -> None:
    assert catalogue_name(name, int(memory_gb * 1e9)) == expected


def test_no_other_device_is_there() -> None:
    for kind in ("cuda", "npu"):
        api = getattr(torch, kind, None)
        if api is None or not api.is_available():
            with pytest.raises(InputError, match=f"finds no device of kind {kind}"):
                find_device(kind)
    assert find_device("cpu").kind == "cpu"


def test_single_threads_are_timed_by_the_work_they_do() -> None:
    assert torch.get_num_threads() == 1
    asleep = CPU.seconds_between((lambda: time.sleep(0.05),), 3)[0]
    assert max(asleep) < 0.04


def test_what_waits_for_other_processes_is_timed_by_the_clock() -> None:
    asleep = replace(CPU, waits=True).seconds_between((lambda: time.sleep(0.05),), 3)[0]
    assert min(asleep) >= 0.05


def test_several_threads_are_timed_by_the_clock() -> None:
    torch.set_num_threads(2)
    try:
        asleep = CPU.seconds_between((lambda: time.sleep(0.05),), 3)[0]
    finally:
        torch.set_num_threads(1)
    assert min(asleep) >= 0.05
