"""Run one iteration of a plan event by event."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from hetopt.cli.output import emit
from hetopt.cli.planned import add_planned, load_checked

if TYPE_CHECKING:
    import argparse


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_planned(command)


def run(options: argparse.Namespace) -> int:
    """Simulate a plan that passes its check, and print where its time goes."""
    from hetopt.pricing import price
    from hetopt.report.console import draw, simulation_report
    from hetopt.schedule.simulator import simulate

    table, plan = load_checked(options.problem, options.plan, options.table)
    priced = price(plan, table)
    emit(draw(simulation_report(plan, priced, simulate(priced.times)), sys.stdout))
    return 0
