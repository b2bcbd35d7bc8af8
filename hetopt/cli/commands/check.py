"""Re-derive feasibility, memory and both times of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cli.as_asked import schedule_note
from hetopt.cli.flags import PLANNED
from hetopt.cli.output import emit
from hetopt.cli.plan_files import read_json
from hetopt.cli.planned import load_front, load_reported

if TYPE_CHECKING:
    import argparse

#: What only the search can know, by the key of a result that holds it.
_TOLD = {
    "settlements": "the bounds of single programs, which `hetopt verify` derives again "
    "from a certificate as far as the answer needs them",
    "claims": "the bounds of single problems, from which that of the whole follows",
    "launch": "the plan without the launcher's limits",
    "stability": "how far coefficients may move",
    "solver": "solver and search time",
}


#: What this command takes.
TAKES = PLANNED


def run(options: argparse.Namespace) -> int:
    """Check, and raise CheckError with one line for each difference."""
    from hetopt.results.front import FRONT_SCHEMA

    data = read_json(options.plan)
    if data.get("schema") == FRONT_SCHEMA:
        front = load_front(options.problem, options.plan, options.table)
        emit(
            f"{options.plan}: feasible; times, costs and the proof of the front are as "
            f"claimed, of {counted(len(front.points), 'plan')}"
        )
    else:
        load_reported(
            options.problem, options.plan, options.table, several=True, lengths=True
        )
        emit(
            f"{options.plan}: feasible; units, batch, devices, memory, times and gap "
            "are as claimed"
        )
    if (note := schedule_note(options.problem, data)) is not None:
        emit(note)
    told = [words for key, words in _TOLD.items() if data.get(key)]
    if told:
        emit(f"not checked here: {'; '.join(told)}")
    return 0
