"""Write the program of one (p, q), or read its solution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cli.flag import Flag, count, reads, writes
from hetopt.cli.flags import PROBLEM, TABLE
from hetopt.cli.inputs import load_problem, load_table
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_files
from hetopt.errors import CheckError, InputError
from hetopt.schedule.schedules import rule_of
from hetopt.solvers.refusals import ensure_plans

if TYPE_CHECKING:
    import argparse

    from hetopt.cli.written import Written
    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

#: Formulations, and the endings of files that each can be written to.
FORMATS = {
    "cp-sat": (".proto", ".pbtxt"),
    "intervals": (".lp", ".mps"),
    "miqp": (".lp", ".mps"),
    "uniap": (".lp", ".mps"),
}


#: What this command takes.
TAKES = (
    PROBLEM,
    count("--p", "pipeline stages", "P", required=True),
    count("--q", "micro-batches", "Q", required=True),
    Flag(
        "--formulation",
        f"{' or '.join(FORMATS)} (default: cp-sat)",
        "F",
        choices=tuple(FORMATS),
        default="cp-sat",
    ),
    TABLE,
    writes(
        "--out",
        "model.proto (binary) or model.pbtxt (text) for cp-sat; model.lp or model.mps "
        "for others; with --solution: the plan",
        required=True,
    ),
    reads(
        "--solution",
        "instead of writing the program, turn this solution of it (by GLPK, CBC, SCIP, "
        "HiGHS or Gurobi) into a checked plan",
    ),
)


def run(options: argparse.Namespace) -> int:
    """Build the program; write it, or read a solution of it as a plan."""
    solved = options.solution is not None
    ensure_files(options, plans=solved)
    if solved:
        return _read_solution(options)
    endings = FORMATS[options.formulation]
    if not options.out.endswith(endings):
        msg = f"the name does not end in {' or '.join(endings)}"
        raise InputError(msg, file=options.out, field="--out")
    problem, table = _load(options)
    if options.formulation == "cp-sat":
        said = _write_cp_sat(problem, table, options)
    else:
        said = _write(problem, table, options)
    emit(f"wrote {options.out}: {said}")
    return 0


def _load(options: argparse.Namespace) -> tuple[Problem, CostTable]:
    """Read problem and table; refuse schedules that a formulation lacks."""
    form = options.formulation
    problem = load_problem(options.problem, "gpipe" if form == "uniap" else None)
    ensure_plans("cp-sat", problem.training.schedule)
    if rule_of(problem.training.schedule).blocking and form == "miqp":
        msg = "miqp does not support blocking transfers: use cp-sat or intervals"
        raise InputError(msg, field="training.schedule")
    if rule_of(problem.training.schedule).splits and form == "miqp":
        msg = "miqp has no gradients of weights apart: use cp-sat or intervals"
        raise InputError(msg, field="training.schedule")
    chunks = problem.training.chunks
    if chunks > 1 and form == "miqp":
        msg = f"is {chunks}, and miqp has one chunk a stage: use cp-sat or intervals"
        raise InputError(msg, field="training.chunks")
    if problem.pins.cuts is not None:
        msg = "fixes where chunks end, which no program does: leave it out, or plan it"
        raise InputError(msg, field=f"pin.{problem.pins.cuts_key}")
    return problem, load_table(problem, options.table)


def _write(problem: Problem, table: CostTable, options: argparse.Namespace) -> str:
    """Write an LP or MPS file; returns its size and unit in words."""
    from hetopt.base.files import write_bytes

    written = _BUILD[options.formulation](problem, table, options)
    head = [
        *_head(problem, table, options),
        f"minimised: {_minimised(table, options)}, in units of {written.unit}",
        f"column {written.mark} is fixed at 1, so that solutions name their program",
        f"read by {written.readers}",
        "as a plan: hetopt formulate PROBLEM --p P --q Q --formulation F "
        "--solution FILE --out plan.json",
    ]
    write_bytes(options.out, written.content(options.out, head))
    return f"{written.size}; the objective is in units of {written.unit}"


def _write_cp_sat(
    problem: Problem, table: CostTable, options: argparse.Namespace
) -> str:
    """Write the CP-SAT program; returns its size in words."""
    from hetopt.base.files import write_bytes
    from hetopt.formulations.cp_sat.program import PipelineProgram

    proto = PipelineProgram(_data(problem, table, options)).model.Proto()
    head = [
        *_head(problem, table, options),
        f"minimised: {_minimised(table, options)}, in picoseconds",
    ]
    proto.name = "; ".join(head)
    if options.out.endswith(".pbtxt"):
        content = "".join(f"# {line}\n" for line in head) + str(proto)
        write_bytes(options.out, content.encode())
    else:
        write_bytes(options.out, proto.SerializeToString())
    return (
        f"{counted(len(proto.variables), 'variable')}, "
        f"{counted(len(proto.constraints), 'constraint')}; the objective is in "
        "picoseconds"
    )


def _head(problem: Problem, table: CostTable, options: argparse.Namespace) -> list[str]:
    """Return the first lines of a file, which identify the program."""
    from hetopt.cost.table_file.file import table_digest
    from hetopt.version import __version__

    return [
        f"hetopt {__version__}, formulation {options.formulation}: p = "
        f"{counted(options.p, 'stage')}, q = {counted(options.q, 'micro-batch', 'es')}",
        f"problem {' '.join(problem.name.split())[:60]!a}, digest "
        f"{table.problem_digest}",
        f"latency table, digest {table_digest(table)}",
    ]


def _read_solution(options: argparse.Namespace) -> int:
    """Turn a solver's solution into a checked plan."""
    import json

    from hetopt.base.files import write_text
    from hetopt.check import check_plan
    from hetopt.solvers.mip.solution_file import read_solution

    if options.formulation not in _BUILD:
        msg = (
            f"is {options.formulation}, whose solutions are not read: expected "
            f"{', '.join(_BUILD)}"
        )
        raise InputError(msg, field="--formulation")
    solution = read_solution(options.solution)
    problem, table = _load(options)
    plan = _BUILD[options.formulation](problem, table, options).plan(solution)
    try:
        checked = check_plan(problem, table, plan)
    except CheckError as error:
        msg = f"its plan does not hold: {error.findings[0]}"
        raise InputError(msg, file=options.solution) from error
    write_text(options.out, json.dumps(plan.to_json(), indent=2) + "\n")
    times = [
        f"{checked.closed_form_s:.6g} s in closed form",
        f"{checked.iteration_time_s:.6g} s simulated",
    ]
    if checked.uniap_s is not None:
        times.insert(0, f"UniAP's objective {checked.uniap_s:.6g} s")
    emit(f"wrote {options.out}: a plan of {solution.solver}'s solution, checked")
    emit(", ".join(times))
    return 0


def _intervals(
    problem: Problem, table: CostTable, options: argparse.Namespace
) -> Written:
    from hetopt.cli.written import WrittenLinear
    from hetopt.formulations.intervals.program import IntervalProgram

    program = IntervalProgram(_data(problem, table, options))
    return WrittenLinear(
        program.program,
        mark=_mark(table, options),
        unit=f"{program.unit_ns} nanoseconds",
        decide=lambda values: _plan_of(program.extract(values), table),
    )


def _miqp(problem: Problem, table: CostTable, options: argparse.Namespace) -> Written:
    from hetopt.cli.written import WrittenQuadratic
    from hetopt.formulations.miqp.program import QuadraticProgram

    program = QuadraticProgram(_data(problem, table, options))
    return WrittenQuadratic(
        program,
        mark=_mark(table, options),
        decide=lambda: _plan_of(program.extract(), table),
    )


def _uniap(problem: Problem, table: CostTable, options: argparse.Namespace) -> Written:
    """Return UniAP's program, linearised."""
    import numpy as np

    from hetopt.cli.written import WrittenLinear
    from hetopt.cost.per_unit.layer_costs import layer_graph, unit_costs
    from hetopt.formulations.uniap.choice import UniapProgram
    from hetopt.formulations.uniap.program import UniapLinear
    from hetopt.solvers.uniap.outcome import plan_of

    unit_costs(table)
    _refuse("--p", options.p, problem.stage_counts)
    _refuse("--q", options.q, problem.microbatch_counts)
    graph = layer_graph(table, options.p, options.q)
    if graph is None:
        msg = f"no strategy has stages of 1/{options.p} of the devices and fits"
        raise InputError(msg, field="--p")
    program = UniapProgram(stages=options.p, microbatches=options.q, graph=graph)
    form = UniapLinear(program)
    return WrittenLinear(
        form.linear,
        mark=_mark(table, options),
        unit=f"{form.time_unit_ns!r} nanoseconds",
        decide=lambda values: plan_of(program, form.extract(np.array(values)), table),
    )


def _plan_of(decision: Decision, table: CostTable) -> Plan:
    from hetopt.cost.boundaries.places import searched_table
    from hetopt.problem.training.principles import PRUNED
    from hetopt.solvers.decisions.assembly import plan_of
    from hetopt.solvers.loading import as_planned

    return as_planned(plan_of(decision, searched_table(table, PRUNED), ""), table)


def _mark(table: CostTable, options: argparse.Namespace) -> str:
    """Name a program: formulation, p, q, and the beginning of its table's digest."""
    from hetopt.cost.table_file.file import table_digest

    digest = table_digest(table)[:12]
    return f"{options.formulation}_p{options.p}_q{options.q}_{digest}"


#: Formulations whose files are LP or MPS, and how to build them.
_BUILD = {"intervals": _intervals, "miqp": _miqp, "uniap": _uniap}


def _minimised(table: CostTable, options: argparse.Namespace) -> str:
    """Return what a program minimises, in words."""
    if options.formulation == "uniap":
        return "UniAP's objective"
    # No program has the closed form of several chunks.
    estimate = "an estimate of " if table.chunks > 1 else ""
    return f"{estimate}the iteration time in closed form"


def _data(
    problem: Problem, table: CostTable, options: argparse.Namespace
) -> ProgramData:
    """Return the data of the program of (p, q), with a cutoff that no plan exceeds."""
    from hetopt.cost.boundaries.places import searched_table
    from hetopt.formulations.ceiling import objective_ceiling, within
    from hetopt.formulations.chain import Chain
    from hetopt.formulations.program import ProgramData
    from hetopt.formulations.space import undominated
    from hetopt.problem.training.principles import PRUNED

    stages, microbatches = options.p, options.q
    _refuse("--p", stages, problem.stage_counts)
    _refuse("--q", microbatches, tuple(part.microbatches for part in table.slices))
    table = searched_table(table, PRUNED)
    chain = Chain.of(table)
    part = undominated(table, table.at(microbatches), chain)
    cutoff = objective_ceiling(part, chain, stages)
    return ProgramData.of(
        table, within(part, cutoff), chain, problem.pins, stages=stages, cutoff=cutoff
    )


def _refuse(flag: str, value: int, known: tuple[int, ...]) -> None:
    if value not in known:
        allowed = ", ".join(map(str, known)) or "none"
        raise InputError(
            f"{value} is not possible, expected one of {allowed}", field=flag
        )
