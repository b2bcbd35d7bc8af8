"""Plan again after devices are lost or added: what moves."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from hetopt.cli.asking import naming, search_of
from hetopt.cli.commands.plan import EXIT_CODES
from hetopt.cli.flag import Flag, as_json, count, repeated, writes
from hetopt.cli.flags import (
    JOBS,
    LAUNCHER,
    PIPELINES,
    PLAN,
    PROBLEM,
    RELAX_OF_PLAN,
    SEED,
    SOLVER,
    TIME_LIMIT,
)
from hetopt.cli.numbers import not_negative, quantity
from hetopt.cli.output import complain, json_text, report, told
from hetopt.cli.paths import ensure_files
from hetopt.cli.plan_files import read_json
from hetopt.cli.planned import load_reported
from hetopt.cli.searching import searching
from hetopt.errors import CheckError
from hetopt.problem.quantity import parse_bandwidth
from hetopt.solvers.refusals import ensure_races

if TYPE_CHECKING:
    from hetopt.planning.posed import Posed
    from hetopt.problem.document.document import Document
    from hetopt.replanning.replan import Change, Replanned

#: Largest value of ``--iterations``.
MOST_ITERATIONS = 10**12


#: What this command takes.
TAKES = (
    PROBLEM,
    PLAN.but("the plan that ran: what `hetopt plan --out` wrote"),
    repeated(
        "--lost",
        "NODE[:DEVICE]",
        "a node that is gone, or one of its devices: CLUSTER/NUMBER (from 0) or HOST, "
        "and the device's number from 0; or a whole CLUSTER; may be given again",
    ),
    repeated(
        "--added",
        "CLUSTER/HOST",
        "a node that joins a cluster, under its name; may be given again",
    ),
    count(
        "--iterations",
        "iterations until the next change is expected: what moving has to pay for",
        most=MOST_ITERATIONS,
        required=True,
    ),
    Flag(
        "--restart",
        "seconds that any change of plan takes beside its moves (default: 0)",
        "S",
        type=not_negative,
        default=0.0,
    ),
    Flag(
        "--checkpoint-bandwidth",
        "the rate at which all devices together read a checkpoint, such as '20 GB/s': "
        "for slices that no remaining device holds, and to compare with a restart",
        "RATE",
        type=quantity(
            parse_bandwidth,
            (1.0, "expected at least 1 B/s: leave it out if nothing is read"),
        ),
    ),
    LAUNCHER,
    SOLVER,
    RELAX_OF_PLAN,
    PIPELINES.but(
        "the most pipelines side by side (default: as many as PLAN has)", default=None
    ),
    TIME_LIMIT.but("end after this many seconds in all, with the best plan so far"),
    JOBS,
    SEED,
    writes("--out", "write the next plan, as `hetopt plan --out` does"),
    writes(
        "--problem-out",
        "write the problem of the next plan, YAML, with a name for each node",
    ),
    writes(
        "--moves", "write which slice of which tensor goes from where to where, CSV"
    ),
    as_json("answer"),
)


class Asked(NamedTuple):
    """The user's request, with the files that it names.

    Attributes
    ----------
    document
        The document after the change; nodes in their old order.
    original
        The document before the change.
    posed
        What is searched.
    """

    change: Change
    document: Document
    original: Document
    posed: Posed


def run(options: argparse.Namespace) -> int:
    """Read the old plan, search, check the result, and report it."""
    from hetopt.planning.posed import ensure_holds

    ensure_files(options, plans=True)
    asked = _asked(options)
    found = _searched(asked)
    ensure_holds(asked.posed.problem, asked.posed.table, found.result)
    _ensure_moves_hold(asked, found)
    _deliver(asked, found, options)
    if not found.candidates:
        from hetopt.report.summary import headline

        complain(headline(found.result))
    return EXIT_CODES[found.result.status]


def _asked(options: argparse.Namespace) -> Asked:
    from hetopt.check.plan.reading import read_principles
    from hetopt.planning.posed import Posed
    from hetopt.problem.document.document import load_document
    from hetopt.problem.named import problem_path
    from hetopt.problem.reading import problem_of
    from hetopt.replanning.nodes import changed
    from hetopt.replanning.problems import with_nodes
    from hetopt.replanning.replan import Change

    data = read_json(options.plan)
    problem, _, (plan, *_), _ = load_reported(
        options.problem, options.plan, None, several=True
    )
    before, after = changed(problem, options.lost, options.added)
    path = problem_path(options.problem)
    document = load_document(path)
    # This inserts the content of the files that the document names.
    problem_of(document, path)
    after_it = with_nodes(document, after)
    left = problem_of(after_it, path)
    left = left.under(plan.schedule, plan.chunks, plan.warmup_epsilon)
    own: dict[str, Any] = {
        "time": "closed",
        "pipelines": options.pipelines or len(plan.pipelines),
        "launcher": options.launcher or data.get("launch", {}).get("launcher"),
    }
    if options.relax is None:
        own["principles"] = read_principles({"relaxed": [], **data})
    ensure_races(options.solver, "--solver")
    search = search_of(options, problem=left, **own)
    with naming(options):
        posed = Posed.of(search)
    change = Change(
        problem=problem,
        plan=plan,
        before=before,
        after=after,
        iterations=options.iterations,
        restart_s=options.restart,
        checkpoint_bytes_per_s=options.checkpoint_bandwidth,
    )
    return Asked(change, after_it, document, posed)


def _searched(asked: Asked) -> Replanned:
    """Search under a progress bar; from here on a signal ends the search."""
    from hetopt.replanning.candidates import Searched
    from hetopt.replanning.replan import Replanning

    posed = asked.posed
    with searching(posed) as request:
        searched = Searched(posed=posed, request=request)
        found = Replanning(asked.change, searched, told()).run()
        if posed.over.launcher is None:
            return found
        result = posed.with_cost_of_limits(found.result, request)
        return replace(found, result=result)


def _ensure_moves_hold(asked: Asked, found: Replanned) -> None:
    """Raise CheckError unless independent code confirms the moves."""
    from hetopt.check.plan.moves import check_moves
    from hetopt.replanning.layouts import device_names, layout_of

    if not found.candidates:
        return
    best, change = found.candidates[0], asked.change
    before = layout_of(change.problem, change.plan, change.before)
    left = {
        node.device(number).name
        for node in change.after
        for number in range(len(node.devices))
    }
    findings = check_moves(
        asked.posed.problem,
        best.moves.to_csv(),
        (change.plan, best.priced.plan),
        (device_names(before), device_names(best.layout)),
        left,
    )
    if findings:
        raise CheckError(findings)


def _deliver(asked: Asked, found: Replanned, options: argparse.Namespace) -> None:
    """Print the answer, and write the files that were asked for."""
    from hetopt.base.files import write_text
    from hetopt.replanning.problems import left_out, problem_text, with_nodes
    from hetopt.report.replanning import NextPlan, replan_report

    if options.json or found.candidates:
        parts = replan_report(found, asked.change) if found.candidates else ()
        report(NextPlan.of(found, asked.change).to_json(), parts, as_json=options.json)
    if not found.candidates:
        return
    best = found.candidates[0]
    document = with_nodes(asked.document, best.nodes)
    complain(*(f"warning: {text}" for text in left_out(asked.original, document)))
    if options.problem_out is not None:
        what = ", ".join((*options.lost, *(f"+{each}" for each in options.added)))
        head = f"{asked.change.problem.name} after a change: {what}"
        write_text(
            options.problem_out, problem_text(document, options.problem_out, head)
        )
    if options.moves is not None:
        write_text(options.moves, best.moves.to_csv())
    if options.out is not None:
        write_text(options.out, json_text(found.result.to_json()) + "\n")
