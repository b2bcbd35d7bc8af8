"""What ranks would write of iterations that went as simulated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetopt.running.measured import Measured, measured_of
from hetopt.running.records import iterations_of
from hetopt.schedule.chunks import chunk_and_microbatch
from hetopt.schedule.events import BACKWARD, FORWARD
from hetopt.schedule.folding import sends_to
from hetopt.schedule.run import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.schedule.run import Simulation
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
        passes: list[list[Any]] = []
        for m in range(times.passes):
            for kind, starts, ends in (
                ("F", run.forward_start_ns, run.forward_end_ns),
                ("B", run.backward_start_ns, run.backward_end_ns),
            ):
                span = starts[stage, m], ends[stage, m]
                passes.append([kind, m, *(BEGAN_S + float(at) * 1e-9 for at in span)])
            if run.weight_start_ns is not None:
                later = times.weights_ns(stage)
                start = int(run.weight_start_ns[stage, m])
                span = start, start + later[m % len(later)]
                passes.append(["W", m, *(BEGAN_S + float(at) * 1e-9 for at in span)])
        transfers = sorted(_transfers(run, stage), key=lambda each: each[3])
        last: float = max(row[3] for row in passes)
        one = {
            "start_s": BEGAN_S,
            "end_s": last + times.sync_ns[stage] * 1e-9,
            "loss": 2.0 if stage == (0 if times.fold else times.stages - 1) else None,
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


def _transfers(run: Simulation, stage: int) -> Iterator[list[Any]]:
    """Yield what a stage sends and receives."""
    times = run.times
    if times.fold is not None:
        yield from _folded_transfers(run, stage)
        return
    p, lengths = times.stages, times.every_transfer_ns
    for name, starts, step in (
        ("forward", run.send_forward_start_ns, 1),
        ("backward", run.send_backward_start_ns, -1),
    ):
        for kind, of in (("send", stage), ("receive", (stage - step) % p)):
            boundary = min(of, of + step) % p
            if boundary >= len(lengths):
                continue
            for m in range(times.passes):
                if boundary == p - 1:
                    assert times.chunks is not None
                    chunk, _ = chunk_and_microbatch(m, p, times.chunks.count)
                    if chunk == (times.chunks.count - 1 if step == 1 else 0):
                        continue
                start = BEGAN_S + float(starts[of, m]) * 1e-9
                yield [f"{kind}-{name}", m, start, start + lengths[boundary] * 1e-9]


def _folded_transfers(run: Simulation, stage: int) -> Iterator[list[Any]]:
    times = run.times
    for name, kind, starts in (
        ("forward", FORWARD, run.send_forward_start_ns),
        ("backward", BACKWARD, run.send_backward_start_ns),
    ):
        for sender in range(times.stages):
            for m in range(times.passes):
                target = sends_to(kind, sender, m, times.stages)
                if target is None or stage not in (sender, target[0]):
                    continue
                length = times.every_transfer_ns[min(sender, target[0])]
                start = BEGAN_S + float(starts[sender, m]) * 1e-9
                end = "send" if sender == stage else "receive"
                yield [f"{end}-{name}", m, start, start + length * 1e-9]


def measured_as(times: PipelineTimes, units: str | None = None) -> Measured:
    """Return a run of three iterations that all went so."""
    ranks, chunks = (
        ranks_of(times, 3),
        1 if times.chunks is None else times.chunks.count,
    )
    folded = times.fold is not None
    iterations = iterations_of(ranks, chunks, folded=folded)
    return measured_of("0" * 64, ranks, iterations, units, chunks, folded=folded)
