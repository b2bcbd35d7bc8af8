"""Events per second of the event-by-event simulator.

Run with ``python -m benchmarks.simulator``. Every case is a pipeline under h-1f1b
whose stages differ by up to 10% and whose boundaries take up to 40% of a stage.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from time import perf_counter

from hetopt.schedule.run import simulate
from hetopt.schedule.times import PipelineTimes
from hetopt.schedule.warmup import warmup_counts

REPEATS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A pipeline size."""

    stages: int
    microbatches: int

    @property
    def events(self) -> int:
        """Forward and backward passes; transfers are simulated but not counted."""
        return 2 * self.stages * self.microbatches

    def times(self) -> PipelineTimes:
        random = Random(self.stages)
        forward = [random.randint(900_000, 1_000_000) for _ in range(self.stages)]
        backward = [2 * duration for duration in forward]
        transfer = [random.randint(0, 1_200_000) for _ in forward[1:]]
        return PipelineTimes(
            schedule="h-1f1b",
            microbatches=self.microbatches,
            forward_ns=tuple(forward),
            backward_ns=tuple(backward),
            transfer_ns=tuple(transfer),
            occupancy_ns=tuple(duration // 2 for duration in transfer),
            sync_ns=(0,) * self.stages,
            warmups=warmup_counts(
                "h-1f1b",
                microbatches=self.microbatches,
                crosses=[True] * (self.stages - 1),
                round_trip_ns=[
                    there + back for there, back in zip(forward, backward, strict=True)
                ],
                transfer_ns=transfer,
            ),
        )


#: The simulator has to run the first one, 10,000 events, in under 50 ms.
CASES = (
    Case(stages=10, microbatches=500),
    Case(stages=2, microbatches=2500),
    Case(stages=50, microbatches=100),
    Case(stages=18, microbatches=64),
    Case(stages=64, microbatches=1024),
)


def seconds(case: Case) -> float:
    """Return the seconds of the quickest of a few runs."""
    times = case.times()
    durations = []
    for _ in range(REPEATS):
        began = perf_counter()
        simulate(times)
        durations.append(perf_counter() - began)
    return min(durations)


def main() -> None:
    print(f"{'stages':>8}{'micro-batches':>15}{'events':>9}{'ms':>9}{'events/s':>12}")
    for case in CASES:
        duration = seconds(case)
        print(
            f"{case.stages:>8}{case.microbatches:>15}{case.events:>9}"
            f"{duration * 1e3:>9.2f}{case.events / duration:>12,.0f}"
        )


if __name__ == "__main__":
    main()
