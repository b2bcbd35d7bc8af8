"""The times and memory of this rank's iterations, written for ``hetopt run``.

Times are those of ``time.perf_counter``, the monotonic clock, which all processes of a
machine share. Every iteration begins with a barrier, as all ranks of a simulated one
begin together. The first one is a warm-up and not timed; on CPUs, where PyTorch does
not report what was allocated, the bytes that autograd keeps are counted in it.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist

from .devices import accelerator
from .kept import Kept

if TYPE_CHECKING:
    from .executor import Executor


class Recorder:
    """Keeps the times of every iteration but the first.

    Parameters
    ----------
    folder
        Where the file ``rank-N.json`` is written.
    """

    def __init__(self, executor: Executor, folder: Path) -> None:
        self.executor, self.folder = executor, folder
        self.device = executor.place.device
        self.api = accelerator(self.device)
        executor.settles = self.api is not None
        self.kept = Kept(executor.stage)
        self.counting: Any = None
        self.iterations: list[dict[str, Any]] = []
        self.is_first = True

    def begin(self) -> None:
        """Wait for all ranks, and begin an iteration."""
        if self.api:
            self.api.synchronize()
        dist.barrier()
        if self.is_first and not self.api:
            self.counting = self.kept.watching()
            self.counting.__enter__()
        self.start_s, self.start_cpu_s = time.perf_counter(), time.process_time()

    def end(self, loss: float | None) -> None:
        """End an iteration, after the optimizer's step."""
        if self.api:
            self.api.synchronize()
        end_s, end_cpu_s = time.perf_counter(), time.process_time()
        if self.counting is not None:
            self.counting.__exit__(None, None, None)
            self.counting = None
        if self.is_first:
            self.is_first = False
            return
        self.iterations.append(
            {
                "start_s": self.start_s,
                "end_s": end_s,
                "cpu_s": end_cpu_s - self.start_cpu_s,
                "loss": loss,
                "passes": _rows(self.executor.ran),
                "transfers": _rows(self.executor.boundaries.transfers),
            }
        )

    def write(self) -> None:
        """Write the file of this rank."""
        place = self.executor.place
        found = {
            "stage": place.stage,
            "dp": place.dp,
            "device": self.api.get_device_name(self.device) if self.api else "CPU",
            "torch": torch.__version__,
            "threads": torch.get_num_threads(),
            "memory": "allocated" if self.api else "activations",
            "peak_bytes": (
                self.api.max_memory_allocated(self.device)
                if self.api
                else self.kept.peak
            ),
            "iterations": self.iterations,
        }
        path = self.folder / f"rank-{place.rank}.json"
        path.write_text(json.dumps(found), "utf-8")


def _rows(events: list[Any]) -> list[list[Any]]:
    return [[e.kind, e.number, e.start_s, e.end_s] for e in events]
