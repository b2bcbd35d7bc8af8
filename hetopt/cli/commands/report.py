"""Write plans as one HTML page, which needs no network."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.cli.flag import reads, repeated, writes
from hetopt.cli.flags import PLAN, PROBLEM, TABLE
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_files
from hetopt.cli.planned import load_front, load_reported
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse

    from hetopt.report.page.contents import ReportedPlan


#: What this command takes.
TAKES = (
    PROBLEM,
    PLAN.but(
        "a file that `hetopt plan --out` wrote; several are compared",
        name="plans",
        nargs="+",
    ),
    TABLE,
    reads(
        "--journal",
        "the file that `hetopt plan --journal` kept of the search for the first PLAN: "
        "shows its bound and best plan over time",
    ),
    repeated(
        "--whatif",
        "FILE",
        "a file that `hetopt whatif --out` wrote of the problem; may be given again",
        role="reads",
    ),
    repeated(
        "--explain",
        "FILE",
        "a file that `hetopt explain --out` wrote of a PLAN: shows each cluster alone "
        "beside it; may be given again",
        role="reads",
    ),
    repeated(
        "--pareto",
        "FILE",
        "a file that `hetopt plan --pareto --out` wrote of the problem; may be given "
        "again",
        role="reads",
    ),
    writes("--out", "the page to write, such as a.html", required=True),
)


def run(options: argparse.Namespace) -> int:
    """Check every plan, and write one page on all of them."""
    from hetopt.base import reading
    from hetopt.base.files import write_text
    from hetopt.problem.named import problem_path
    from hetopt.report.page.contents import Contents
    from hetopt.report.page.history import read_history
    from hetopt.report.page.mixing import read_mixing
    from hetopt.report.page.page import page
    from hetopt.report.page.whatif import read_variants

    ensure_files(options)
    if not options.out.lower().endswith((".html", ".htm")):
        raise InputError("the page is HTML: end its name in .html", file=options.out)
    path = problem_path(options.problem)
    if not Path(path).is_file():
        msg = "is not a file: it is read once for every plan, and shown on the page"
        raise InputError(msg, file=options.problem)
    plans = [_reported(options, name) for name in options.plans]
    first = plans[0].plan
    contents = Contents(
        plans=plans,
        history=None
        if options.journal is None
        else read_history(options.journal, first),
        variants=[read_variants(name, first.problem_digest) for name in options.whatif],
        mixed=[(name, read_mixing(name, plans)) for name in options.explain],
        fronts=[
            (name, load_front(options.problem, name, options.table))
            for name in options.pareto
        ],
        problem_name=options.problem,
        problem_text=reading.read_text(path, "a problem"),
        command=_command(options),
        table=options.table,
    )
    write_text(options.out, page(contents))
    emit(f"wrote {options.out}")
    return 0


def _reported(options: argparse.Namespace, name: str) -> ReportedPlan:
    """Read and check a plan, and compute what the page shows of it."""
    from hetopt.cost.sources.accuracy import accuracies, latency_notes
    from hetopt.export.choosing import launcher_of
    from hetopt.pricing.price import price
    from hetopt.report.head import next_command
    from hetopt.report.page.contents import ReportedPlan
    from hetopt.report.timeline.modelled import modelled_timeline
    from hetopt.results.money import cost_of
    from hetopt.results.priced_plan import PricedPlan
    from hetopt.schedule.run import simulate

    problem, table, (plan, *_), result = load_reported(
        options.problem, name, options.table
    )
    priced = price(plan, table)
    time_s = priced.iteration_time_s
    timed = PricedPlan(
        plan=plan, closed_form_s=priced.closed_form_s, iteration_time_s=time_s
    )
    if result is not None and result.best is not None:
        timed = result.best
    others = () if result is None else result.alternatives
    asked = None if result is None or result.launch is None else result.launch.launcher
    launcher = launcher_of(problem, plan, asked)
    step = next_command(options.problem, name, launcher, options.table)
    own_table = options.table is not None
    return ReportedPlan(
        name=name,
        problem=problem,
        plan=plan,
        result=result,
        price=priced,
        timeline=modelled_timeline(problem.name, plan, priced, simulate(priced.times)),
        cost=cost_of(problem, plan, time_s),
        priced=timed,
        tokens=table.tokens,
        launcher=launcher,
        launch=step,
        accuracies={} if own_table else accuracies(problem, plan),
        notes=[] if own_table else latency_notes(problem, timed, others),
    )


def _command(options: argparse.Namespace) -> list[str]:
    """Return the words of the command that was given."""
    words = ["hetopt", "report", options.problem, *options.plans]
    given = [("--table", options.table), ("--journal", options.journal)]
    given += [("--whatif", name) for name in options.whatif]
    given += [("--explain", name) for name in options.explain]
    given += [("--pareto", name) for name in options.pareto]
    for flag, value in (*given, ("--out", options.out)):
        words += [] if value is None else [flag, value]
    return words
