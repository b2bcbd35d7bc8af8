"""Times and memory of one plan, for the oracle: sums, windows and events one by one.

Nothing here is shared with hetopt.schedule or hetopt.pricing.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.cost.table.slice import TableSlice
    from hetopt.cost.table.table import CostTable


class Pieces:
    """Sums over units, remembered; plain integers, which are exact and quick."""

    def __init__(self, table: CostTable, part: TableSlice) -> None:
        self.table = table
        self.part = part
        self.transfer: list[list[list[int]]] = part.transfer_ns.tolist()
        self.occupancy: list[list[list[int]]] = part.occupancy_ns.tolist()
        self.tied: list[list[int]] | None = (
            None if part.tied_ns is None else part.tied_ns.tolist()
        )
        self._times: dict[tuple[tuple[int, int], int, int], tuple[int, int, int]] = {}
        self._bytes: dict[tuple[tuple[int, int], int, int], tuple[int, int]] = {}

    def times(
        self, host: tuple[int, int], first: int, end: int
    ) -> tuple[int, int, int]:
        """Forward, backward and g of a stage."""
        key = (host, first, end)
        if key not in self._times:
            own, k = self.part.clusters[host[0]], host[1]
            phi = beta = 0
            g = int(own.sync_ns[k])
            for kind in self.table.units[first:end]:
                phi += int(own.forward_ns[k, kind])
                beta += int(own.backward_ns[k, kind])
                g += int(own.sync_unit_ns[k, kind])
            self._times[key] = (phi, beta, g)
        return self._times[key]

    def way_back(
        self, last: tuple[int, int], first: tuple[int, int]
    ) -> tuple[int, int]:
        """Kappa and omega from the last stage's host to the first's."""
        assert self.table.way_back is not None
        x = self.table.way_back
        a, b = (int(self.part.clusters[j].layout[k]) for j, k in (last, first))
        return self.transfer[x][a][b], self.occupancy[x][a][b]

    def memory(
        self,
        host: tuple[int, int],
        first: int,
        end: int,
        in_flight: int,
        at_ends: tuple[int, int] = (0, 0),
    ) -> int:
        """Bytes a stage needs on each device.

        ``at_ends``: activations that units outside the body are counted for in
        ``in_flight``, and that they hold.
        """
        counted, held = at_ends
        own, k = self.part.clusters[host[0]], host[1]
        less = sum(
            (counted - held) * int(own.activation_bytes[k, kind])
            for kind in self.table.units[first:end]
            if not self.table.body[kind]
        )
        return self._memory(host, first, end, in_flight) - less

    def _memory(
        self, host: tuple[int, int], first: int, end: int, in_flight: int
    ) -> int:
        key = (host, first, end)
        if key not in self._bytes:
            own, k = self.part.clusters[host[0]], host[1]
            base, each, peak = int(own.fixed_bytes[k]), 0, 0
            for kind in self.table.units[first:end]:
                base += int(own.state_bytes[k, kind])
                each += int(own.activation_bytes[k, kind])
                peak = max(peak, int(own.temporary_bytes[k, kind]))
            self._bytes[key] = (base + peak, each)
        base, each = self._bytes[key]
        return base + in_flight * each


def hapt_steps(
    forward: Sequence[int],
    backward: Sequence[int],
    kappa: Sequence[int],
    epsilon: float | None,
) -> list[int]:
    """HAPT Eq. 1, 2, 10: how many warm-ups a stage has more than the next."""
    assert epsilon is not None
    least = Fraction(epsilon).limit_denominator(1000)
    longest = max(f + b for f, b in zip(forward, backward, strict=True))
    if kappa:
        longest = max(longest, *kappa)
    steps = []
    for k in kappa:
        share = Fraction(k, longest)
        steps.append(1 if share <= least else -((-1 - 2 * share) // 1))
    return [int(step) for step in steps]


def freely(
    q: int,
    forward: Sequence[int],
    backward: Sequence[int],
    kappa: Sequence[int],
    omega: Sequence[int],
    caps: Sequence[int],
) -> tuple[int, ...] | None:
    """Try all warm-up counts; None if nothing fits.

    Lambda is at least every tau, so more than 1 + ceil(2 kappa / max tau) at a
    boundary cannot shorten any window that matters: without the boundary the two
    parts of the window fit into it.

    Parameters
    ----------
    caps
        Most micro-batches of each stage that memory has room for, at most q.
    """
    if min(caps) < 1:
        return None
    p = len(caps)
    tau = [f + b for f, b in zip(forward, backward, strict=True)]
    longest = max(*tau, *omega, 1)
    floor = 1000 * max(*tau, *omega, 0)
    best: tuple[int, int, tuple[int, ...]] | None = None

    def extend(counts: tuple[int, ...], period: int) -> None:
        """Put one more stage before those that have their counts."""
        nonlocal best
        i = p - 1 - len(counts)
        if best is not None and period > best[0]:
            return
        if i < 0:
            found = (period if q > 1 else 0, sum(counts), counts)
            if best is None or found < best:
                best = found
            return
        most = 1 - (-2 * kappa[i] // longest)
        for delta in range(most + 1):
            w = counts[0] + delta
            if min(w, q) > caps[i]:
                break
            length, needed = tau[i], period
            for k, last in enumerate(counts, start=i + 1):
                length += 2 * kappa[k - 1] + tau[k]
                needed = max(needed, -(-1000 * length // (w - last + 1)))
            extend((w, *counts), needed)

    extend((1,), floor)
    if min(caps) == q:
        slowest = max(omega, default=0)
        pace = 1000 * (max(*forward, slowest) + max(*backward, slowest))
        found = (pace if q > 1 else 0, p * q, (q,) * p)
        best = found if best is None else min(best, found)
    return None if best is None else best[2]


def freely_simulated(
    q: int,
    forward: Sequence[int],
    backward: Sequence[int],
    kappa: Sequence[int],
    omega: Sequence[int],
    sync: Sequence[int],
    caps: Sequence[int],
) -> tuple[int, ...] | None:
    """Simulate all warm-up counts that fit; None if nothing does.

    Of the quickest ones those of least sum, then the lexicographically smallest.

    Parameters
    ----------
    caps
        Most micro-batches of each stage that memory has room for, at most q.
    """
    vectors: list[tuple[int, ...]] = [()]
    for cap in reversed(caps):
        vectors = [
            (w, *after)
            for after in vectors
            for w in range(after[0] if after else 1, cap + 1)
        ]
    return min(
        vectors,
        key=lambda counts: (
            simulated_ns(q, forward, backward, kappa, omega, sync, counts),
            sum(counts),
            counts,
        ),
        default=None,
    )


def closed_form(
    schedule: str,
    q: int,
    forward: Sequence[int],
    backward: Sequence[int],
    kappa: Sequence[int],
    omega: Sequence[int],
    sync: Sequence[int],
    warmups: Sequence[int],
) -> tuple[int, Fraction]:
    """Return the value plans are ranked by, and the exact closed form."""
    tau = [f + b for f, b in zip(forward, backward, strict=True)]
    fill = sum(tau) + 2 * sum(kappa) + max(sync)
    if schedule == "gpipe":
        slowest = max(omega, default=0)
        steady = max(*forward, slowest) + max(*backward, slowest)
        total = fill + (q - 1) * steady
        return total, Fraction(total)
    period = Fraction(max(*tau, *omega, 0))
    for i in range(len(tau)):
        for k in range(i + 1, len(tau)):
            window = Fraction(
                sum(tau[i : k + 1]) + 2 * sum(kappa[i:k]),
                warmups[i] - warmups[k] + 1,
            )
            period = max(period, window)
    for i, own in enumerate(tau):
        chi = {"1f1b-batched": 1, "1f1b-blocking": 2}.get(schedule, 0)
        period = max(period, Fraction(own + chi * sum(kappa[max(0, i - 1) : i + 1])))
    rounded_up = -(-period.numerator // period.denominator)
    return fill + (q - 1) * rounded_up, fill + (q - 1) * period


def simulated_ns(
    q: int,
    forward: Sequence[int],
    backward: Sequence[int],
    kappa: Sequence[int],
    omega: Sequence[int],
    sync: Sequence[int],
    warmups: Sequence[int],
) -> int:
    """Let every stage do the next thing on its list as soon as its input is there."""
    p = len(forward)
    # What stages have received: micro-batch -> time, forwards and gradients apart.
    inputs: list[dict[int, int]] = [
        dict.fromkeys(range(q), 0) if not i else {} for i in range(p)
    ]
    gradients: list[dict[int, int]] = [
        dict.fromkeys(range(q), 0) if i == p - 1 else {} for i in range(p)
    ]
    lists = []
    for warmup in warmups:
        first = min(warmup, q)
        todo = [(True, n) for n in range(first)]
        for n in range(q):
            todo.append((False, n))
            if first + n < q:
                todo.append((True, first + n))
        lists.append(todo[::-1])
    clock = [0] * p
    down, up = [0] * p, [0] * p
    moved = True
    while moved:
        moved = False
        for i, todo in enumerate(lists):
            while todo and todo[-1][1] in (inputs if todo[-1][0] else gradients)[i]:
                moved = True
                ahead, n = todo.pop()
                arrived = (inputs if ahead else gradients)[i][n]
                took = forward[i] if ahead else backward[i]
                clock[i] = max(clock[i], arrived) + took
                if ahead and i + 1 < p:
                    leaves = max(clock[i], down[i])
                    down[i] = leaves + omega[i]
                    inputs[i + 1][n] = leaves + kappa[i]
                if not ahead and i:
                    leaves = max(clock[i], up[i])
                    up[i] = leaves + omega[i - 1]
                    gradients[i - 1][n] = leaves + kappa[i - 1]
    assert not any(lists)
    return max(end + g for end, g in zip(clock, sync, strict=True))
