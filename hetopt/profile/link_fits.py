"""Latency and bandwidth of links from timed collectives, as a problem file states them.

``seconds = start + steps * latency + traffic / bandwidth`` is fitted, with the start,
steps and traffic that ``cost.communication.collectives`` charges. What collectives
reach is divided by the share of the nominal bandwidth that they are priced with, so
that a problem with these lines charges what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hetopt.cost.communication.collectives import (
    NETWORK_SHARE,
    START_ACROSS_S,
    START_S,
)
from hetopt.cost.linear_rates import linear_rates

if TYPE_CHECKING:
    from collections.abc import Sequence

SEND_RECV = "send-recv"


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveRow:
    """One collective at one size.

    Attributes
    ----------
    collective
        all-reduce, all-gather, reduce-scatter or send-recv.
    ranks
        Number of participating processes; 2 for send-recv.
    total_bytes
        Size of the whole buffer: that of an all-reduce, of the result of an all-gather,
        of the input of a reduce-scatter, or of the message of send-recv.
    seconds, spread_s
        Median and interquartile range of the slowest rank's times.
    bus_bytes_per_s
        Traffic of one rank over seconds.
    """

    collective: str
    ranks: int
    total_bytes: int
    seconds: float
    spread_s: float
    bus_bytes_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFit:
    """Latency and bandwidth fitted to the times of collectives.

    Attributes
    ----------
    latency_s
        Latency of one step; 0 if times are proportional to sizes.
    bandwidth_bytes_per_s
        Per rank and direction; None if larger sizes took no longer.
    mean_error
        Mean relative error of the fit over the sizes.
    """

    latency_s: float
    bandwidth_bytes_per_s: float | None
    mean_error: float


def steps(collective: str, ranks: int) -> int:
    """Return the number of steps of a ring; each has the latency once."""
    rounds = {"all-reduce": 2 * (ranks - 1), SEND_RECV: 1}
    return rounds.get(collective, ranks - 1)


def traffic_bytes(collective: str, ranks: int, total_bytes: int) -> float:
    """Return the bytes that a rank sends."""
    if collective == SEND_RECV:
        return float(total_bytes)
    factor = 2 if collective == "all-reduce" else 1
    return factor * (ranks - 1) / ranks * total_bytes


def start_s(collective: str, nodes: int) -> float:
    """Return the seconds that a collective over these nodes is charged at any size."""
    if collective == SEND_RECV:
        return 0.0
    return START_S if nodes == 1 else START_ACROSS_S


def fit_link(rows: Sequence[CollectiveRow], nodes: int) -> LinkFit:
    """Fit latency and bandwidth to rows of one collective, or of several.

    By least squares of *relative* errors, so that small sizes count as much as large
    ones; neither term may be negative.

    Parameters
    ----------
    nodes
        Number of nodes that the ranks are on.
    """
    terms = np.array(
        [
            (
                steps(row.collective, row.ranks),
                traffic_bytes(row.collective, row.ranks, row.total_bytes),
            )
            for row in rows
        ],
        dtype=np.float64,
    )
    starts = np.array([start_s(row.collective, nodes) for row in rows])
    seconds = np.array([row.seconds for row in rows])
    rates = linear_rates(terms, seconds, fixed_s=starts)
    latency_s, slowness = rates.tolist()
    fitted = starts + terms @ rates
    return LinkFit(
        latency_s=latency_s,
        bandwidth_bytes_per_s=1 / slowness if slowness > 0 else None,
        mean_error=float(np.abs(fitted / seconds - 1).mean()),
    )


def fit_lines(rows: Sequence[CollectiveRow], nodes: int) -> list[str]:
    """Return one line for each collective, with its fit."""
    lines = []
    for name in dict.fromkeys(row.collective for row in rows):
        fit = fit_link([row for row in rows if row.collective == name], nodes)
        bandwidth = "unknown"
        if fit.bandwidth_bytes_per_s is not None:
            bandwidth = _rate(fit.bandwidth_bytes_per_s)
        lines.append(
            f"{name}: latency {_microseconds(fit.latency_s)}, bandwidth {bandwidth}, "
            f"mean error {100 * fit.mean_error:.1f}%"
        )
    return lines


def problem_lines(
    rows: Sequence[CollectiveRow], nodes: int, intra_node_share: float
) -> list[str]:
    """Return the lines of a problem file that state what was measured.

    In one node the link between its devices, from the rings of all collectives. Across
    nodes, from messages between the first and the last rank: the interface of a node if
    both nodes are of one cluster, the link if they are of two.

    Parameters
    ----------
    nodes
        Number of nodes that the ranks are on.
    intra_node_share
        Share of the nominal bandwidth inside a node that these devices' collectives
        are priced with.

    Returns
    -------
    YAML lines, each with its explanation as a comment; none if the times do not show a
    bandwidth.
    """
    inside = nodes == 1
    used = [row for row in rows if (row.collective == SEND_RECV) != inside]
    fit = fit_link(used, nodes) if used else None
    if fit is None or fit.bandwidth_bytes_per_s is None:
        return []
    measured = fit.bandwidth_bytes_per_s
    latency = f"latency: {_microseconds(fit.latency_s)}"
    share = intra_node_share if inside else NETWORK_SHARE
    link = f"{{bandwidth: {_rate(measured / share)}, {latency}}}"
    why = f"priced at {share:.0%} of it, the measured {_rate(measured)}"
    if inside:
        return [f"intra_node: {link}  # of the cluster; {why}"]
    between = (
        "{bandwidth: <of all connections together>, "
        f"per_connection: {_rate(measured)}, {latency}}}"
    )
    return [
        f"inter_node: {link}  # of the cluster, if all nodes are of one; {why}",
        f"links: {{default: {between}}}  # if the first and the last node are of two",
    ]


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s / 1e9:.4g} GB/s"


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.4g} us"
