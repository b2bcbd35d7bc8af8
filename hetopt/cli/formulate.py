"""Write the program of one (p, q), for another solver or for a look."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.cli.inputs import add_problem, add_table, load_problem, load_table, whole
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_outputs
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from hetopt.cost.table import CostTable
    from hetopt.formulations.program import ProgramData
    from hetopt.problem.problem import Problem

#: Formulations and the file name endings each can be written to.
FORMATS = {
    "cp-sat": (".proto", ".pbtxt"),
    "intervals": (".lp", ".mps"),
    "miqp": (".lp", ".mps"),
    "uniap": (".lp", ".mps"),
}

#: What a whole file ends in, in lower case.
LAST_WORDS = {".lp": b"end", ".mps": b"endata"}


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    add_problem(command)
    command.add_argument(
        "--p", type=whole(1), required=True, metavar="P", help="pipeline stages"
    )
    command.add_argument(
        "--q", type=whole(1), required=True, metavar="Q", help="micro-batches"
    )
    command.add_argument(
        "--formulation",
        choices=tuple(FORMATS),
        default="cp-sat",
        metavar="F",
        help=f"{' or '.join(FORMATS)} (default: cp-sat)",
    )
    add_table(command)
    command.add_argument(
        "--out",
        required=True,
        metavar="FILE",
        help="model.proto (binary) or model.pbtxt (text) for cp-sat; "
        "model.lp or model.mps for others",
    )


def run(options: argparse.Namespace) -> int:
    """Build the program and write it."""
    endings = FORMATS[options.formulation]
    if not options.out.endswith(endings):
        msg = f"the name does not end in {' or '.join(endings)}"
        raise InputError(msg, file=options.out, field="--out")
    ensure_outputs((options.out,), (options.table,), problems=(options.problem,))
    if options.formulation == "uniap":
        problem = load_problem(options.problem, "gpipe")
        table = load_table(problem, options.table)
        size = _write_uniap(problem, table, options.p, options.q, options.out)
        emit(f"wrote {options.out}: {size}")
        return 0
    problem = load_problem(options.problem)
    if problem.training.schedule == "auto" and options.formulation != "cp-sat":
        msg = (
            f"{options.formulation} cannot choose warm-up counts (auto): use cp-sat, "
            "or name a schedule that prescribes them"
        )
        raise InputError(msg, field="training.schedule")
    table = load_table(problem, options.table)
    data = _data(problem, table, options.p, options.q)
    write = {
        "cp-sat": _write_cp_sat,
        "intervals": _write_intervals,
        "miqp": _write_miqp,
    }
    emit(f"wrote {options.out}: {write[options.formulation](data, options.out)}")
    return 0


def _write_cp_sat(data: ProgramData, path: str) -> str:
    """Write the CP-SAT program; returns its size in words."""
    from hetopt.files import write_bytes
    from hetopt.formulations.cp_sat import PipelineProgram

    proto = PipelineProgram(data).model.Proto()
    as_text = path.endswith(".pbtxt")
    write_bytes(path, str(proto).encode() if as_text else proto.SerializeToString())
    return (
        f"{len(proto.variables)} variables, {len(proto.constraints)} constraints; "
        "the objective is in picoseconds"
    )


def _write_intervals(data: ProgramData, path: str) -> str:
    """Write the interval program; returns its size in words."""
    from hetopt.formulations.intervals import IntervalProgram
    from hetopt.solvers.highs import HighsRun

    program = IntervalProgram(data)
    with _scratch(path) as scratch:
        HighsRun(program.program).write(scratch)
    lp = program.program
    return (
        f"{len(lp.names)} columns, {len(lp.row_names)} rows, {lp.nonzeros} nonzeros; "
        f"the objective is in units of {program.unit_ns} nanoseconds"
    )


def _write_miqp(data: ProgramData, path: str) -> str:
    """Write the MIQP, products and all; returns its size in words."""
    from hetopt.formulations.miqp import QuadraticProgram

    program = QuadraticProgram(data)
    with _scratch(path) as scratch:
        variables, rows, products = program.write(scratch)
    return (
        f"{variables} variables, {rows} constraints, {products} of them with "
        f"products; the objective is in units of {program.places.unit} nanoseconds"
    )


def _write_uniap(
    problem: Problem, table: CostTable, stages: int, microbatches: int, path: str
) -> str:
    """Write UniAP's program, linearised; returns its size in words."""
    from hetopt.cost.layer_costs import layer_graph, unit_costs
    from hetopt.formulations.uniap import UniapLinear
    from hetopt.formulations.uniap_choice import UniapProgram
    from hetopt.solvers.highs import HighsRun

    unit_costs(table)
    _refuse("--p", stages, problem.stage_counts)
    _refuse("--q", microbatches, problem.microbatch_counts)
    graph = layer_graph(table, stages, microbatches)
    if graph is None:
        msg = f"no strategy has stages of 1/{stages} of the devices and fits"
        raise InputError(msg, field="--p")
    form = UniapLinear(
        UniapProgram(stages=stages, microbatches=microbatches, graph=graph)
    )
    lp = form.linear
    with _scratch(path) as scratch:
        HighsRun(lp).write(scratch)
    return (
        f"{len(lp.names)} columns, {len(lp.row_names)} rows, {lp.nonzeros} nonzeros; "
        f"the objective is in units of {form.time_unit_ns:.10g} nanoseconds"
    )


@contextmanager
def _scratch(path: str) -> Iterator[str]:
    """Name a file for a library to write, whose content then goes to ``path``.

    HiGHS crashes on a path it cannot open and does not notice a full disk, and
    libraries leave half a file behind when they are interrupted.
    """
    from hetopt.files import write_bytes

    ending = path[path.rindex(".") :]
    try:
        with tempfile.TemporaryDirectory(prefix="hetopt-") as folder:
            scratch = Path(folder, f"model{ending}")
            yield str(scratch)
            content = scratch.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        msg = f"cannot be written: {reason} in the folder for temporary files"
        raise InputError(msg, file=path) from error
    if not content.rstrip().lower().endswith(LAST_WORDS[ending]):
        msg = "cannot be written: no space in the folder for temporary files"
        raise InputError(msg, file=path)
    write_bytes(path, content)


def _data(
    problem: Problem, table: CostTable, stages: int, microbatches: int
) -> ProgramData:
    """Return what (p, q) is built from, with a cutoff that no plan exceeds."""
    from hetopt.formulations.chain import Chain
    from hetopt.formulations.program import (
        ProgramData,
        objective_ceiling,
        within,
    )
    from hetopt.formulations.space import undominated

    _refuse("--p", stages, problem.stage_counts)
    _refuse("--q", microbatches, tuple(part.microbatches for part in table.slices))
    chain = Chain.of(table)
    part = undominated(table, table.at(microbatches), chain)
    cutoff = objective_ceiling(part, chain, stages)
    return ProgramData(
        part=within(part, cutoff),
        chain=chain,
        schedule=table.schedule,
        pins=problem.pins,
        names=table.cluster_names,
        devices=table.cluster_devices,
        usable_bytes=table.usable_bytes,
        stages=stages,
        cutoff=cutoff,
    )


def _refuse(flag: str, value: int, known: tuple[int, ...]) -> None:
    if value not in known:
        allowed = ", ".join(map(str, known)) or "none"
        raise InputError(
            f"{value} is not possible, expected one of {allowed}", field=flag
        )
