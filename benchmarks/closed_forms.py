"""The error of each schedule's closed form against simulation, on random pipelines.

Run with ``python -m benchmarks.closed_forms [--cases 300]``. Stages are alike, within
8% of each other, or up to 50% apart; boundaries are free, take up to a fifth of a
stage's time (of a chunk's with several), or up to half of it. Prints a table in
Markdown: minimum, median and maximum of closed form / simulation - 1. All pipelines
are random (seeded), and nothing depends on the machine.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from random import Random
from statistics import median

from hetopt.problem.training.choices import INTERLEAVED, SCHEDULES, ScheduleName
from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.run import simulate
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.times import Chunks, Fold, PipelineTimes
from hetopt.schedule.warmup import warmup_counts

#: Largest deviation of a stage's time; longest boundary, as a share of a stage's time.
STAGES = {"alike": 0.0, "within 8%": 0.04, "up to 50% apart": 0.25}
BOUNDARIES = {"free": 0.0, "up to 0.2": 0.2, "up to 0.5": 0.5}
#: Time of a stage in ns: a third of it is forward, and three tenths are gradients of
#: weights where the schedule separates them.
TAU = 90_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A schedule, with the chunks of a stage."""

    schedule: ScheduleName
    chunks: int = 1

    @property
    def label(self) -> str:
        """Name in the table."""
        several = f", {self.chunks} chunks" if self.chunks > 1 else ""
        return f"`{self.schedule}`{several}"


KINDS = (
    *(Kind(schedule=name) for name in SCHEDULES if name != INTERLEAVED),
    *(Kind(schedule=INTERLEAVED, chunks=chunks) for chunks in (2, 4)),
)


def draw(rng: Random, kind: Kind, apart: float, slow: float) -> PipelineTimes:
    """Draw a pipeline of 2 to 8 stages; if folded, each stage holds one pair of units.

    Parameters
    ----------
    apart, slow
        Of ``STAGES`` and ``BOUNDARIES``.
    """
    p = rng.randint(2, 8)
    q = p * rng.randint(2, 8)
    tau = [round(TAU * rng.uniform(1 - apart, 1 + apart)) for _ in range(p)]
    transfer = [round(rng.uniform(0, slow) * TAU) for _ in range(p)]
    fold = None
    if rule_of(kind.schedule).folded:
        # Two chunks of these times, and twice as many transfers.
        fold = _folded(tau)
        tau, transfer = [2 * each for each in tau], [2 * each for each in transfer]
    return PipelineTimes(
        schedule=kind.schedule,
        microbatches=q,
        forward_ns=tuple(each // 3 for each in tau),
        backward_ns=tuple(each - each // 3 for each in tau),
        transfer_ns=tuple(transfer[:-1]),
        occupancy_ns=tuple(transfer[:-1]),
        sync_ns=(0,) * p,
        fold=fold,
        weight_ns=(
            tuple(each * 3 // 10 for each in tau)
            if rule_of(kind.schedule).splits
            else None
        ),
        warmups=warmup_counts(
            kind.schedule,
            microbatches=q,
            # As if every other boundary crossed clusters.
            crosses=[i % 2 == 0 for i in range(p - 1)],
            round_trip_ns=tau,
            transfer_ns=transfer[:-1],
            chunks=kind.chunks,
        ),
        chunks=None
        if kind.chunks == 1
        else Chunks(
            count=kind.chunks,
            way_back_ns=transfer[-1],
            way_back_occupancy_ns=transfer[-1],
        ),
    )


def _folded(tau: list[int]) -> Fold:
    """Return the fold of stages of these times: equal chunks, split as in ``draw``."""
    forward = [2 * each // 3 for each in tau]
    weight = [2 * each * 3 // 10 for each in tau]
    before = [
        2 * each - phi - w for each, phi, w in zip(tau, forward, weight, strict=True)
    ]
    return Fold(
        forward_ns=tuple(each // 2 for each in forward),
        backward_ns=tuple(
            each - phi // 2 for each, phi in zip(tau, forward, strict=True)
        ),
        weight_ns=tuple(each // 2 for each in weight),
        handed_on_ns=tuple(map(max, forward, before)),
        fill_ns=tuple(
            max((b + 1) // 2, b - w, phi - b // 2)
            for phi, b, w in zip(forward, before, weight, strict=True)
        ),
    )


def errors(kind: Kind, apart: float, slow: float, cases: int) -> str:
    """Return minimum, median and maximum error over ``cases`` pipelines, as a cell."""
    rng = Random(f"{kind.label} {apart} {slow}")
    found = []
    for _ in range(cases):
        times = draw(rng, kind, apart, slow)
        found.append(float(closed_form_ns(times) / simulate(times).makespan_ns - 1))
    if not any(found):
        return "exact"
    least, middle, most = min(found), median(found), max(found)
    # Prints no "-0.0".
    return " ".join(f"{round(100 * x, 1) + 0.0:+.1f}" for x in (least, middle, most))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=300, metavar="N")
    cases = parser.parse_args().cases
    columns = [(a, b) for a in STAGES for b in BOUNDARIES]
    print(f"Closed form over simulation, %: least, median, most of {cases} pipelines\n")
    print(f"| stages: | {' | '.join(stages for stages, _ in columns)} |")
    print("| --- " * (len(columns) + 1) + "|")
    print(f"| **boundaries:** | {' | '.join(f'**{slow}**' for _, slow in columns)} |")
    for kind in KINDS:
        cells = [errors(kind, STAGES[a], BOUNDARIES[b], cases) for a, b in columns]
        print(f"| {kind.label} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
