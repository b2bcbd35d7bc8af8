"""What ranks would write of iterations that went as simulated."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

from hetopt.running.measured import Measured, measured_of
from hetopt.running.records import iterations_of
from hetopt.schedule.run import simulate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.schedule.orders import Orders
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
                ("F", run.starts_ns["F"], run.ends_ns["F"]),
                ("B", run.starts_ns["B"], run.ends_ns["B"]),
            ):
                span = starts[stage, m], ends[stage, m]
                passes.append([kind, m, *(BEGAN_S + float(at) * 1e-9 for at in span)])
            if "W" in run.starts_ns:
                later = times.weights_ns(stage)
                start = int(run.starts_ns["W"][stage, m])
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
    times, orders = run.times, run.times.orders
    for kind, name in (("F", "forward"), ("B", "backward")):
        for sender, m in product(range(times.stages), range(times.passes)):
            target = orders.target(kind, sender, m)
            if target is None or sender == target[0]:
                continue
            down = orders.goes_down(kind, m)
            boundary = (sender if down else sender - 1) % times.stages
            start = BEGAN_S + float(run.sent_ns[kind][sender, m]) * 1e-9
            end = start + _took(times, boundary, orders, m, down) * 1e-9
            if sender == stage:
                yield [f"send-{name}", m, start, end]
            if target[0] == stage:
                yield [f"receive-{name}", m, start, end]


def _took(
    times: PipelineTimes, boundary: int, orders: Orders, m: int, down: bool
) -> int:
    """Return kappa of a transfer, by its pass on the stage that sends."""
    if times.chunks is None or times.chunks.uneven is None:
        return times.every_transfer_ns[boundary]
    chunk, _ = orders.chunk_and_microbatch(m)
    before = chunk - (not down and boundary + 1 == times.stages)
    return times.chunks.uneven.transfer_ns[boundary][before]


def measured_as(times: PipelineTimes, units: str | None = None) -> Measured:
    """Return a run of three iterations that all went so."""
    ranks, chunks = (
        ranks_of(times, 3),
        1 if times.chunks is None else times.chunks.count,
    )
    folded = times.fold is not None
    uneven = times.chunks is not None and times.chunks.uneven is not None
    iterations = iterations_of(ranks, chunks, folded=folded)
    return measured_of(
        "0" * 64, ranks, iterations, units, chunks, folded=folded, uneven=uneven
    )
