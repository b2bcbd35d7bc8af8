"""The race's verdicts for the statuses of mixed-integer solvers."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from hetopt.errors import SolverError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hetopt.solvers.race.engine import Verdict

#: Names of ``HighsModelStatus``. Objectives are sums of times, never less than 0, so
#: 'unbounded or infeasible' means infeasible.
HIGHS: Mapping[str, Verdict] = MappingProxyType(
    {
        "kOptimal": "optimal",
        "kInfeasible": "infeasible",
        "kUnboundedOrInfeasible": "infeasible",
        "kTimeLimit": "stopped",
        "kInterrupt": "stopped",
        "kHighsInterrupt": "stopped",
    }
)


def verdict_of(status: str, known: Mapping[str, Verdict], solver: str) -> Verdict:
    """Return the verdict for a solver's status; raise SolverError if it is unknown."""
    if status not in known:
        msg = (
            f"{solver} ended with status {status}, expected one of {', '.join(known)}: "
            "please report it with the output of hetopt formulate"
        )
        raise SolverError(msg)
    return known[status]
