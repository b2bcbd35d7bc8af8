"""A decision's exact objective in its program, to check solvers' answers.

A program's slice of the table may have been narrowed to fewer strategies; plans are
priced over the whole table (``hetopt.pricing``). The race compares the two
(``Worker._ensure_same``), so neither is computed from the other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetopt.solvers.decisions.assembly import value_of
from hetopt.solvers.decisions.free_warmups import free_warmups, steady_warmups
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
    if decision.warmups is None and data.rule.free:
        warmups = free_warmups(times, most)
        if warmups is None:
            return None
        times = replace(times, warmups=warmups)
    ahead = data.part.ahead
    if any(map(int.__lt__, most, (held - ahead for held in times.inflight))):
        return None
    return value_of(times)


def with_warmups(
    decision: Decision, data: ProgramData, *, steady: bool = False
) -> Decision:
    """Return a decision under ``auto`` with its best warm-up counts, if it fits.

    Parameters
    ----------
    steady
        Whether to leave out W = q on every stage, all forwards first.
    """
    hosts = hosts_of(decision, data)
    counts = counts_of(decision, data)
    most = most_held(hosts, counts, data)
    times = times_of(decision, data, hosts, counts)
    if steady:
        found = steady_warmups(times, most)
        return decision if found is None else replace(decision, warmups=found[1])
    return replace(decision, warmups=free_warmups(times, most))
