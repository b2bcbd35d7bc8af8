"""The arguments of commands: each is declared once, and a command lists what it takes.

A flag that fills fields of ``hetopt.planning.asked.Search`` says which, so that what a
command asks for, errors that name its options and answers that are asked again
(``asking``, ``again``) follow from the list.
"""

from __future__ import annotations

from hetopt.cli.flag import Flag, Group, as_json, count, reads, switch, writes
from hetopt.cli.numbers import amount, chunk_counts, not_negative, seconds
from hetopt.cli.output import complain
from hetopt.errors import InputError
from hetopt.export.registry import SHIPPED
from hetopt.problem.training.choices import (
    ANY,
    FREE,
    INTERLEAVED,
    SCHEDULE_CHOICES,
    asked_name,
)
from hetopt.problem.training.principles import Principles
from hetopt.schedule.schedules import RULES
from hetopt.solvers.params import COSTS, EXECUTORS
from hetopt.solvers.registry import relaxing_names, sampling_names

#: Launchers that plans can be searched for.
LIMITED = ", ".join(name for name, limited in SHIPPED.items() if limited)
#: Schedules by the number of blocking transfers at a boundary.
BLOCKING = {rule.blocking: rule.name for rule in RULES.values() if rule.blocking}


def workers(jobs: int | None) -> int | None:
    """Return the number of workers for ``--jobs``; print a note if it is lower."""
    if jobs is None:
        return None
    from hetopt.solvers.pools.opening import most_workers

    most = most_workers()
    if jobs > most:
        complain(f"--jobs {jobs}: {most} workers are started, a few per core")
    return min(jobs, most)


def principles_of(text: str | None) -> Principles:
    """Read ``--relax``: comma-separated names; without any, nothing is relaxed."""
    try:
        return Principles.relaxing(text.split(",") if text else ())
    except ValueError as error:
        raise InputError(str(error), field="--relax") from error


PROBLEM = Flag(
    "problem",
    "a problem file, or the name of one that ships with hetopt",
    "PROBLEM",
    role="problem",
)
PLAN = Flag("plan", "a file that `hetopt plan --out` wrote", "PLAN", role="reads")
TABLE = reads(
    "--table",
    "coefficients that `hetopt table` wrote, instead of modelled ones",
    fills="table",
)
#: What commands take that read a plan of a problem.
PLANNED = (PROBLEM, PLAN, TABLE)
READ_FROM = Flag(
    "--from",
    "whose files these are; may be left out if the files tell",
    "LAUNCHER",
    dest="form",
)

SOLVER = Flag(
    "--solver",
    "one that `hetopt catalog` lists (default: auto)",
    "NAME",
    default="auto",
    fills="solver",
)
JOBS = count(
    "--jobs",
    "workers (default: one per core); 1: work in this process, start none",
    fills="jobs",
    asks=lambda value: {"jobs": workers(value)},
)
TIME_LIMIT = Flag(
    "--time-limit",
    "end the search after S seconds, with the best plan so far",
    "S",
    type=seconds,
    fills="time_limit_s",
)
SEED = count("--seed", "default: 0", least=0, default=0, fills="seed")
SCHEDULE = Flag(
    "--schedule",
    f"instead of the problem's: {', '.join(SCHEDULE_CHOICES)}",
    "NAME",
    choices=SCHEDULE_CHOICES,
)
#: Where the best of all schedules may be asked for.
ANY_SCHEDULE = SCHEDULE.but(
    f"{SCHEDULE.text}; {ANY}: the best over all of these but {FREE}",
    type=asked_name,
    choices=(*SCHEDULE_CHOICES, ANY),
)
BLOCKS = Flag(
    "--blocking",
    "transfers at a boundary that --schedule 1f1b-blocking waits for: 2 (default), or "
    "1, both ways at once (1f1b-batched)",
    "N",
    type=int,
    choices=sorted(BLOCKING),
)
CHUNKS = Flag(
    "--chunks",
    f"parts of the model on every stage, with {INTERLEAVED} 2 or more",
    "V",
    type=chunk_counts,
    fills="chunks",
)
ANY_CHUNKS = CHUNKS.but(f"{CHUNKS.text}; which to try with {ANY} (default: 2,4)")
SCHEDULES = (ANY_SCHEDULE, BLOCKS, ANY_CHUNKS)
PIPELINES = count(
    "--pipelines",
    "up to N unequal pipelines side by side, each with a part of the nodes and of the "
    "batch (default: 1; at most 4)",
    default=1,
    fills="pipelines",
)
_RELAX = (
    "principles that plans need not keep: p3 (stages of a cluster stand together), p4 "
    "(and share one strategy), p4-falling-tp (tp never rises along them); for "
    f"{relaxing_names()} (default: "
)
RELAX = Flag(
    "--relax",
    f"{_RELAX}none)",
    "P,...",
    fills="principles",
    asks=lambda value: {"principles": principles_of(value)},
)
RELAX_OF_PLAN = RELAX.but(f"{_RELAX}those of PLAN)")
LAUNCHER = Flag(
    "--for",
    "only plans that this launcher runs as they are, and what that costs: "
    f"{LIMITED}; none: any plan (default: the problem's launcher)",
    "LAUNCHER",
    dest="launcher",
    fills="launcher",
)
OBJECTIVE = Flag(
    "--objective",
    "the iteration time in closed form, or as simulated event by event, or the cost "
    "of an iteration, by price_per_hour (default: simulated; closed with a named "
    "solver)",
    choices=("closed", "simulated", "cost"),
    fills="time measure",
    asks=lambda value: (
        {"time": "closed", "measure": "cost"} if value == "cost" else {"time": value}
    ),
)

#: What ``hetopt plan`` takes, in groups that each fit a screen.
OF_PLAN = (
    PROBLEM.but(nargs="?"),
    Group(
        "which plan is best",
        (
            OBJECTIVE,
            Flag(
                "--budget",
                "only plans whose nodes cost at most N an hour",
                "N",
                type=amount,
                fills="budget",
            ),
            Flag(
                "--min-tokens-per-s",
                "least throughput, with --objective cost or --pareto",
                "N",
                type=amount,
                fills="min_tokens_per_s",
            ),
            switch(
                "--pareto",
                "every plan that no other beats in both time and price per hour",
                fills="measure",
                asks=lambda value: {"measure": "front"} if value else {},
            ),
            count(
                "--top",
                "also report the next best, K plans in all",
                "K",
                default=1,
                fills="top",
            ),
            switch(
                "--stability",
                "also say how far speeds, memory and links may move until another plan "
                "is better by more than 1%%",
                fills="stability",
            ),
        ),
    ),
    Group("which plans are searched", (*SCHEDULES, PIPELINES, RELAX, LAUNCHER, TABLE)),
    Group(
        "how to search",
        (
            Flag(
                "--again",
                "ask what the answer in FILE was asked, but for options that are given",
                "FILE",
            ),
            TIME_LIMIT,
            SOLVER,
            JOBS,
            Flag(
                "--executor",
                "workers are processes here (default), or on a Ray cluster (address "
                "from RAY_ADDRESS)",
                choices=EXECUTORS,
                default="process",
                fills="executor",
            ),
            writes(
                "--journal",
                "keep everything settled, line by line; resume from it if it exists",
                fills="journal",
            ),
            SEED.but("seed of random choices (default: 0)"),
            count(
                "--iterations",
                f"end after N rollouts; for {sampling_names()}",
                fills="iterations",
            ),
            Flag(
                "--exploration",
                f"exploration weight of UCB; for {sampling_names()}",
                "C",
                type=not_negative,
                fills="exploration",
            ),
            Flag(
                "--cost",
                "what dfs minimises: the closed form (default), or H2's own formula, "
                "which ignores transfers and windows",
                choices=COSTS,
                fills="cost",
            ),
        ),
    ),
    Group(
        "what is written",
        (
            writes("--out", "write the result with its plan, as JSON"),
            switch(
                "-v --verbose",
                "also print boundaries, both times, the search, sources of latencies",
            ),
            as_json("result"),
            writes(
                "--certificate",
                "write what is claimed about every (p, q) of every problem searched, "
                "for `hetopt verify`",
                fills="certified",
                asks=lambda value: {"certified": value is not None},
            ),
            writes("--svg", "with --pareto: draw time against price"),
        ),
    ),
)
