"""Pipelines that specialise by length, compared with packing to the longest length.

``python -m benchmarks.mixed_lengths [PROBLEM] [PIPELINES]``. Packing is Hetu v2's
baseline (Section 7.3): all tokens of a step in sequences of the longest length, by the
best plan of one pipeline, with attention over the whole of each sequence.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import hetopt
from hetopt.problem.reading import read_problem

if TYPE_CHECKING:
    from hetopt.problem.problem import Problem


def packed(problem: Problem) -> Problem:
    """Return the problem with all tokens packed into the fewest longest sequences."""
    training = problem.training
    alike = training.of_length(training.seq_len)
    number = -(-training.tokens // training.seq_len)
    return replace(problem, training=replace(alike, global_batch=number))


def main(name: str = "hetu-32b-32h20-lengths", pipelines: str = "2") -> None:
    """Print both times, their bounds and their ratio."""
    problem = read_problem(name)
    whole = packed(problem)
    times = []
    for label, one, most in (
        (f"packed in {whole.training.global_batch}", whole, 1),
        (f"up to {pipelines} pipelines by length", problem, int(pipelines)),
    ):
        best = hetopt.plan(one, pipelines=most, objective="closed", jobs=1)
        if best.best is None:
            sys.exit(f"{label}: {best.reason}")
        times.append(best.best.closed_form_s)
        print(
            f"{label}: {times[-1]:.3f} s in closed form, "
            f"{best.best.iteration_time_s:.3f} s simulated, {best.status}",
            flush=True,
        )
    print(f"ratio: {times[0] / times[1]:.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
