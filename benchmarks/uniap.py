"""UniAP's six models on EnvB: every program (pp_size, c) solved by itself.

Run with ``python -m benchmarks.uniap [--time-limit 60] [--out DIR]``; it takes some six
minutes with that limit (seconds per program). ``--problem``, which may be repeated,
selects problems. ``--memory GB`` gives every device this memory instead of its own:
UniAP's Llamas do not fit on EnvB. Prints Markdown; ``--out`` also writes ``uniap.csv``
there. The exit code is 1 if some program's gap is above 4%, UniAP's limit for stopping
early.

No program has a cutoff from another one, or stops early. ``K`` is the number of
strategies of a layer; ``start`` is the result of the local search, ``value`` the best
choice found and ``bound`` the proven lower bound, in seconds of UniAP's objective;
``s`` is the time to build and solve the program, with one thread. Costs are modelled.

At the end: BERT-Huge's published plan (UniAP, appendix G), priced by our model at every
c, compared with our optimum.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from collections import Counter
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.deadline import Deadline
from hetopt.base.files import ensure_writable, write_text
from hetopt.cost.build import build_table
from hetopt.cost.per_unit.layer_costs import rows_of
from hetopt.cost.table.ticks import TICK_S
from hetopt.formulations.uniap.choice import UniapChoice
from hetopt.formulations.uniap.choice import price as price_of_choice
from hetopt.formulations.uniap.programs import uniap_pairs, uniap_programs
from hetopt.pricing.price import price
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from hetopt.report.rows import strategies
from hetopt.solvers.uniap.outcome import plan_of
from hetopt.solvers.uniap.search import solve_programs
from hetopt.solvers.uniap.start import start

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.formulations.uniap.choice import UniapProgram
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem

PROBLEMS = (
    "uniap-bert-huge",
    "uniap-t5-large",
    "uniap-vit-huge",
    "uniap-swin-huge",
    "uniap-llama-7b",
    "uniap-llama-13b",
)
#: UniAP, appendix E: the gap at which a program is stopped early.
LARGEST_GAP = 0.04
SEED = 0
#: UniAP, appendix G: layers of a stage, and how many of them are not sharded.
PUBLISHED_LAYERS, PUBLISHED_REPLICATED = 16, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One program; None for an empty cell."""

    problem: str
    p: int
    c: int
    strategies: int
    start_s: float | None = None
    value_s: float | None = None
    bound_s: float | None = None
    gap: float | None = None
    seconds: float = 0.0
    how: str

    def markdown(self) -> str:
        """Return the line in Markdown."""
        cells = (
            self.problem.removeprefix("uniap-"),
            f"({self.p}, {self.c})",
            str(self.strategies),
            _number(self.start_s, ".4f"),
            _number(self.value_s, ".4f"),
            _number(self.bound_s, ".4f"),
            _number(self.gap, ".4%"),
            format(self.seconds, ".1f"),
            self.how,
        )
        return f"| {' | '.join(cells)} |"


HEADER = (
    "| problem | (p, c) | K | start | value | bound | gap | s | settled |\n"
    f"|{'---|' * 9}"
)


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _seconds(value_ns: int | None) -> float | None:
    return None if value_ns is None else value_ns * TICK_S


def measure(name: str, program: UniapProgram, *, time_limit_s: float) -> Row:
    """Solve one program by itself."""
    choice = start(program)
    result = solve_programs([program], deadline=Deadline.after(time_limit_s), seed=SEED)
    (settled,) = result.settlements
    return Row(
        problem=name,
        p=program.stages,
        c=program.microbatches,
        strategies=len(program.graph.layers[0].strategies),
        start_s=None
        if choice is None
        else price_of_choice(program, choice).total_ns * TICK_S,
        value_s=_seconds(settled.value_ns),
        bound_s=_seconds(settled.bound_ns),
        gap=settled.gap,
        seconds=settled.build_s + settled.solve_s,
        how=settled.how,
    )


def rows_of_problem(name: str, problem: Problem, time_limit_s: float) -> Iterator[Row]:
    """Yield every (p, c); programs without a strategy that fits are not solved."""
    found = {
        (program.stages, program.microbatches): program
        for program in uniap_programs(problem, build_table(problem))
    }
    for p, c in uniap_pairs(problem):
        if (p, c) in found:
            yield measure(name, found[p, c], time_limit_s=time_limit_s)
        else:
            yield Row(problem=name, p=p, c=c, strategies=0, how="infeasible")


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a summary of the programs of every problem, and one of all."""
    for name in [*dict.fromkeys(row.problem for row in rows), ""]:
        own = [row for row in rows if name in ("", row.problem)]
        how = Counter(row.how for row in own)
        proven = len(own) - how["unsettled"]
        worst = max((row.gap for row in own if row.gap is not None), default=None)
        # Without a choice or a bound there is no gap.
        open_ends = sum(row.how == "unsettled" and row.gap is None for row in own)
        values = [row.value_s for row in own if row.value_s is not None]
        yield (
            f"{name or 'all'}: {proven} of {len(own)} programs proven "
            f"({how['solved']} solved, {how['infeasible']} infeasible), "
            f"worst gap {_number(worst, '.4%') or 'none'}, "
            f"{sum(row.seconds for row in own):.0f} s"
            + (f", {open_ends} without a choice" if open_ends else "")
            + (f", best {min(values):.4f} s" if name and values else "")
        )


def published_choice(table: CostTable, program: UniapProgram) -> UniapChoice | None:
    """Return UniAP's plan of BERT-Huge as a choice; embedding and head use DP."""
    rows = (
        table.per_unit.at(program.microbatches).clusters[0] if table.per_unit else None
    )
    if rows is None:
        return None
    labels = [
        rows.strategies[row].label
        for row in rows_of(table, program.stages, program.microbatches)
    ]
    if not {"dp2-tp2", "fsdp2-tp2"} <= set(labels):
        return None
    replicated, sharded = labels.index("dp2-tp2"), labels.index("fsdp2-tp2")
    stage = [
        replicated if layer < PUBLISHED_REPLICATED else sharded
        for layer in range(PUBLISHED_LAYERS)
    ]
    half = len(program.graph.layers) // 2
    return UniapChoice(
        stage=(0,) * half + (1,) * half,
        strategy=(replicated, *stage, *stage, replicated),
    )


def comparison(problem: Problem) -> Iterator[str]:
    """Yield BERT-Huge's published plan at every c, and our optimum, as a table."""
    table = build_table(problem)
    programs = uniap_programs(problem, table)
    yield (
        "| plan | c | UniAP's objective | closed form | simulated | MFU "
        "| GB of stages | strategies of units |\n"
        f"|{'---|' * 8}"
    )
    for program in programs:
        choice = published_choice(table, program) if program.stages == 2 else None
        if choice is not None:
            plan = plan_of(program, choice, table)
            yield _line("published", program.microbatches, plan, table)
    best = solve_programs(programs, seed=SEED)
    if best.program is not None and best.choice is not None:
        plan = plan_of(best.program, best.choice, table)
        yield _line("ours", best.program.microbatches, plan, table)


def _line(name: str, microbatches: int, plan: Plan, table: CostTable) -> str:
    priced = price(plan, table)
    peak = table.cluster_devices[0] * table.peak_flops[0]
    held = "; ".join(
        strategies(stage.unit_strategies or ()) for stage in plan.pipeline.stages
    )
    memory = ", ".join(f"{size / 1e9:.2f}" for size in priced.memory_bytes)
    cells = (
        name,
        str(microbatches),
        _number(priced.uniap_s, ".4f"),
        format(priced.closed_form_s, ".4f"),
        format(priced.iteration_time_s, ".4f"),
        format(table.model_flops / (priced.iteration_time_s * peak), ".1%"),
        f"{memory} of {priced.usable_bytes[0] / 1e9:.2f}",
        held,
    )
    return f"| {' | '.join(cells)} |"


def write_csv(rows: Iterable[Row], path: str) -> None:
    """Write all rows with unrounded numbers."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Row)])
    writer.writeheader()
    writer.writerows(asdict(row) for row in rows)
    write_text(path, text.getvalue())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S")
    parser.add_argument("--problem", action="append", choices=PROBLEMS)
    parser.add_argument("--memory", type=float, metavar="GB")
    parser.add_argument("--out", metavar="DIR")
    options = parser.parse_args(arguments)
    path = None
    if options.out is not None:
        Path(options.out).mkdir(parents=True, exist_ok=True)
        path = str(Path(options.out, "uniap.csv"))
        ensure_writable(path)
    names = options.problem or PROBLEMS
    files = problem_files()
    problems = {name: read_problem(str(files[name])) for name in names}
    if options.memory is not None:
        size = int(options.memory * 1e9)
        for name, problem in problems.items():
            cluster = replace(problem.clusters[0], memory_bytes=size)
            problems[name] = replace(problem, clusters=(cluster,))
    print(HEADER)
    rows = []
    for name, problem in problems.items():
        for row in rows_of_problem(name, problem, options.time_limit):
            rows.append(row)
            print(row.markdown(), flush=True)
    print()
    for line in summary(rows):
        print(f"- {line}")
    if "uniap-bert-huge" in problems:
        print()
        for line in comparison(problems["uniap-bert-huge"]):
            print(line)
    if path is not None:
        write_csv(rows, path)
    missed = [
        row
        for row in rows
        if row.how == "unsettled" and (row.gap is None or row.gap > LARGEST_GAP)
    ]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
