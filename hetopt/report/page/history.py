"""The section on the search: lower bound and best plan over time, from a journal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hetopt.base import reading
from hetopt.base.words import describe
from hetopt.check.plan.reading import mapping, text
from hetopt.errors import InputError
from hetopt.report.drawing.sheet import labelled, sheet
from hetopt.report.page.contents import History, Moment
from hetopt.report.page.markup import folded, table, words
from hetopt.report.page.plot import plot
from hetopt.report.summary import bound, gap_text, searched, solver
from hetopt.report.timeline.svg import element
from hetopt.solvers.search.journal import JOURNAL_SCHEMA, MOST_BYTES
from hetopt.solvers.search.journal_lines import line_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from hetopt.plans.plan import Plan
    from hetopt.report.page.contents import Contents, ReportedPlan

_HOW = (
    "No journal was given, so the history of bound and best plan is not known: `hetopt "
    "plan --journal FILE` keeps one, and --journal shows it here."
)
_NO_TIMES = "The journal has no times: nothing had to be searched, or it stopped early."
_EXPECTED = "expected the journal of the search for this plan"
#: The picture ends at this share of the best plan; lower bounds below are at its foot.
_LOWEST = 0.5
#: About the most moments of a search that are shown.
_MOST = 500


def read_history(path: str, plan: Plan) -> History:
    """Read the journal of the search that found a plan.

    Raises
    ------
    InputError
        The file cannot be used, or is the journal of another search.
    """
    whole = reading.read_text(path, "a journal", MOST_BYTES)
    # Text after the last newline is an incomplete entry.
    *lines, _ = whole.split("\n")
    moments: list[Moment] = []
    # A search that branches has other problems below its own.
    own = plan.problem_digest, plan.table_digest
    searched: list[tuple[str, str]] = []
    for place, line in enumerate(lines or [whole], start=1):
        try:
            if place == 1:
                searched.append(_first(json.loads(line)))
                continue
            entry = line_of(json.loads(line))
            if "search" in entry:
                searched.append((entry["search"][0], entry["search"][1]))
            elif "result" in entry:
                searched.append((entry["problem_digest"], entry["table_digest"]))
            if "elapsed_s" in entry:
                moment = Moment(
                    entry["elapsed_s"],
                    entry.get("incumbent_s"),
                    entry.get("lower_bound_s"),
                )
                if not moments or moment[1:] != moments[-1][1:]:
                    moments.append(moment)
        except (InputError, RecursionError, TypeError, ValueError) as error:
            why = error.message if isinstance(error, InputError) else str(error)
            field = error.field if isinstance(error, InputError) else None
            msg = f"{why}; {_EXPECTED}"
            raise InputError(msg, file=path, line=place, field=field) from error
    if own not in searched:
        which = "problem_digest" if own[0] not in dict(searched) else "table_digest"
        msg = f"is not the plan's: {_EXPECTED}"
        raise InputError(msg, file=path, line=1, field=which)
    apart = len(moments) // _MOST + 1
    return History(path, moments[:-1:apart] + moments[-1:])


def _first(data: Any) -> tuple[str, str]:
    """Return the digests of the problem and the table that a journal begins with."""
    entry = mapping(data, "")
    if entry.get("schema") != JOURNAL_SCHEMA:
        msg = f"is {describe(entry.get('schema'))}, not {JOURNAL_SCHEMA!r}"
        raise InputError(msg, field="schema")
    return text(entry, "problem_digest", ""), text(entry, "table_digest", "")


def history(contents: Contents) -> str:
    """Return the section: what was settled, and the history of the search."""
    own = contents.history
    if own is None:
        parts = [words("p", _HOW)]
    elif not own.moments:
        parts = [words("p", _NO_TIMES)]
    else:
        name = contents.plans[0].name
        parts = [words("h3", f"The search for {name}, over time"), *_parts(own)]
    return contents.of_each(_settled) + "".join(parts)


def _settled(plan: ReportedPlan) -> str:
    result = plan.result
    if result is None:
        return words("p", "The file has only a plan, without the result of a search.")
    lines = [
        *searched(result),
        ("lower bound", bound(result)),
        ("solver", solver(result)),
    ]
    return table([labelled(lines)], f"how the search for {plan.name} ended")


def _parts(own: History) -> Iterator[str]:
    """Yield a picture of a history, and its table."""
    moments = own.moments
    incumbents = [each.incumbent_s for each in moments if each.incumbent_s is not None]
    best = min(incumbents, default=None)
    bounds = [each.lower_bound_s for each in moments if each.lower_bound_s is not None]
    values = [*incumbents, *bounds]
    # A margin, so that the last values are visible.
    end_s = max(moments[-1].elapsed_s, 1e-3) * 1.03
    if values:
        high = max(values)
        low = max(min(values), _LOWEST * (best or high))
        room = (high - low or high or 1.0) * 0.06
        yield _picture(moments, end_s, (low - room, high + room))
    rows = (
        (
            f"{each.elapsed_s:.3f}",
            "-" if each.incumbent_s is None else f"{each.incumbent_s:.4f}",
            "-" if each.lower_bound_s is None else f"{each.lower_bound_s:.4f}",
            gap_text(_gap(each)),
        )
        for each in moments
    )
    names = ("search s", "best plan s", "lower bound s", "gap")
    title = f"Table of {own.name}"
    yield folded(title, table([sheet(names, rows)], title))


def _gap(moment: Moment) -> float | None:
    if not moment.incumbent_s or moment.lower_bound_s is None:
        return None
    return (moment.incumbent_s - moment.lower_bound_s) / moment.incumbent_s


def _picture(moments: Sequence[Moment], end_s: float, ends: tuple[float, float]) -> str:
    """Return the picture of both lines."""
    low, high = ends

    def line(name: str, value: Callable[[Moment], float | None]) -> str:
        parts: list[str] = []
        for each in moments:
            y_s = value(each)
            if y_s is None:
                continue
            x = f"{100 * each.elapsed_s / end_s:.2f}"
            y = f"{100 * (high - max(y_s, low)) / (high - low):.2f}"
            parts.append(f"H{x}V{y}" if parts else f"M{x} {y}")
        return element("path", class_=name, d="".join(parts) + "H100") if parts else ""

    about = "best plan (line) and lower bound (dashed) over the seconds of the search"
    said = f"{about[0].upper()}{about[1:]}. A bound below the frame is at its foot."
    return plot(
        [
            line("bound", lambda each: each.lower_bound_s),
            line("incumbent", lambda each: each.incumbent_s),
        ],
        upright=(f"{high:.4g} s", f"{low:.4g} s"),
        along=("0 s", f"{end_s:.3g} s of search"),
        about=about,
        said=said,
    )
