"""The factors of a problem's calibration that runs can correct."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from hetopt.problem.calibration import BANDWIDTH_BOUNDS, EFFICIENCY_BOUNDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hetopt.problem.calibration import Calibration

Corrected = Literal["efficiency", "intra_node", "bandwidth"]

BOUNDS: dict[Corrected, tuple[float, float]] = {
    "efficiency": EFFICIENCY_BOUNDS,
    "intra_node": BANDWIDTH_BOUNDS,
    "bandwidth": BANDWIDTH_BOUNDS,
}

#: Significant digits of factors in files.
DIGITS = 4


class Factor(NamedTuple):
    """One factor of a calibration.

    Attributes
    ----------
    kind
        Its field in the calibration.
    cluster
        The cluster whose efficiency it is; None for links.
    """

    kind: Corrected
    cluster: str | None = None

    @property
    def bounds(self) -> tuple[float, float]:
        """Least and largest value."""
        return BOUNDS[self.kind]

    @property
    def slowed(self) -> str:
        """What takes longer if the factor is smaller."""
        if self.kind == "efficiency":
            return f"computing on {self.cluster}"
        return "links inside nodes" if self.kind == "intra_node" else "networks"

    def __str__(self) -> str:
        return self.kind if self.cluster is None else f"{self.kind} of {self.cluster}"


def factors_of(kinds: Iterable[Corrected], clusters: Iterable[str]) -> list[Factor]:
    """Return the factors of these kinds; efficiencies only of these clusters."""
    found = []
    for kind in kinds:
        if kind == "efficiency":
            found += [Factor(kind, name) for name in clusters]
        else:
            found.append(Factor(kind))
    return found


def value_of(calibration: Calibration, factor: Factor) -> float:
    """Return a factor's value."""
    if factor.kind == "intra_node":
        return calibration.intra_node
    if factor.cluster is None:
        return calibration.bandwidth
    return calibration.efficiency_of(factor.cluster)


def with_values(
    calibration: Calibration, factors: Sequence[Factor], values: Sequence[float]
) -> Calibration:
    """Return the calibration with new values of these factors, clipped to bounds."""
    efficiency = dict(calibration.efficiency)
    links = {
        "intra_node": calibration.intra_node,
        "bandwidth": calibration.bandwidth,
    }
    for factor, value in zip(factors, values, strict=True):
        low, high = factor.bounds
        within = float(min(max(value, low), high))
        if factor.cluster is not None:
            efficiency[factor.cluster] = within
        else:
            links[factor.kind] = within
    return replace(
        calibration,
        efficiency=efficiency,
        intra_node=links["intra_node"],
        bandwidth=links["bandwidth"],
    )


def rounded(value: float) -> float:
    """Return a factor rounded as in files."""
    return float(f"{value:.{DIGITS}g}")
