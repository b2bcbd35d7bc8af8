"""What ranks would write of iterations that went as simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.running.measured import Measured, measured_of
from hetopt.running.records import iterations_of
from hetopt.schedule.simulator import simulate

if TYPE_CHECKING:
    from hetopt.schedule.times import PipelineTimes

#: When the clock of the machine said that it began.
BEGAN_S = 1000.0


def ranks_of(
    times: PipelineTimes, iterations: int = 1, ranks: int = 1
) -> list[dict[str, Any]]:
    """Return what ranks of each stage would write, as many for every stage."""
    run = simulate(times)
    found = []
    for stage in range(times.stages):
        passes, transfers = [], []
        for m in range(times.microbatches):
            for kind, starts, lengths in (
                ("F", run.forward_start_ns, times.forward_ns),
                ("B", run.backward_start_ns, times.backward_ns),
            ):
                start = BEGAN_S + starts[stage, m] * 1e-9
                passes.append([kind, m, start, start + lengths[stage] * 1e-9])
            for name, starts, sender, other in (
                ("forward", run.send_forward_start_ns, stage, stage + 1),
                ("backward", run.send_backward_start_ns, stage, stage - 1),
            ):
                for kind, of in (("send", sender), ("receive", 2 * stage - other)):
                    to = of + (1 if name == "forward" else -1)
                    if min(of, to) < 0 or max(of, to) >= times.stages:
                        continue
                    start = BEGAN_S + starts[of, m] * 1e-9
                    length = times.transfer_ns[min(of, to)] * 1e-9
                    transfers.append([f"{kind}-{name}", m, start, start + length])
        last = max(end for *_, end in passes)
        one = {
            "start_s": BEGAN_S,
            "end_s": last + times.sync_ns[stage] * 1e-9,
            "loss": 2.0 if stage == times.stages - 1 else None,
            "passes": passes,
            "transfers": transfers,
        }
        found += [
            {
                "stage": stage,
                "dp": number,
                "device": "CPU",
                "torch": "2.13.0",
                "memory": "activations",
                "peak_bytes": 100 * stage + number,
                "iterations": [one] * iterations,
            }
            for number in range(ranks)
        ]
    return found


def measured_as(times: PipelineTimes, units: str | None = None) -> Measured:
    """Return a run of three iterations that all went so."""
    ranks = ranks_of(times, 3)
    return measured_of("0" * 64, ranks, iterations_of(ranks), units)
