"""Re-derive feasibility, memory and both times of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.output import emit
from hetopt.cli.planned import add_planned, load_checked, load_front, read_json

if TYPE_CHECKING:
    import argparse


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_planned(command)


def run(options: argparse.Namespace) -> int:
    """Check, and raise CheckError with one line for each difference."""
    from hetopt.results.front import FRONT_SCHEMA

    if read_json(options.plan).get("schema") == FRONT_SCHEMA:
        front = load_front(options.problem, options.plan, options.table)
        emit(
            f"{options.plan}: feasible; times, costs and the proof of the front are as "
            f"claimed, of {len(front.points)} plans"
        )
        return 0
    load_checked(
        options.problem, options.plan, options.table, several=True, lengths=True
    )
    emit(
        f"{options.plan}: feasible; units, batch, devices, memory, times and gap "
        "are as claimed"
    )
    return 0
