"""A decision's exact objective in its program, to check solvers' answers.

A program's slice of the table may have been narrowed to fewer strategies; plans are
priced over the whole table (``hetopt.pricing``). The race compares the two
(``Worker._ensure_same``), so neither is computed from the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.solvers.decisions.assembly import value_of
from hetopt.solvers.decisions.stages import counts_of, hosts_of, most_held, times_of

if TYPE_CHECKING:
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData


def exact_value(decision: Decision, data: ProgramData) -> int | None:
    """Return a decision's objective in 1 / PERIOD_SCALE ticks.

    None if a stage does not fit into memory. A program's other constraints are on
    small whole numbers, which floating point gets right.
    """
    hosts = hosts_of(decision, data)
    counts = counts_of(decision, data)
    most = most_held(hosts, counts, data)
    times = times_of(decision, data, hosts, counts)
    ahead = data.part.ahead
    if any(map(int.__lt__, most, (held - ahead for held in times.inflight))):
        return None
    return value_of(times)
