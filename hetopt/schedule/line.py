"""The events of a pipeline under any schedule, for ``hetopt.schedule.run``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.schedule.orders import Orders
    from hetopt.schedule.times import PipelineTimes

#: Kinds of passes in the order of their numbers.
KINDS = "FBW"


class Line(NamedTuple):
    """What there is to run. An event is a pass of a kind on a stage, or an exchange.

    Event (k p + i) n + number is that pass of the k-th kind on stage i; an exchange of
    boundary b is ``exchanges`` + b * ``rows`` + number.

    Attributes
    ----------
    order, first
        The events of every stage, in order; those of stage i begin at ``first[i]``.
    took
        Duration of each event.
    feeds, route
        The event that needs its result, and the route of the transfer; -1: none.
    kappa
        Duration of a transfer on each route.
    begins, ways, omega
        The ways that a route occupies, and for how long: route r those from
        ``begins[r]`` to ``begins[r + 1]``.
    """

    passes: int
    exchanges: int
    rows: int
    order: Any
    first: Any
    took: Any
    feeds: Any
    route: Any
    kappa: Any
    begins: Any
    ways: Any
    omega: Any


def line_of(times: PipelineTimes) -> Line:
    """Return the events of a pipeline."""
    orders, p, n = times.orders, times.stages, times.passes
    exchanges, rows = len(KINDS) * p * n, times.microbatches + max(times.warmups)
    order = [list(_events_of(orders, stage, exchanges, rows)) for stage in range(p)]
    blocks = orders.blocking and p > 1
    took = np.zeros(exchanges + (p * rows if blocks else 0), np.int64)
    length = np.repeat(
        np.arange(len(times.lengths)), [each.passes for each in times.lengths]
    )
    chunk = np.array([orders.chunk_and_microbatch(number)[0] for number in range(n)])
    by_kind = took[:exchanges].reshape(len(KINDS), p, n)
    for own, each in enumerate(times.lengths):
        at = np.flatnonzero(length == own)
        for stage in range(p):
            durations = *each.durations_ns(stage), each.weights_ns(stage)
            for kind, of_chunk in enumerate(durations):
                by_kind[kind, stage, at] = np.array(of_chunk)[chunk[at] % len(of_chunk)]
    chi = rule_of(times.schedule).blocking
    for boundary, number in np.ndindex(p - 1 if blocks else 0, rows):
        both = None not in orders.exchanged(boundary, number)
        event = exchanges + boundary * rows + number
        took[event] = times.transfer_ns[boundary] * (chi if both else 1)
    feeds, route = (np.full(len(took), -1) for _ in range(2))
    uneven = times.chunks is not None and times.chunks.uneven is not None
    for kind, stage, own in np.ndindex(0 if blocks else 2, p, orders.chunks):
        at = np.flatnonzero(chunk == own)
        least = int(at[0])
        found = orders.target(KINDS[kind], stage, least)
        if found is None or found[0] == stage:
            continue
        down = orders.goes_down(KINDS[kind], least)
        boundary = (stage if down else stage - 1) % p
        events = (kind * p + stage) * n + at
        feeds[events] = (kind * p + found[0]) * n + at + (found[1] - least)
        route[events] = (length[at] * p + boundary) * 2 + down
        if uneven:
            # Gradients come back over the way of the activations that they belong to.
            sent = own if down else (own - (stage == 0))
            route[events] += 2 * p * sent
    kappa, ways = _routes(times)
    return Line(
        passes=n,
        exchanges=exchanges,
        rows=rows,
        order=np.concatenate([np.array(each, np.int64) for each in order]),
        first=np.cumsum([0, *map(len, order)]),
        took=took,
        feeds=feeds,
        route=route,
        kappa=np.array(kappa, np.int64),
        begins=np.cumsum([0, *map(len, ways)]),
        ways=np.array([way for own in ways for way, _ in own], np.int64),
        omega=np.array([omega for own in ways for _, omega in own], np.int64),
    )


def _events_of(orders: Orders, stage: int, exchanges: int, rows: int) -> Iterator[int]:
    """Yield the events of a stage, in order."""
    p, n = orders.stages, orders.passes
    begins = {kind: (number * p + stage) * n for number, kind in enumerate(KINDS)}
    begins["P"] = exchanges + (stage - 1) * rows
    begins["N"] = exchanges + stage * rows
    return (begins[kind] + number for kind, number in orders.of(stage))


def _routes(times: PipelineTimes) -> tuple[list[int], list[list[tuple[int, int]]]]:
    """Return kappa of every route, and the ways that it occupies with their omega.

    Route (l p + b) 2 + d is boundary b for length l, d = 1 downstream and 0 upstream.
    If chunks differ, l is a chunk.
    """
    kappas: list[int] = []
    every: list[list[tuple[int, int]]] = []
    p = times.stages
    shares = () if times.sharing is None else times.sharing.shares
    alone = [
        (each.every_transfer_ns, each.alone_occupancy_ns) for each in times.lengths
    ]
    if times.chunks is not None and times.chunks.uneven is not None:
        by_chunk = (zip(*each, strict=True) for each in times.crossings_ns)
        alone = [*zip(*by_chunk, strict=True)]
    for transfers, omegas in alone:
        for boundary, down in np.ndindex(p, 2):
            if boundary >= len(omegas):
                kappas.append(0)
                every.append([])
                continue
            kappas.append(transfers[boundary])
            ways = [(2 * boundary + down, omegas[boundary])]
            for number, share in enumerate(shares):
                if boundary in share.boundaries:
                    outward = share.outward[share.boundaries.index(boundary)]
                    way = 2 * (p + number) + (bool(down) == outward)
                    ways.append((way, share.service_ns // times.merged))
            every.append(ways)
    return kappas, every


def transfers_of(
    times: PipelineTimes, line: Line, event: int, start: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield kind, stage, micro-batch, start and end of an exchange's transfers."""
    boundary, number = divmod(event - line.exchanges, line.rows)
    took = times.transfer_ns[boundary]
    for kind, microbatch in enumerate(times.orders.exchanged(boundary, number)):
        if microbatch is not None:
            yield kind, boundary + kind, microbatch, start, start + took
            if rule_of(times.schedule).blocking > 1:
                start += took
