"""A comparison of solvers as CSV, as Markdown and as a table in a terminal."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING

from hetopt.base.csv_rows import csv_text
from hetopt.planning.side_by_side import EVERY_CLUSTER
from hetopt.report.comparison.comparison import (
    MARK,
    MOST_TAKEN,
    WITHIN,
    Comparison,
    Contest,
    Row,
    rows,
)
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.rounding import percent, rounded
from hetopt.report.summary import cost_text, gap_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from hetopt.plans.plan import Pipeline
    from hetopt.report.drawing.sheet import Part

_LEFT = ("solver", "status")
_CSV_COLUMNS = (
    *("problem", "solver", "seed", "relaxed", "every_cluster", "extra", "status"),
    *("closed_form_s", "iteration_time_s", "stages", "microbatches", "devices"),
    *("cost.per_iteration", "cost.per_trillion_tokens", "above", "reference_s"),
    *("reference.proven", "first_s", *(f"within_{name}_s" for name in WITHIN)),
    *("proof_s", "lower_bound_s", "gap", "search_time_s", "process_time_s"),
    *("taken_share", "failure"),
)


def _sum(row: Row, count: Callable[[Pipeline], int]) -> int | None:
    return None if row.plan is None else sum(map(count, row.plan.pipelines))


def _within(name: str, row: Row) -> float | None:
    return row.within_s[name]


_COMPUTED: Mapping[str, Callable[[Row], object]] = {
    "relaxed": lambda row: " ".join(row.relaxed),
    "stages": lambda row: _sum(row, lambda own: len(own.stages)),
    "microbatches": lambda row: _sum(row, lambda own: own.microbatches),
    "devices": lambda row: _sum(row, lambda own: own.devices),
    "reference_s": lambda row: row.reference and row.reference.value_s,
    **{f"within_{name}_s": partial(_within, name) for name in WITHIN},
}


def _seconds(value: float) -> str:
    """Return seconds, with fewer decimals for larger values."""
    return f"{value:.{3 if value < 1 else 2 if value < 10 else 1}f}"


#: What columns with numbers have, and how it is written.
_NUMBERS: Mapping[str, tuple[Callable[[Row], float | None], Callable[[float], str]]] = {
    "closed form s": (attrgetter("closed_form_s"), rounded),
    "simulated s": (attrgetter("iteration_time_s"), rounded),
    "above": (attrgetter("above"), percent),
    "first plan s": (attrgetter("first_s"), _seconds),
    **{f"within {name} s": (partial(_within, name), _seconds) for name in WITHIN},
    "proof s": (attrgetter("proof_s"), _seconds),
    "gap": (attrgetter("gap"), gap_text),
    "process s": (attrgetter("process_time_s"), _seconds),
}
COLUMNS = (*_LEFT, *_NUMBERS)


def comparison_csv(comparison: Comparison) -> str:
    """Return one line per run, with unrounded numbers."""
    found = (row for contest in comparison.contests for row in rows(contest))
    return csv_text(_CSV_COLUMNS, found, _COMPUTED)


def comparison_markdown(comparison: Comparison) -> str:
    """Return a section per problem, with a table and footnotes."""
    parts = ["# Solvers side by side\n"]
    for contest in comparison.contests:
        parts.append(f"## {contest.problem}, {contest.schedule}\n")
        parts.append(f"| {' | '.join(COLUMNS)} |")
        parts.append(f"|{'---|' * len(_LEFT)}{'--:|' * (len(COLUMNS) - len(_LEFT))}")
        found = rows(contest)
        parts += [
            f"| {' | '.join(cell.replace('|', '/') for cell in line)} |"
            for line in table(found)
        ]
        parts.append("")
        parts += [f"- {line}" for line in footnotes(contest, found)]
        parts.append("")
    parts += [f"- {line}" for line in conditions(comparison)]
    return "\n".join(parts) + "\n"


def comparison_parts(comparison: Comparison) -> list[Part]:
    """Return what ``hetopt compare`` prints."""
    parts: list[Part] = []
    for contest in comparison.contests:
        found = rows(contest)
        parts += [
            f"{contest.problem}, {contest.schedule}",
            sheet(COLUMNS, table(found), left=_LEFT),
            *footnotes(contest, found),
            "",
        ]
    parts.append(labelled(("", line) for line in conditions(comparison)))
    return parts


def table(found: Iterable[Row]) -> list[tuple[str, ...]]:
    """Return cells for ``COLUMNS``: a line per solver, and three for several seeds.

    Of several, each column has its own median, least and most. What a seed did not
    reach is more than all else; the median of an even number is the lower one.
    """
    lines = []
    for name, group in groupby(found, key=_name):
        seeds = list(group)
        status = ", ".join(dict.fromkeys(row.status for row in seeds))
        columns = [sorted(each) for each in zip(*map(_values, seeds), strict=True)]
        places = {name_of(seeds[0]): 0}
        if (count := len(seeds)) > 1:
            middle = f"{name}, median of {count} seeds"
            places = {
                middle: (count - 1) // 2,
                f"{name}, least": 0,
                f"{name}, most": -1,
            }
        for label, at in places.items():
            lines.append((label, status, *_written([each[at] for each in columns])))
    return lines


def _written(values: Iterable[float]) -> Iterator[str]:
    """Yield the cells of ``_values``."""
    for value, (_, text) in zip(values, _NUMBERS.values(), strict=True):
        yield "-" if value == inf else text(value)


def _values(row: Row) -> list[float]:
    """Return the values of all columns with numbers, infinite where there is none."""
    values = [read(row) for read, _ in _NUMBERS.values()]
    return [inf if value is None else value for value in values]


def _name(row: Row) -> str:
    """Return the solver's name, marked if its space is wider."""
    name = row.solver + (MARK if row.marked else "")
    if row.extra:
        return f"{name} (for reference{row.space.label})"
    return name + (EVERY_CLUSTER if row.every_cluster else "")


def name_of(row: Row) -> str:
    """Return the solver's name with its seed, marked if its space is wider."""
    return _name(row) + ("" if row.seed is None else f" seed {row.seed}")


def footnotes(contest: Contest, found: list[Row]) -> list[str]:
    """Return lines on references, wider spaces, costs and failures."""
    lines = []
    for each in contest.references().values():
        line = f"{each.label}: {each.value_s:.6f} s ({each.solver})"
        if not each.proven and each.lower_bound_s:
            line += f", lower bound {each.lower_bound_s:.6f} s"
        lines.append(line)
    if any(row.extra for row in found):
        lines.append(
            "for reference: started from the best plan of the others, to prove it or "
            "to find what is better; its times are not comparable with theirs"
        )
    if len({row.seed for row in found} - {None}) > 1:
        lines.append(
            "several seeds: median, least and most of each column, where what a seed "
            "did not reach is the most; CSV and JSON have every seed"
        )
    if names := dict.fromkeys(row.solver for row in found if row.every_cluster):
        lines.append(
            f"every cluster ({', '.join(names)}): each cluster hosts stages, as in "
            "HetAuto's Eq. 12; compared with the best of all plans that do the same"
        )
    for relaxed in dict.fromkeys(row.relaxed for row in found if row.marked):
        names = dict.fromkeys(row.solver for row in found if row.relaxed == relaxed)
        lines.append(
            f"{MARK} {', '.join(names)}: plans need not keep {' and '.join(relaxed)}, "
            "and are compared with the best of all that need not"
        )
    lines += [
        f"cost with {name_of(row)}: {cost_text(row.cost)}"
        for row in found
        if row.cost is not None
    ]
    lines += [
        f"{name_of(row)}: {row.failure}"
        for row in found
        # An extra run that found nothing better has not failed.
        if row.failure and (not row.extra or row.status in {"refused", "failed"})
    ]
    if slowed := [row for row in found if (row.taken_share or 0.0) > MOST_TAKEN]:
        which = ", ".join(map(name_of, slowed)) if slowed != found else "all"
        most = max(row.taken_share or 0.0 for row in slowed)
        lines.append(
            f"times of {which} are unreliable: other programs took up to {most:.0%} of "
            "the cores meanwhile; compare again while nothing else runs"
        )
    return lines


def conditions(comparison: Comparison) -> list[str]:
    """Return lines on how the solvers were run."""
    jobs = "one per core" if comparison.jobs is None else str(comparison.jobs)
    lines = [
        f"one run after the other, each in a new process, {comparison.time_limit_s:g} "
        f"s at most, workers: {jobs}; on {comparison.machine}",
        "times run from the start of the search, with the problem read and the table "
        "of costs built; 'process' is all of it, from the start of the interpreter to "
        "the checked answer",
        "plans are ranked by closed form, as with `hetopt plan --objective closed`; by "
        "default `hetopt plan` minimises the simulated time where that is searched",
        "'above' is about the proven optimum (or best plan known) of the solver's "
        "space, 'gap' what the solver itself can say; both in closed form",
    ]
    if comparison.warm_up_s:
        told = ", ".join(
            f"{solver} {seconds:.1f} s"
            for solver, seconds in comparison.warm_up_s.items()
        )
        lines.append(
            f"warm-up: {sum(comparison.warm_up_s.values()):.1f} s apart from the timed "
            "runs, for one plan of a tiny problem by each solver, which compiles what "
            f"is then kept on disk: {told}"
        )
    return lines
