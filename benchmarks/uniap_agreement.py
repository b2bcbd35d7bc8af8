"""UniAP's program and its QIP against brute force over P and S on generated graphs.

Run with ``python -m benchmarks.uniap_agreement`` (``--graphs 100`` is the default):
chains, encoder-decoders, branches and skip edges in turn. Every graph is solved twice,
as drawn and with one stage (the QIP, Eq. 9 to 11), by

- ``edges``: the program with one-hot edges in HiGHS, as ``--solver uniap`` solves it;
- ``linearised``: the program with products, linearised, in HiGHS;
- ``products``: the program with products in SCIP, if that is installed.

The exit code is 1 if one of them finds another optimum, or disagrees on infeasibility.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from hetopt.base.deadline import Deadline
from hetopt.errors import InputError
from hetopt.formulations.uniap.choice import price
from hetopt.solvers.mip.backends import HighsBackend, RunOptions, ScipBackend
from hetopt.solvers.uniap.search import UniapParams, solve_programs
from tests.solvers.graphs import brute_force, generated
from tests.solvers.uniap.quadratic import UniapQuadratic

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.formulations.uniap.choice import UniapProgram
    from hetopt.solvers.mip.backends import Backend

SHAPES = ("chain", "encoder-decoder", "branch", "skip")


def by_edges(program: UniapProgram) -> int | None:
    """Return the optimum of the program with one-hot edges."""
    result = solve_programs([program], UniapParams())
    assert result.status in ("optimal", "infeasible")
    return result.value_ns


def by_products(backend: type[Backend]) -> Callable[[UniapProgram], int | None]:
    """Return a function that finds the optimum of the program with products."""

    def optimum(program: UniapProgram) -> int | None:
        form = UniapQuadratic(program)
        how = RunOptions(
            seed=0,
            found=lambda: None,
            stop=lambda: False,
            deadline=Deadline(),
        )
        outcome = backend().solve(form.model, how)
        if outcome.verdict == "infeasible":
            return None
        assert outcome.verdict == "optimal"
        return price(program, form.extract()).total_ns

    return optimum


def in_one_stage(program: UniapProgram) -> UniapProgram:
    """Return the QIP of a graph, on devices with the memory of all stages."""
    memory = program.graph.memory_bytes * program.stages
    graph = replace(program.graph, memory_bytes=memory)
    return replace(program, stages=1, microbatches=1, graph=graph)


def solvers() -> dict[str, Callable[[UniapProgram], int | None]]:
    """Return the solvers to be compared that are installed."""
    found = {"edges": by_edges, "linearised": by_products(HighsBackend)}
    try:
        ScipBackend.ensure_available()
    except InputError as error:
        print(error)
    else:
        found["products"] = by_products(ScipBackend)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--graphs", type=int, default=100, metavar="N")
    options = parser.parse_args()
    random = Random("uniap agreement")
    known = solvers()
    agreed: Counter[tuple[str, str]] = Counter()
    infeasible: Counter[str] = Counter()
    spent_s: dict[tuple[str, str], float] = {}
    for index in range(options.graphs):
        drawn = generated(random, SHAPES[index % len(SHAPES)])
        programs = {"MIQP": drawn, "QIP": in_one_stage(drawn)}
        for form, program in programs.items():
            expected = brute_force(program)
            infeasible[form] += expected is None
            for name, solve in known.items():
                began = time.monotonic()
                found = solve(program)
                took_s = time.monotonic() - began
                spent_s[form, name] = spent_s.get((form, name), 0.0) + took_s
                agreed[form, name] += found == expected
                if found != expected:
                    print(f"{form} {name} of graph {index}: {found}, not {expected}")
    for (form, name), count in agreed.items():
        print(
            f"{form} {name}: {count} of {options.graphs} agree, "
            f"{infeasible[form]} of them infeasible; {spent_s[form, name]:.0f} s"
        )
    return int(any(count < options.graphs for count in agreed.values()))


if __name__ == "__main__":
    raise SystemExit(main())
