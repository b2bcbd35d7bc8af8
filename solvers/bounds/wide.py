"""Bounds on the simulated time where plans need not keep all principles.

The relaxation, with the excess of paths in the place of lambda. Warm-ups depend on p,
so bounds of several p at once are weaker, but quicker. Ranges of p are bounded, the one
with the least bound first, and halved, until time is up or the least bound is that of a
single p.
"""

from __future__ import annotations

import heapq
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hetopt.base.deadline import Stopped
from hetopt.base.run_until import run_in_time
from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.chain import Chain
from hetopt.schedule.paths import PathForm, Weights
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.bounds.by_count import survey
from hetopt.solvers.bounds.relaxation import Relaxation

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.base.deadline import Deadline
    from hetopt.solvers.request import Request

#: Width of excesses that are bounded at once, as a share of the cutoff: at first sight
#: of several p, of half of them, and of one.
_GLANCE, _ROUGH, CLOSE = 1 / 4, 1 / 16, 1 / 64
#: Sums of floating-point times are off by less than this share of them.
_ROUNDING = 1e-9


def least_simulated_s(
    request: Request, least_s: Mapping[int, float], cutoff_s: float, deadline: Deadline
) -> dict[tuple[int, int], float]:
    """Return lower bounds on the simulated time by (p, q), up to a cutoff.

    Those of plans under a schedule with whole passes of one chunk.

    Parameters
    ----------
    least_s
        What is known of all plans of a q.
    """
    problem, known = request.problem, {}
    groups: dict[tuple[int, int], list[int]] = {}
    for q, bound_s in least_s.items():
        for p in problem.stage_counts:
            if problem.has_program(p, q):
                known[p, q] = min(bound_s, cutoff_s)
                groups.setdefault((q, (p - 1).bit_length()), []).append(p)
    heap = [(least_s[q], q, stages, False) for (q, _), stages in groups.items()]
    heapq.heapify(heap)
    while heap and heap[0][0] < cutoff_s:
        _, q, stages, is_known = heapq.heappop(heap)
        if is_known and len(stages) == 1:
            break
        half = len(stages) // 2 if is_known else 0
        share = _ROUGH if is_known else _GLANCE
        for part in filter(None, (stages[:half], stages[half:])):
            work = partial(bounds_s, request, q, part, cutoff_s, share)
            try:
                bounds = run_in_time(deadline, work)
            except Stopped:
                return known
            for p, bound_s in zip(part, bounds, strict=True):
                known[p, q] = max(known[p, q], bound_s)
            least = min(known[p, q] for p in part)
            heapq.heappush(heap, (least, q, part, True))
    return known


def _weights(request: Request, q: int, stages: int) -> Weights:
    """Return the least weights of a stage of pipelines of so many."""
    table, part = request.table, request.table.at(q)
    rule = rule_of(table.schedule, table.warmup_epsilon)
    crossings = stages - 1
    if request.params.principles.consecutive:
        crossings = min(crossings, len(table.cluster_names) - 1)
    warmups = np.array([rule.most_warmups(stages - 1, crossings)])
    weights = PathForm(rule).weights(
        warmups, passes=part.passes, stages=stages, chunks=part.chunks
    )
    return Weights(*weights[:, 0].tolist())


def bounds_s(
    request: Request,
    q: int,
    stages: Sequence[int],
    cutoff_s: float,
    share: float = CLOSE,
) -> list[float]:
    """Return bounds on plans of each of these p, up to the cutoff.

    Parameters
    ----------
    share
        Width of excesses that are bounded at once, as a share of the cutoff; of one p
        alone, at most ``CLOSE``.
    """
    relaxation = Relaxation(
        table=request.table,
        part=request.table.at(q),
        chain=Chain.of(request.table),
        pins=request.problem.rules,
        most_stages=max(stages),
        principles=request.params.principles,
        weights=_weights(request, q, max(stages)),
    )
    share = share if len(stages) > 1 else min(share, CLOSE)
    found = survey(relaxation, cutoff=cutoff_s / TICK_S, share=share).bound
    # No plan within the cutoff is left where the bound is above it.
    return [min(found[p] * TICK_S * (1 - _ROUNDING), cutoff_s) for p in stages]
