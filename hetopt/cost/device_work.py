"""Lower bound, over all plans, of the device time per sequence.

A pipeline with n sequences per iteration has micro-batches of b sequences per replica,
where b divides n. No stage computes a unit of the body for a sequence in less device
time than the fastest strategy of its cluster with such a b.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.correction import CorrectedSource, with_corrected_links
from hetopt.cost.passes import passes_s, shard_times
from hetopt.cost.ranges import nanoseconds
from hetopt.cost.rows import rows_of_batches
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.table.ticks import TICK_S
from hetopt.problem.catalogue import PROFILE_SUFFIX
from hetopt.problem.digest import problem_digest
from hetopt.problem.division import forms
from hetopt.problem.meshes import meshes
from hetopt.problem.model.kinds import END_KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hetopt.cost.shapes import Floats
    from hetopt.cost.sources.source import LatencySource
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem

#: Sums of floating-point times are off by less than this share of them.
_ROUNDING = 1e-9
#: Most pairs of a strategy and a size of micro-batches that are priced for a bound, and
#: the device seconds of a sequence without it.
_MOST_ROWS, _NOTHING_S = 250_000, 1e-30
#: What was found for problems of one cluster, by their digests and devices: a search
#: and the check of its answer ask for the same. At most so many are kept.
_KNOWN: dict[tuple[str, str], Floats] = {}
_MOST_KNOWN = 64


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
    strategy has a micro-batch whose size divides that number; shape (J, B). Next to
    nothing if there are more than ``_MOST_ROWS`` strategies and sizes to price.
    """
    batch = problem.training.global_batch
    if batch * _meshes(problem) > _MOST_ROWS:
        return np.full((len(problem.clusters), batch), _NOTHING_S)
    ones = [replace(problem, clusters=(cluster,)) for cluster in problem.clusters]
    return np.array([_of_one(one, source) for one in ones])


def _of_one(problem: Problem, source: LatencySource | None) -> Floats:
    """Return the least device seconds of a problem's only cluster; (B,)."""
    (cluster,) = problem.clusters
    # The digest does not tell what is in a user's profile, which may change, nor what a
    # device is called, by which its measured operators are found.
    named = problem.latency.get(cluster.name, "").endswith(PROFILE_SUFFIX)
    key = None if named else (problem_digest(problem), repr(cluster.accelerator))
    if key is not None and key in _KNOWN:
        return _KNOWN[key]
    sizes = range(1, problem.training.global_batch + 1)
    (least,) = _least_by_size(problem, source, sizes)
    found = np.array([least[_divisors(n)].min() for n in sizes])
    if key is not None:
        if len(_KNOWN) == _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = found
    return found


def _meshes(problem: Problem) -> int:
    """Return the number of strategies for micro-batches of the whole batch."""
    model, training, pins = problem.model, problem.training, problem.pins
    return sum(
        sum(1 for _ in meshes(model, each, training, pins.of(each.name), 1))
        for each in problem.clusters
    )


def least_seconds_of_lengths(
    problem: Problem, sources: Mapping[int, LatencySource]
) -> float:
    """Return a lower bound on the time of sequences of several lengths.

    It holds however pipelines divide nodes and sequences. Let a sequence of length l
    take w_lj device seconds on cluster j at least, v_l on the best one. Then a device
    of j does at most max_l v_l / w_lj of this work a second.

    Parameters
    ----------
    sources
        See ``hetopt.cost.divided.sources_by_length``.

    Returns
    -------
    Seconds; infinite if some length has no strategy.
    """
    training = problem.training
    sizes = _divisors(training.global_batch)
    lengths = list(training.sequences)
    found = [
        _least_by_size(problem.of_length(tokens), sources[tokens], sizes).min(axis=1)
        for tokens in lengths
    ]
    work = np.array(found)
    least = work.min(axis=1)
    if not np.isfinite(least).all():
        return inf
    counts = np.array([training.sequences[tokens] for tokens in lengths])
    devices = np.array([cluster.devices for cluster in problem.clusters])
    units = sum(kind not in END_KINDS for kind in problem.model.units)
    per_second = devices @ (least[:, None] / work).max(axis=0)
    return float(units * (counts @ least) / per_second) * (1 - _ROUNDING)


def _least_by_size(
    problem: Problem, source: LatencySource | None, sizes: Sequence[int]
) -> Floats:
    """Return the least device seconds by cluster and size of micro-batches.

    Infinite where no strategy has that size; shape (J, max(sizes) + 1).
    """
    source = CorrectedSource(source or latency_sources(problem), problem.calibration)
    problem = with_corrected_links(problem)
    found = np.full((len(problem.clusters), max(sizes) + 1), np.inf)
    for least, cluster in zip(found, problem.clusters, strict=True):
        for form in forms(cluster):
            _lower(least, problem, form, source, sizes)
    return found


def _lower(
    least: Floats,
    problem: Problem,
    cluster: Cluster,
    source: LatencySource,
    sizes: Sequence[int],
) -> None:
    """Update the least time per micro-batch size with a cluster's strategies."""
    one = replace(problem, clusters=(cluster,))
    kinds = tuple(dict.fromkeys(problem.model.units))
    body = [kind not in END_KINDS for kind in kinds]
    rows = rows_of_batches(one, cluster, sizes)
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
