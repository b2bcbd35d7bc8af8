"""The options of ``hetopt plan``, in groups that each fit a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.inputs import (
    add_count,
    add_file,
    add_jobs,
    add_launcher,
    add_relax,
    add_schedule,
    add_solver,
    add_switch,
    add_table,
    add_time_limit,
)
from hetopt.cli.numbers import amount, not_negative
from hetopt.solvers.params import COSTS, EXECUTORS
from hetopt.solvers.registry import sampling_names

if TYPE_CHECKING:
    import argparse

    from hetopt.cli.inputs import Container


def add_plan_options(command: argparse.ArgumentParser) -> None:
    """Add PROBLEM and all options."""
    command.add_argument(
        "problem",
        metavar="PROBLEM",
        nargs="?",
        help="a problem file, or the name of one that ships with hetopt",
    )
    _add_best(command.add_argument_group("which plan is best"))
    _add_space(command.add_argument_group("which plans are searched"))
    _add_search(command.add_argument_group("how to search"))
    _add_written(command.add_argument_group("what is written"))


def _add_best(group: Container) -> None:
    group.add_argument(
        "--objective",
        choices=("closed", "simulated", "cost"),
        help="the iteration time in closed form, or as simulated event by event, or "
        "the cost of an iteration, by price_per_hour (default: simulated; closed with "
        "a named solver)",
    )
    group.add_argument(
        "--budget",
        type=amount,
        metavar="N",
        help="only plans whose nodes cost at most N an hour",
    )
    group.add_argument(
        "--min-tokens-per-s",
        type=amount,
        metavar="N",
        help="least throughput, with --objective cost or --pareto",
    )
    add_switch(
        group,
        "--pareto",
        "every plan that no other beats in both time and price per hour",
    )
    add_count(
        group,
        "--top",
        "also report the next best, K plans in all",
        default=1,
        metavar="K",
    )
    add_switch(
        group,
        "--stability",
        "also say how far speeds, memory and links may move until another plan is "
        "better by more than 1%%",
    )


def _add_space(group: Container) -> None:
    add_schedule(group, several=True)
    add_count(
        group,
        "--pipelines",
        "up to N unequal pipelines side by side, each with a part of the nodes "
        "and of the batch (default: 1; at most 4)",
        default=1,
    )
    add_relax(group)
    add_launcher(group)
    add_table(group)


def _add_search(group: Container) -> None:
    add_file(
        group,
        "--again",
        "ask what the answer in FILE was asked, but for options that are given",
    )
    add_time_limit(group, "end the search after S seconds, with the best plan so far")
    add_solver(group)
    add_jobs(group)
    group.add_argument(
        "--executor",
        choices=EXECUTORS,
        default="process",
        help="workers are processes here (default), or on a Ray cluster (address "
        "from RAY_ADDRESS)",
    )
    add_file(
        group,
        "--journal",
        "keep everything settled, line by line; resume from it if it exists",
    )
    add_count(
        group, "--seed", "seed of random choices (default: 0)", least=0, default=0
    )
    add_count(group, "--iterations", f"end after N rollouts; for {sampling_names()}")
    group.add_argument(
        "--exploration",
        type=not_negative,
        metavar="C",
        help=f"exploration weight of UCB; for {sampling_names()}",
    )
    group.add_argument(
        "--cost",
        choices=COSTS,
        help="what dfs minimises: the closed form (default), or H2's own formula, "
        "which ignores transfers and windows",
    )


def _add_written(group: Container) -> None:
    add_file(group, "--out", "write the result with its plan, as JSON")
    group.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="also print boundaries, both times, the search, sources of latencies",
    )
    add_switch(group, "--json", "print the result as JSON, nothing else")
    add_file(
        group,
        "--certificate",
        "write what is claimed about every (p, q) of every problem searched, for "
        "`hetopt verify`",
    )
    add_file(group, "--svg", "with --pareto: draw time against price")
