"""Run one iteration of a plan event by event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.flag import as_json, writes
from hetopt.cli.flags import PLANNED
from hetopt.cli.output import emit, report
from hetopt.cli.paths import ensure_files
from hetopt.cli.pictures import write_pictures
from hetopt.cli.planned import load_reported
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse

    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem


#: What this command takes.
TAKES = (
    *PLANNED,
    writes(
        "--svg",
        "draw the iteration: what every stage and link does when, and the memory",
    ),
    writes(
        "--trace", "write every event of the iteration for Perfetto (JSON trace events)"
    ),
    as_json("run"),
)


def run(options: argparse.Namespace) -> int:
    """Simulate a plan that passes its check, and print where its time goes."""
    from hetopt.pricing.price import price
    from hetopt.report.simulation import simulated, simulation_report
    from hetopt.results.money import cost_of
    from hetopt.schedule.run import simulate

    ensure_files(options)
    problem, table, (plan, *_), _ = load_reported(
        options.problem, options.plan, options.table, several=True, lengths=True
    )
    if len(plan.pipelines) > 1 or problem.training.lengths is not None:
        return _run_several(problem, plan, options)
    priced = price(plan, table)
    simulation = simulate(priced.times)
    cost = cost_of(problem, plan, priced.iteration_time_s)
    made = plan, priced, simulation, cost
    report(simulated(*made).to_json(), simulation_report(*made), as_json=options.json)
    if options.svg is not None or options.trace is not None:
        from hetopt.report.timeline.modelled import modelled_timeline

        timeline = modelled_timeline(problem.name, plan, priced, simulation)
        names = write_pictures(timeline, options.svg, options.trace)
        if not options.json:
            emit(f"wrote {', '.join(names)}")
    return 0


def _run_several(problem: Problem, plan: Plan, options: argparse.Namespace) -> int:
    """Simulate a plan of several pipelines, or with sequences of several lengths."""
    from hetopt.pricing.several import price_several
    from hetopt.report.simulation import several_simulated, several_simulation_report

    for flag, given in (("--svg", options.svg), ("--trace", options.trace)):
        if given is not None:
            msg = "draws one pipeline, and the plan has several: leave it out"
            if problem.training.lengths is not None:
                msg = "draws sequences of one length, and lengths differ: leave it out"
            raise InputError(msg, field=flag)
    priced = price_several(problem, plan)
    report(
        several_simulated(plan, priced).to_json(),
        several_simulation_report(plan, priced),
        as_json=options.json,
    )
    return 0
