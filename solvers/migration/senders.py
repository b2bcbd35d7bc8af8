"""Find how much of the missing data each device sends, in the least time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetopt.errors import SolverError
from hetopt.formulations.migration.program import SCALE_BYTES, MigrationProgram
from hetopt.solvers.mip.highs import HighsRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.formulations.migration.program import Demand


@dataclass(frozen=True, slots=True, kw_only=True)
class Sending:
    """An answer of the linear program.

    Attributes
    ----------
    seconds
        The least time.
    bytes
        By demand and way; those of a demand add up to it, except for rounding.
    """

    seconds: float
    bytes: tuple[tuple[float, ...], ...]


def least_time(demands: Sequence[Demand], bytes_per_s: Sequence[float]) -> Sending:
    """Return the least time and who sends what; see ``MigrationProgram``."""
    if not demands:
        return Sending(seconds=0.0, bytes=())
    seconds, _ = _solved(MigrationProgram(demands, bytes_per_s))
    cost, _ = _solved(MigrationProgram(demands, bytes_per_s, seconds))
    _, sent = _solved(MigrationProgram(demands, bytes_per_s, seconds, cost))
    return Sending(seconds=seconds, bytes=sent)


def _solved(
    program: MigrationProgram,
) -> tuple[float, tuple[tuple[float, ...], ...]]:
    """Return the optimum, and the bytes by demand and way."""
    run = HighsRun(program.linear)
    verdict, values = run.solve(), run.values
    if verdict != "optimal" or values is None:
        msg = f"HiGHS reports the migration program as {verdict}: please report this"
        raise SolverError(msg)
    sent = tuple(
        tuple(max(0.0, values[column]) * SCALE_BYTES for column in own)
        for own in program.columns
    )
    return run.objective, sent
