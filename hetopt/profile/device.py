"""The device that PyTorch uses: its description, its clock, its memory.

``torch.npu`` (Ascend, from torch_npu) and ROCm's ``torch.cuda`` have the interface of
``torch.cuda``. A CPU is timed by wall-clock time, or with a single thread that waits
for no other process by CPU time, which other programs do not affect.
"""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from hetopt.errors import InputError
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

DEVICE_KINDS = ("cuda", "npu", "cpu")

#: Share of a CPU's free memory that a shard may take.
MEMORY_SHARE = 0.8

#: FLOP/s by kind of device; they only weight shards in estimates of the time left.
NOMINAL_FLOPS = {"cuda": 2e14, "npu": 1e14, "cpu": 5e10}

NVIDIA_QUERY = "driver_version,clocks.sm,clocks.max.sm,clocks.mem,power.limit"


@dataclass(slots=True)
class Device:
    """One device that shards are timed on.

    Attributes
    ----------
    kind
        cuda (also ROCm), npu or cpu.
    waits
        Whether what is timed waits for others: then not even a CPU of one thread is
        timed by its own time.
    """

    kind: str
    torch_device: torch.device
    _api: Any = field(repr=False)
    waits: bool = False

    @property
    def has_bf16(self) -> bool:
        """Whether the device multiplies bf16 without emulation; True for CPUs."""
        if self.kind != "cuda":
            return True
        return bool(self._api.is_bf16_supported(including_emulation=False))

    def select(self, index: int) -> None:
        """Use the device with this index: with one process per device."""
        self.torch_device = torch.device(self.kind, index)
        self._api.set_device(index)

    def synchronize(self) -> None:
        """Wait until all launched kernels have finished."""
        if self.kind != "cpu":
            self._api.synchronize()

    def empty_cache(self) -> None:
        """Free cached memory that is not in use."""
        if self.kind != "cpu":
            self._api.empty_cache()

    def seconds_between(
        self, steps: tuple[Callable[[], None], ...], repetitions: int
    ) -> list[list[float]]:
        """Time ``steps`` one after the other, ``repetitions`` times.

        On an accelerator all repetitions are launched at once and events mark the
        steps' ends, so that launches overlap with computation as in training.

        Returns
        -------
        One list of seconds for each step.
        """
        self.synchronize()
        marks = []
        for _ in range(repetitions):
            row = [self._mark()]
            for step in steps:
                step()
                row.append(self._mark())
            marks.append(row)
        self.synchronize()
        return [
            [self._seconds(row[i], row[i + 1]) for row in marks]
            for i in range(len(steps))
        ]

    def fits(self, size_bytes: int) -> bool:
        """Whether ``size_bytes`` fit in a CPU's free memory; True for accelerators.

        PyTorch raises on accelerators; on a CPU the system would kill the process.
        """
        if self.kind != "cpu":
            return True
        free = free_cpu_bytes()
        return free is None or size_bytes <= MEMORY_SHARE * free

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether PyTorch raised ``error`` for lack of memory."""
        if isinstance(error, MemoryError):
            return True
        text = str(error).lower()
        return isinstance(error, RuntimeError) and (
            "out of memory" in text or "can't allocate memory" in text
        )

    def _mark(self) -> Any:
        if self.kind == "cpu":
            single = torch.get_num_threads() == 1 and not self.waits
            return time.process_time() if single else time.perf_counter()
        event = self._api.Event(enable_timing=True)
        event.record()
        return event

    def _seconds(self, start: Any, end: Any) -> float:
        if self.kind == "cpu":
            return float(end - start)
        return float(start.elapsed_time(end)) / 1e3


def find_device(wanted: str | None = None) -> Device:
    """Return a device of the wanted kind, or of the first available kind.

    Raises
    ------
    InputError
        There is no device of the wanted kind.
    """
    for kind in DEVICE_KINDS if wanted is None else (wanted,):
        if kind == "cpu":
            return Device(kind, torch.device("cpu"), None)
        if kind == "npu" and importlib.util.find_spec("torch_npu") is not None:
            # The import creates torch.npu.
            importlib.import_module("torch_npu")
        api = getattr(torch, kind, None)
        if api is not None and api.is_available():
            return Device(kind, torch.device(kind, api.current_device()), api)
    raise InputError(f"PyTorch finds no device of kind {wanted}", field="--device")


def default_dtype(device: Device) -> str:
    """Return the precision that is measured unless another is asked for."""
    return "bf16" if device.has_bf16 else "fp16"


def describe(device: Device) -> dict[str, str]:
    """Return the header lines about a device: its names, driver, libraries, clocks."""
    libraries = [
        f"hetopt {__version__}",
        f"torch {torch.__version__}",
        f"python {platform.python_version()}",
    ]
    if device.kind == "cpu":
        return {
            "accelerator": "CPU",
            "device": f"{cpu_name()}, {_threads(device)}",
            "driver": f"{platform.system()} {platform.machine()}",
            "libraries": ", ".join(libraries),
            "clocks": _cpu_clocks(),
        }
    name = str(device._api.get_device_name(device.torch_device))
    memory = device._api.get_device_properties(device.torch_device).total_memory
    driver, clocks = "unknown", "unknown"
    if device.kind == "npu":
        libraries.append(
            f"torch_npu {importlib.import_module('torch_npu').__version__}"
        )
        driver = _first_line("/usr/local/Ascend/driver/version.info")
    elif torch.version.hip is not None:
        libraries.append(f"ROCm {torch.version.hip}")
        driver = _first_line("/sys/module/amdgpu/version")
    else:
        libraries.append(f"CUDA {torch.version.cuda}")
        libraries.append(f"cuDNN {torch.backends.cudnn.version()}")
        answer = _nvidia_smi(device)
        if answer is not None:
            driver, now, most, memory_clock, power = answer
            clocks = f"SM {now} (max {most}), memory {memory_clock}, limit {power}"
    return {
        "accelerator": catalogue_name(name, int(memory)),
        "device": f"{name}, {memory / 1e9:.0f} GB",
        "driver": driver,
        "libraries": ", ".join(libraries),
        "clocks": clocks,
    }


def catalogue_name(device_name: str, memory_bytes: int) -> str:
    """Return the catalogue's name of a device, or its own name if it is not listed.

    Catalogue names are a family and sometimes a memory size (``A100-80GB``); the
    family must be a word of the device's name, and the memory within 10%.
    """
    from hetopt.problem.catalogue import accelerators

    words = device_name.replace("-", " ").upper().split()
    for name, accelerator in accelerators().items():
        family = [word for word in name.upper().split("-") if not word.endswith("GB")]
        near = abs(memory_bytes / accelerator.memory_bytes - 1) <= 0.1
        if near and set(family) <= set(words):
            return name
    return device_name


def cpu_name() -> str:
    """Return the processor's name according to the operating system."""
    for line in _lines("/proc/cpuinfo"):
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def free_cpu_bytes() -> int | None:
    """Return the memory that a process can still allocate; None if unknown."""
    free = None
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit, used = (
        _first_line(f"/sys/fs/cgroup/memory.{name}") for name in ("max", "current")
    )
    if limit.isdecimal() and used.isdecimal():
        within = int(limit) - int(used)
        free = within if free is None else min(free, within)
    return free


def _threads(device: Device) -> str:
    threads = torch.get_num_threads()
    if threads > 1:
        return f"{threads} threads"
    return "1 thread" if device.waits else "1 thread (CPU time)"


def _cpu_clocks() -> str:
    governor = _first_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    speeds = [
        float(line.partition(":")[2])
        for line in _lines("/proc/cpuinfo")
        if line.startswith("cpu MHz")
    ]
    parts = [f"{max(speeds):.0f} MHz"] if speeds else []
    if governor != "unknown":
        parts.append(f"governor {governor}")
    return ", ".join(parts) or "unknown"


def _nvidia_smi(device: Device) -> list[str] | None:
    properties = device._api.get_device_properties(device.torch_device)
    uuid = getattr(properties, "uuid", None)
    which = [] if uuid is None else ["--id", f"GPU-{uuid}"]
    command = ["nvidia-smi", *which, f"--query-gpu={NVIDIA_QUERY}"]
    try:
        done = subprocess.run(
            [*command, "--format=csv,noheader"],
            capture_output=True,
            check=True,
            text=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    fields = [field.strip() for field in done.stdout.partition("\n")[0].split(",")]
    return fields if len(fields) == len(NVIDIA_QUERY.split(",")) else None


def _first_line(path: str) -> str:
    return next(iter(_lines(path)), "unknown").strip()


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
