"""The error of the closed form against simulation if links are shared.

    python -m benchmarks.sharing [--pipelines 3000] [--seed 1]

Draws random pipelines of nearly balanced stages over three or four clusters with
uplinks, or back and forth between two clusters over one link (P3 relaxed), whose
transfers take up to 80% of a stage's time. Prints by schedule the error of the closed
form: with sharing (``shared``), of a closed form that ignores the sharing of the
simulation (``ignored``), and with neither sharing (``not shared``).
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import numpy as np

from hetopt.schedule.closed_form import closed_form_ns
from hetopt.schedule.run import simulate
from hetopt.schedule.shares import SharedLinks, sharing_of
from hetopt.schedule.times import PipelineTimes
from hetopt.schedule.warmup import warmup_counts

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName

STAGE_NS = 1_000_000
#: A transfer takes at most this share of a stage's time.
LONGEST = 0.8
SCHEDULES: tuple[ScheduleName, ...] = ("1f1b", "virtual-1f1b", "eager-1f1b", "gpipe")


def draw(rng: Random, shared: str) -> tuple[PipelineTimes, PipelineTimes] | None:
    """Return a random pipeline with and without sharing; None if it shares nothing."""
    names = rng.choice((3, 4)) if shared == "uplink" else 2
    if shared == "uplink":
        clusters = [j for j in range(names) for _ in range(rng.randint(1, 3))]
    else:
        counts = [rng.randint(least, 2) for least in (1, 1, 1, 0)]
        clusters = [i % 2 for i, count in enumerate(counts) for _ in range(count)]
    link_ns = np.zeros((names, names), dtype=np.int64)
    uplink_ns = np.zeros(names, dtype=np.int64)
    if shared == "uplink":
        uplink_ns[:] = [_transfer(rng) for _ in range(names)]
    else:
        link_ns[0, 1] = link_ns[1, 0] = _transfer(rng)
    transfer, occupancy = [], []
    for here, there in pairwise(clusters):
        alone = max(1, uplink_ns[here], uplink_ns[there], link_ns[here, there])
        if here == there:
            alone = STAGE_NS // 100
        else:
            alone = int(alone * rng.choice((1, 1, 1.5)))
        occupancy.append(alone)
        transfer.append(alone + (STAGE_NS // 50 if here != there else 0))
    schedule = rng.choice(SCHEDULES)
    sharing = sharing_of(
        SharedLinks(uplink_ns=uplink_ns, link_ns=link_ns),
        schedule,
        clusters,
        tuple(occupancy),
    )
    if sharing is None:
        return None
    forward = [int(STAGE_NS / 3 * rng.uniform(0.85, 1.15)) for _ in clusters]
    microbatches = rng.choice((16, 64))
    alone_times = PipelineTimes(
        schedule=schedule,
        microbatches=microbatches,
        forward_ns=tuple(forward),
        backward_ns=tuple(2 * each for each in forward),
        transfer_ns=tuple(transfer),
        occupancy_ns=tuple(occupancy),
        sync_ns=(0,) * len(clusters),
        warmups=warmup_counts(
            schedule,
            microbatches=microbatches,
            crosses=[here != there for here, there in pairwise(clusters)],
            round_trip_ns=[3 * each for each in forward],
            transfer_ns=transfer,
        ),
    )
    together = replace(alone_times, occupancy_ns=sharing.contended(), sharing=sharing)
    return together, alone_times


def _transfer(rng: Random) -> int:
    return int(STAGE_NS * rng.uniform(0, LONGEST))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pipelines", type=int, default=3000, metavar="N")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    rng = Random(options.seed)
    errors: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for _ in range(options.pipelines):
        shared = rng.choice(("uplink", "link"))
        drawn = draw(rng, shared)
        if drawn is None:
            continue
        together, alone = drawn
        simulated = simulate(together).makespan_ns
        for name, closed, truth in (
            ("shared", closed_form_ns(together), simulated),
            ("ignored", closed_form_ns(alone), simulated),
            ("not shared", closed_form_ns(alone), simulate(alone).makespan_ns),
        ):
            errors[shared, together.schedule, name].append(float(closed / truth) - 1)
    print("| shared | schedule | closed form | pipelines | least | 5% | median | 95% |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    for key, found in sorted(errors.items()):
        shares = [min(found), *np.quantile(found, (0.05, 0.5, 0.95))]
        cells = " | ".join(f"{100 * each:+.1f}%" for each in shares)
        print(f"| {' | '.join(key)} | {len(found)} | {cells} |")


if __name__ == "__main__":
    main()
