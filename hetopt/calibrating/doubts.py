"""Warnings where measured runs cannot tell which part was slow, or ran elsewhere.

A run determines the factor of each part of a plan by the part's share of its time
(``time_shares``). If the shares of two parts are proportional over all runs, either
factor fits them: the wrong one fits these runs too, but not other plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.calibrating.factors import factors_of
from hetopt.calibrating.runs import Repriced
from hetopt.calibrating.shares import time_shares
from hetopt.problem.catalogue import accelerators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from hetopt.calibrating.factors import Factor
    from hetopt.calibrating.runs import MeasuredRun
    from hetopt.problem.calibration import Calibration

#: Least share of an iteration that is mentioned. If links that take a tenth of the time
#: are 30% slower than assumed, the iteration is off by 3%: about the usual error of
#: tables (the medians in data/iterations/accuracy.json).
NOTICEABLE = 0.1

#: Largest condition of the matrix of shares (each factor's scaled to length 1) at which
#: the runs tell its factors apart: an error of 1% in the times becomes one of 10% in
#: a factor's time.
MOST_CONDITION = 10.0

#: Least length of a factor's component in directions that the runs do not determine.
LEAST_PART = 0.3


def doubts(
    runs: Sequence[MeasuredRun], calibration: Calibration, corrected: Sequence[Factor]
) -> str | None:
    """Return a line on what the runs cannot tell, and which run could; None if nothing.

    Parameters
    ----------
    runs
        One or more.
    calibration
        The calibration fitted to them.
    corrected
        The factors that were fitted.
    """
    clusters = dict.fromkeys(name for run in runs for name in run.plan.clusters)
    factors = factors_of(("efficiency", "intra_node", "bandwidth"), clusters)
    plans = [Repriced(run.problem, run.plan) for run in runs]
    shares = time_shares(plans, factors, calibration)
    confused = _confused(factors, shares, corrected)
    who, have = ("this run", "has") if len(runs) == 1 else ("these runs", "have")
    found, remedies = [], []
    if confused:
        listed = _listed([_with_share(*item) for item in confused])
        found.append(f"cannot tell {listed} apart")
        remedies += _remedies([factor for factor, _ in confused])
    if all(size == 1 for run in runs for size in _microbatches(run)):
        found.append(f"{have} only micro-batches of one sequence per replica")
        remedies.append("a larger micro-batch")
    degrees = {stage.strategy.tp for run in runs for stage in run.plan.pipeline.stages}
    if len(degrees) == 1 and degrees != {1}:
        found.append(f"{have} tp {min(degrees)} in every stage")
        remedies.append("another tp")
    if not found:
        return None
    wanted = " and ".join(dict.fromkeys(remedies))
    return f"{who} {_listed(found)}: add a run with {wanted} (--also)"


def _confused(
    factors: Sequence[Factor],
    shares: NDArray[np.float64],
    corrected: Sequence[Factor],
) -> list[tuple[Factor, NDArray[np.float64]]]:
    """Return the factors that the runs cannot tell apart, with their shares."""
    most = shares.max(axis=0)
    chosen = [column for column, share in enumerate(most) if share > NOTICEABLE]
    if not any(factors[column] in corrected for column in chosen):
        # The fitted factors have small shares, but all of the error was put on them.
        chosen += [
            column
            for column, factor in enumerate(factors)
            if factor in corrected and most[column] > 0
        ]
    if len(chosen) < 2:
        return []
    scaled = shares[:, chosen] / np.linalg.norm(shares[:, chosen], axis=0)
    _, lengths, directions = np.linalg.svd(scaled)
    told = np.zeros(len(chosen), dtype=bool)
    told[: len(lengths)] = lengths * MOST_CONDITION > lengths.max()
    parts = np.linalg.norm(directions[~told], axis=0)
    return [
        (factors[column], shares[:, column])
        for column, part in zip(chosen, parts, strict=True)
        if part >= LEAST_PART
    ]


def _listed(texts: Sequence[str]) -> str:
    *most, last = texts
    return f"{', '.join(most)} and {last}" if most else last


def _with_share(factor: Factor, shares: NDArray[np.float64]) -> str:
    low, high = f"{shares.min():.0%}", f"{shares.max():.0%}"
    between = low if low == high else f"{low} to {high}"
    return f"{factor.slowed} ({between} of the time)"


def _remedies(confused: Sequence[Factor]) -> list[str]:
    """Return what another run should have to tell these factors apart."""
    kinds = [factor.kind for factor in confused]
    found = []
    if "intra_node" in kinds:
        found.append("another tp")
    if "bandwidth" in kinds:
        found.append("another dp or number of stages")
    if kinds.count("efficiency") > 1:
        found.append("other layers on each cluster")
    return found


def _microbatches(run: MeasuredRun) -> list[int]:
    """Return the sequences per micro-batch and replica, for each stage."""
    pipeline = run.plan.pipeline
    batch = run.problem.training.global_batch // pipeline.microbatches
    return [batch // stage.strategy.dp for stage in pipeline.stages]


def of_other_devices(run: MeasuredRun) -> list[str]:
    """Return warnings that a run on CPUs says nothing about a cluster's devices."""
    return [
        f"warning: {run.file} was measured on CPUs, but cluster {cluster.name!r} has "
        f"{cluster.accelerator.name}: these factors are not those of its devices"
        for cluster in run.problem.clusters
        if cluster.name in run.plan.clusters
        and cluster.accelerator.name in accelerators()
    ]
