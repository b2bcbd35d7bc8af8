"""Rows of timed collectives, made up."""

from __future__ import annotations

from hetopt.profile.link_fits import CollectiveRow, traffic_bytes

NAMES = ("all-reduce", "all-gather", "reduce-scatter", "send-recv")


def row(collective: str, ranks: int, size: int, seconds: float) -> CollectiveRow:
    return CollectiveRow(
        collective=collective,
        ranks=ranks,
        total_bytes=size,
        seconds=seconds,
        spread_s=0.0,
        bus_bytes_per_s=traffic_bytes(collective, ranks, size) / seconds,
    )
