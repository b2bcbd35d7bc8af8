"""Lower bound, over all plans, of the device time per sequence.

A pipeline with n sequences per iteration has micro-batches of b sequences per replica,
where b divides n. No stage computes a unit of the body for a sequence in less device
time than the fastest strategy of its cluster with such a b.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.correction import CorrectedSource, with_corrected_links
from hetopt.cost.passes import passes_s, shard_times
from hetopt.cost.ranges import nanoseconds
from hetopt.cost.rows import rows_of_batches
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.table.ticks import TICK_S
from hetopt.problem.division import halved
from hetopt.problem.model.kinds import END_KINDS

if TYPE_CHECKING:
    from hetopt.cost.shapes import Floats
    from hetopt.cost.sources.source import LatencySource
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem


def least_device_seconds(
    problem: Problem, source: LatencySource | None = None
) -> Floats:
    """Return the least device seconds of one sequence in a body unit, both passes.

    Parameters
    ----------
    source
        See ``build_table``.

    Returns
    -------
    By cluster and number of sequences from 1 to the global batch; infinite if no
    strategy has a micro-batch whose size divides that number; shape (J, B).
    """
    source = CorrectedSource(source or latency_sources(problem), problem.calibration)
    problem = with_corrected_links(problem)
    most = problem.training.global_batch
    found = []
    for cluster in problem.clusters:
        # Stages on half nodes may have strategies that stages on whole nodes lack.
        forms = [cluster, *([halved(cluster)] if halved(cluster) else [])]
        least = np.full(most + 1, np.inf)
        for form in forms:
            if form is not None:
                _lower(least, problem, form, source)
        found.append([least[_divisors(n)].min() for n in range(1, most + 1)])
    return np.array(found)


def _lower(
    least: Floats, problem: Problem, cluster: Cluster, source: LatencySource
) -> None:
    """Update the least time per micro-batch size with a cluster's strategies."""
    one = replace(problem, clusters=(cluster,))
    kinds = tuple(dict.fromkeys(problem.model.units))
    body = [kind not in END_KINDS for kind in kinds]
    rows = rows_of_batches(one, cluster, len(least) - 1)
    if not rows.strategies:
        return
    times, where = shard_times(one, rows, kinds, source)
    # The hidden share grows with the number of micro-batches: this is its limit.
    hidden = np.full(len(rows.strategies), problem.training.moe.overlap)
    forward_s, backward_s = passes_s(one, rows, kinds, times, where, hidden)
    both = (nanoseconds(forward_s) + nanoseconds(backward_s))[:, body].min(axis=1)
    devices = rows.replicas * rows.shape.tp
    per_sequence = both * TICK_S * devices / (rows.shape.microbatch * rows.dp)
    np.minimum.at(least, rows.shape.microbatch, per_sequence)


def _divisors(n: int) -> list[int]:
    return [b for b in range(1, n + 1) if n % b == 0]
