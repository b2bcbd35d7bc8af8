"""Run one iteration of a plan event by event."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from hetopt.cli.output import emit
from hetopt.cli.planned import add_planned, load_checked

if TYPE_CHECKING:
    import argparse


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_planned(command)
    command.add_argument(
        "--json", action="store_true", help="print the run as JSON, nothing else"
    )


def run(options: argparse.Namespace) -> int:
    """Simulate a plan that passes its check, and print where its time goes."""
    from hetopt.pricing import price
    from hetopt.schedule.simulator import simulate

    table, plan = load_checked(options.problem, options.plan, options.table)
    priced = price(plan, table)
    simulation = simulate(priced.times)
    if options.json:
        from hetopt.report.simulation import simulation_to_json

        data = simulation_to_json(plan, priced, simulation)
        emit(json.dumps(data, indent=2, allow_nan=False))
        return 0
    from hetopt.report.console import draw
    from hetopt.report.simulation import simulation_report

    emit(draw(simulation_report(plan, priced, simulation), sys.stdout))
    return 0
