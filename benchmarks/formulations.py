"""Formulations and solvers compared on single programs, one (p, q) each.

Run with ``python -m benchmarks.formulations [--time-limit 300] [--out DIR]``; it takes
half an hour at that limit (seconds), and less than one minute with ``--quick``.
``--solver`` and ``--problem``, which may be repeated, leave the others out. Prints
Markdown; ``--out`` also writes ``formulations.csv`` there, for instance to
``benchmarks/results``. Ends with 1 if two solvers contradict each other or one fails.

Programs are (1, 32), (2, 32), (4, 32) and (8, 32) of exp1 and (3, 32) of exp2, in up
to three variants:

- ``whole``: all undominated strategies, and a cutoff that no plan exceeds;
- ``own``: cutoff and narrowing as in the race if p and q are pinned: the cutoff is this
  program's own optimum;
- ``race``: cutoff and narrowing as in the race over all (p, q) once it knows its
  optimum. A program that the relaxation refutes needs no engine: one row.

For cp-sat and milp, also all programs of exp3 in the variant ``race`` that the
relaxation does not refute.

Columns of the table: ``build s`` is the time from a program's data to the solver's
input (for miqp-scip to the Pyomo model; passing that on counts as solving), and
``solve s`` the engine's time minus that, as the engine builds the program again.
``rows`` and ``columns`` are constraints and variables before presolve, for miqp-highs
after linearisation; ``nonzeros`` are those of linear programs. ``root`` is the bound
of the linear relaxation before any cut, for solvers of linear programs; ``inf`` says
that the relaxation is infeasible. Times of plans are closed forms in seconds. Every
solver has one thread and the same seed, and none is given a plan to start from, unlike
in the race, which passes on the best known one; nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from math import inf, isclose
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.programs import PROGRAMS, RACED, SEED, Case, cases
from hetopt.base.deadline import Deadline
from hetopt.base.files import ensure_writable, write_text
from hetopt.cost.table.ticks import TICK_S
from hetopt.errors import InputError, SolverError
from hetopt.formulations.cp_sat.program import PipelineProgram
from hetopt.formulations.intervals.program import IntervalProgram
from hetopt.formulations.miqp.linearise import linear_program, linearise
from hetopt.formulations.miqp.program import QuadraticProgram
from hetopt.solvers.cp_sat import CpSatEngine
from hetopt.solvers.decisions.assembly import bound_seconds
from hetopt.solvers.decisions.exact import exact_value
from hetopt.solvers.mip.backends import ScipBackend
from hetopt.solvers.mip.highs import HighsRun
from hetopt.solvers.mip.milp import MilpEngine
from hetopt.solvers.mip.miqp import MiqpHighsEngine, MiqpScipEngine
from hetopt.solvers.race.engine import EngineRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hetopt.formulations.linear_program import LinearProgram
    from hetopt.formulations.program import ProgramData
    from hetopt.solvers.race.engine import Engine

#: Two solvers' optima count as equal up to this relative difference.
AGREEMENT = 1e-6
#: Solvers that get the programs of the problem that has too many for all solvers.
RACERS = ("cp-sat", "milp")


class Built(NamedTuple):
    """A program as input of a solver.

    ``linear`` counts its objective in ``unit_ns``; ``model_s`` is the time until the
    Pyomo model, which the engines of the MIQP count as theirs.
    """

    rows: int
    columns: int
    linear: LinearProgram | None = None
    unit_ns: int = 0
    model_s: float = 0.0


class Solver(NamedTuple):
    """The function that builds a formulation, and the engine that solves it."""

    formulation: str
    build: Callable[[ProgramData], Built]
    engine: Callable[[int], Engine]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table; None for an empty cell."""

    problem: str
    p: int
    q: int
    variant: str
    formulation: str
    solver: str
    rows: int | None = None
    columns: int | None = None
    nonzeros: int | None = None
    build_s: float | None = None
    root_s: float | None = None
    solve_s: float | None = None
    value_s: float | None = None
    bound_s: float | None = None
    gap: float | None = None
    status: str

    def markdown(self) -> str:
        """Return the line in Markdown."""
        shape = f"({self.p}, {self.q})"
        sizes = (self.rows, self.columns, self.nonzeros)
        cells = (
            self.problem.removeprefix("hetauto-"),
            shape,
            self.variant,
            self.solver,
            *("" if size is None else f"{size:,}" for size in sizes),
            _number(self.build_s, ".2f"),
            _number(self.root_s, ".4f"),
            _number(self.solve_s, ".2f"),
            _number(self.value_s, ".4f"),
            _number(self.bound_s, ".4f"),
            _number(self.gap, ".2%"),
            self.status,
        )
        return f"| {' | '.join(cells)} |"


HEADER = (
    "| problem | (p, q) | variant | solver | rows | columns | nonzeros | build s "
    "| root | solve s | best | bound | gap | status |\n"
    f"|{'---|' * 14}"
)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _build_cp_sat(data: ProgramData) -> Built:
    proto = PipelineProgram(data).model.Proto()
    return Built(rows=len(proto.constraints), columns=len(proto.variables))


def _build_milp(data: ProgramData) -> Built:
    program = IntervalProgram(data)
    linear = program.program
    return Built(
        rows=len(linear.row_names),
        columns=len(linear.names),
        linear=linear,
        unit_ns=program.unit_ns,
    )


def _build_miqp_highs(data: ProgramData) -> Built:
    began = time.perf_counter()
    program = QuadraticProgram(data)
    model_s = time.perf_counter() - began
    model = program.model.clone()
    linearise(model)
    linear, _ = linear_program(model)
    return Built(
        rows=len(linear.row_names),
        columns=len(linear.names),
        linear=linear,
        unit_ns=program.places.unit,
        model_s=model_s,
    )


def _build_miqp_scip(data: ProgramData) -> Built:
    began = time.perf_counter()
    model = QuadraticProgram(data).model
    model_s = time.perf_counter() - began
    return Built(rows=model.nconstraints(), columns=model.nvariables(), model_s=model_s)


SOLVERS: Mapping[str, Solver] = MappingProxyType(
    {
        "cp-sat": Solver("cp-sat", _build_cp_sat, CpSatEngine),
        "milp": Solver("intervals", _build_milp, MilpEngine),
        "miqp-highs": Solver("miqp, linearised", _build_miqp_highs, MiqpHighsEngine),
        "miqp-scip": Solver("miqp", _build_miqp_scip, MiqpScipEngine),
    }
)


def measure(case: Case, name: str, *, time_limit_s: float) -> Row:
    """Build and solve one program with one solver."""
    data, solver = case.data, SOLVERS[name]
    assert data is not None
    began = time.perf_counter()
    built = solver.build(data)
    build_s = time.perf_counter() - began
    linear = built.linear
    row = Row(
        problem=case.problem,
        p=case.stages,
        q=case.microbatches,
        variant=case.variant,
        formulation=solver.formulation,
        solver=name,
        rows=built.rows,
        columns=built.columns,
        nonzeros=None if linear is None else linear.nonzeros,
        build_s=build_s,
        root_s=_root_s(built, time_limit_s),
        status="failed",
    )
    began = time.perf_counter()
    try:
        how = EngineRun(deadline=Deadline.after(time_limit_s + built.model_s))
        answer = solver.engine(SEED).settle(data, how)
    except SolverError as error:
        print(f"{name} on {case.problem} ({row.p}, {row.q}): {error}", file=sys.stderr)
        return row
    solve_s = max(0.0, time.perf_counter() - began - build_s)
    if answer.verdict == "infeasible":
        return replace(row, solve_s=solve_s, status="no plan within the cutoff")
    value = None if answer.decision is None else exact_value(answer.decision, data)
    bound = answer.bound if value is None else min(answer.bound, value)
    return replace(
        row,
        solve_s=solve_s,
        value_s=None if value is None else bound_seconds(value, row.q),
        bound_s=max(0.0, bound_seconds(bound, row.q)),
        gap=None if value is None else (value - bound) / value,
        status="optimal" if answer.verdict == "optimal" else "time limit",
    )


def _root_s(built: Built, time_limit_s: float) -> float | None:
    """Return the bound of the linear relaxation; None if there is none in time."""
    if built.linear is None:
        return None
    built.linear.integer = [False] * built.columns
    run = HighsRun(built.linear, seed=SEED)
    verdict = run.solve(deadline=Deadline.after(time_limit_s))
    if verdict == "stopped":
        return None
    return inf if verdict == "infeasible" else run.objective * built.unit_ns * TICK_S


def contradiction(rows: Iterable[Row]) -> str | None:
    """Return how two solvers' proofs of one program contradict each other, or None."""
    proofs = [
        row for row in rows if row.status in ("optimal", "no plan within the cutoff")
    ]
    for row in proofs[1:]:
        ours, theirs = proofs[0].value_s, row.value_s
        if ours is None or theirs is None:
            same = ours is theirs
        else:
            same = isclose(ours, theirs, rel_tol=AGREEMENT)
        if not same:
            return (
                f"{proofs[0].solver} proves {ours} and {row.solver} {theirs} "
                f"of {row.problem} ({row.p}, {row.q}) {row.variant}"
            )
    return None


def _csv(rows: Iterable[Row]) -> str:
    text = io.StringIO()
    names = [field.name for field in fields(Row)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(map(asdict, rows))
    return text.getvalue()


def _available() -> tuple[str, ...]:
    try:
        ScipBackend.ensure_available()
    except InputError as error:
        print(error, file=sys.stderr)
        return tuple(name for name in SOLVERS if name != "miqp-scip")
    return tuple(SOLVERS)


def main() -> int:
    """Print the table line by line; write the CSV again after each line."""
    summary = (__doc__ or "").partition("\n")[0]
    names = (*PROGRAMS, RACED)
    parser = argparse.ArgumentParser(description=summary)
    parser.add_argument("--time-limit", type=float, default=300, metavar="S")
    parser.add_argument("--quick", action="store_true", help="a few narrowed programs")
    parser.add_argument("--solver", action="append", choices=tuple(SOLVERS))
    parser.add_argument("--problem", action="append", choices=names)
    parser.add_argument("--out", type=Path, metavar="DIR")
    options = parser.parse_args()
    limit_s = options.time_limit
    chosen = [s for s in _available() if s in (options.solver or SOLVERS)]
    path = None
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        path = str(options.out / "formulations.csv")
        ensure_writable(path)
    rows: list[Row] = []
    faults = 0
    print(f"{os.cpu_count()} cores, {limit_s:g} s per solve\n\n{HEADER}", flush=True)
    for case in cases(options.problem or names, quick=options.quick):
        solvers = [s for s in chosen if case.problem != RACED or s in RACERS]
        found = []
        for row in _rows(case, solvers, limit_s):
            print(row.markdown(), flush=True)
            found.append(row)
            faults += row.status == "failed"
        rows += found
        if path is not None:
            write_text(path, _csv(rows))
        fault = contradiction(found)
        if fault is not None:
            print(fault, file=sys.stderr)
            faults += 1
    return int(faults > 0)


def _rows(case: Case, solvers: Iterable[str], time_limit_s: float) -> Iterator[Row]:
    if case.data is None:
        yield Row(
            problem=case.problem,
            p=case.stages,
            q=case.microbatches,
            variant=case.variant,
            formulation="relaxation",
            solver="",
            status="refuted by bound",
        )
        return
    for name in solvers:
        yield measure(case, name, time_limit_s=time_limit_s)


if __name__ == "__main__":
    raise SystemExit(main())
