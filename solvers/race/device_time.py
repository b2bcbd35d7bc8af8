"""A lower bound on every (p, q) at once: the device time there is, without loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.formulations.chain import Chain
from hetopt.formulations.program import scaled_below

if TYPE_CHECKING:
    from hetopt.solvers.race.ledger import Ledger


def share_out(ledger: Ledger) -> None:
    """Bound every (p, q) by the device time there is, in no time.

    A stage is busy for at most lambda, so cluster j hosts at most devices_j *
    lambda / w_j body units, where w_j is the least device time of one.
    """
    table, chain = ledger.table, Chain.of(ledger.table)
    kinds = list(chain.kinds)
    for part in table.slices:
        rate, shortest = 0.0, np.inf
        for j, own in enumerate(part.clusters):
            if not own.strategies:
                continue
            tau = (own.forward_ns + own.backward_ns)[:, kinds].min(axis=1)
            # A time of ever so many devices may exceed 64 bits.
            work = max(1.0, float((tau.astype(np.float64) * own.devices).min()))
            rate += table.cluster_devices[j] / work
            shortest = min(shortest, int(tau.min()))
        if not rate:
            continue
        q, units = part.microbatches, chain.length
        period = max(units / rate, shortest)
        below = scaled_below((q - 1) * period + units * shortest)
        for program in ledger.open():
            if program.microbatches == q:
                program.bound = max(program.bound, below)
