"""One run of a pipeline: every pass starts as soon as order, input and links permit.

It knows no schedule. Of the transfers that are ready, the one ready first is sent
first; of several, activations before gradients, then those of the stage further
upstream, then in the order of passes. One that becomes ready later
depends on one that still waits, so it is not ready earlier.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
from itertools import accumulate, chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import FITS, PAYS_FROM, as_written, compiled

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from hetopt.check.plan.schedule.orders import Pass

    #: Kind, stage, chunk, and which of the lengths the micro-batch has.
    Place = tuple[int, int, int, int]


class Work(NamedTuple):
    """What the passes of one place do, in whole nanoseconds.

    Attributes
    ----------
    took
        How long each takes.
    to
        Where the pass of the same micro-batch waits for this one; None: nowhere.
    transfer
        From the start of its output's transfer to the arrival. None: it is a message,
        and the other stage's waits until this one is reached, not until it has ended.
    keeps
        How long a transfer occupies its link, and what it shares with others.
    """

    took: int
    to: Place | None = None
    transfer: int | None = None
    keeps: Mapping[Hashable, int] = {}


def last_ends(
    orders: Sequence[Iterable[Pass]],
    works: Mapping[Place, Work],
    lengths: Sequence[int],
) -> list[int] | None:
    """Return the end of every stage's last pass; None if stages wait in a circle.

    Parameters
    ----------
    orders
        Passes and messages of every stage.
    lengths
        Which length each micro-batch has.
    """
    p, q = len(orders), len(lengths)
    number = {place: n for n, place in enumerate(sorted(works))}
    every = [works[place] for place in number]
    users = Counter(link for each in every for link in each.keeps)
    links = {link: n for n, link in enumerate(users)}
    graph = [
        [each.took for each in every],
        [-1 if each.to is None else number[each.to] for each in every],
        [-1 if each.transfer is None else each.transfer for each in every],
        [stage for _, stage, _, _ in number],
        [kind * p + stage for kind, stage, _, _ in number],
    ]
    first = [0, *accumulate(len(each.keeps) for each in every)]
    link = [links[link] for each in every for link in each.keeps]
    kept = [spent for each in every for spent in each.keeps.values()]
    passes, bounds = _numbered(orders, number, lengths)
    stages = [bounds[:-1], bounds[1:], [0] * p, [0] * p]
    here = np.zeros((len(every), q), np.int64)
    here[[fed for fed in graph[1] if fed >= 0]] = -1
    # If every place has one link to itself, transfers need not queue.
    queue = any([users[link] for link in each.keeps] not in ([], [1]) for each in every)
    of_places, until = (first, link, kept), [0] * len(links)
    longest = q * (sum(graph[0]) + sum(map(abs, graph[2])) + sum(kept))
    if passes.shape[1] >= PAYS_FROM and longest < FITS:
        table, state, free = (np.array(x, np.int64) for x in (graph, stages, until))
        arrays = tuple(np.array(each, np.int64) for each in of_places)
        _run(queue, table, arrays, state, free, passes, here.ravel())
        stages = state.tolist()
    else:
        left = passes.tolist(), here.ravel().tolist()
        as_written(_run)(queue, graph, of_places, stages, until, *left)
    at, ends, _, ended = stages
    return ended if at == ends else None


def _numbered(
    orders: Sequence[Iterable[Pass]],
    number: Mapping[Place, int],
    lengths: Sequence[int],
) -> tuple[NDArray[np.int64], list[int]]:
    """Return place and micro-batch of all passes, and where each stage's begin."""
    axes = tuple(zip(*number, strict=True))
    numbers = np.zeros([1 + max(axis) for axis in axes], np.int64)
    numbers[axes] = list(number.values())
    length, found = np.array(lengths), []
    for i, order in enumerate(orders):
        own = np.fromiter(chain.from_iterable(order), np.int64).reshape(-1, 3)
        kind, chunk, batch = own.T
        found.append(np.array((numbers[kind, i, chunk, length[batch]], batch)))
    return np.hstack(found), [0, *accumulate(own.shape[1] for own in found)]


# One long loop, so that it can be read beside MODEL.md section 4.
@compiled
def _run(
    queue: bool,
    graph: Any,
    links: Any,
    stages: Any,
    until: Any,
    passes: Any,
    here: Any,
) -> None:
    """Run everything that does not wait in a circle.

    Uncompiled it takes lists of Python integers, compiled it takes arrays.

    Parameters
    ----------
    queue
        Whether transfers are sent in the order in which they are ready, or at once.
    graph
        By place: how long a pass takes, the place fed (-1: none), its transfer (-1:
        none), its stage, and its rank in the order of transfers.
    links
        Where the links of each place begin; all links, and for how long each is kept.
    stages
        The next pass of each stage, the end of its passes, when it is free, and the end
        of its last pass that is no message.
    until
        When each link is free.
    passes
        Place and micro-batch of all passes, stage by stage.
    here
        When the input of each place's passes is there; -1 before that.
    """
    took, fed, transfer = graph[0], graph[1], graph[2]
    stage, rank = graph[3], graph[4]
    first, link, kept = links
    at, end, free, ended = stages[0], stages[1], stages[2], stages[3]
    q = len(here) // len(took)
    awake = list(range(len(at)))
    waiting = [(0, 0, 0, 0, 0) for _ in range(0)]
    while awake or waiting:
        if not awake:
            start, _, _, place, m = heappop(waiting)
            for n in range(first[place], first[place + 1]):
                start = max(start, until[link[n]])
            for n in range(first[place], first[place + 1]):
                until[link[n]] = start + kept[n]
            here[fed[place] * q + m] = start + transfer[place]
            awake.append(stage[fed[place]])
        i = awake.pop()
        while at[i] < end[i]:
            place, m = passes[0][at[i]], passes[1][at[i]]
            to, is_message = fed[place], fed[place] >= 0 and transfer[place] < 0
            if is_message and here[to * q + m] < 0:
                here[to * q + m] = free[i]
                awake.append(stage[to])
            if here[place * q + m] < 0:
                break
            free[i] = max(free[i], here[place * q + m]) + took[place]
            at[i] += 1
            if is_message:
                continue
            ended[i] = free[i]
            if to >= 0 and queue:
                heappush(waiting, (free[i], rank[place], at[i], place, m))
            elif to >= 0:
                n = first[place]
                start = max(free[i], until[link[n]])
                until[link[n]] = start + kept[n]
                here[to * q + m] = start + transfer[place]
                awake.append(stage[to])
