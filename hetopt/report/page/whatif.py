"""The section of variants of the problem, from files of `hetopt whatif --out`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from hetopt.base import reading
from hetopt.check.plan.reading import choice, choices, items, mapping, number, text
from hetopt.errors import InputError
from hetopt.report.page.bars import Bar, Span, bars
from hetopt.report.page.contents import Variant, Variants
from hetopt.report.page.markup import words
from hetopt.report.rounding import differences, rounded
from hetopt.report.summary import FORMS, amount, gap_text
from hetopt.report.whatif.table import WHATIF_SCHEMA
from hetopt.results.result import Objective, Status

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from hetopt.report.page.contents import Contents

_HOW = "`hetopt whatif PROBLEM --drop-each --out FILE` writes what --whatif shows here."


def read_variants(path: str, problem_digest: str) -> Variants:
    """Read what ``hetopt whatif`` wrote about a problem.

    Raises
    ------
    InputError
        The file cannot be used, or is about another problem.
    """
    try:
        data = mapping(reading.read_json(path, "variants"), "")
        choice(data, "schema", (WHATIF_SCHEMA,), "")
        sought = choice(data, "objective", choices(Objective), "")
        objective = next(each for each in get_args(Objective) if each == sought)
        rows = [(place, mapping(row, place)) for place, row in items(data, "rows", "")]
        if not rows:
            raise InputError("is empty, expected a row for the problem", field="rows")
        place, first = rows[0]
        if first.get("problem_digest") != problem_digest:
            msg = "is another problem's: run `hetopt whatif` with the problem and "
            msg += "schedule of the plan, which must not be one that --for limited"
            raise InputError(msg, field=f"{place}.problem_digest")
        found = [_variant(row, place, objective) for place, row in rows]
    except InputError as error:
        if error.file is not None:
            raise
        raise InputError(error.message, file=path, field=error.field) from error
    return Variants(name=path, objective=objective, rows=found)


def _variant(row: Mapping[str, Any], place: str, objective: Objective) -> Variant:
    key = "iteration_time_s" if objective == "simulated" else "closed_form_s"
    cost = row.get("cost")
    own = None if cost is None else mapping(cost, f"{place}.cost")
    return Variant(
        change=text(row, "change", place),
        status=choice(row, "status", (*choices(Status), "failed"), place),
        time_s=number(row, key, place),
        lower_bound_s=number(row, "lower_bound_s", place),
        gap=number(row, "gap", place),
        cost=None
        if own is None
        else number(own, "per_trillion_tokens", f"{place}.cost"),
        reason="" if row.get("reason") is None else text(row, "reason", place),
    )


def whatif(contents: Contents) -> str:
    """Return the section: a bar for every variant of every file."""
    parts = [part for each in contents.variants for part in _parts(each)]
    return "".join(parts or [words("p", f"None given: {_HOW}")])


def _parts(variants: Variants) -> Iterator[str]:
    rows = variants.rows
    form = FORMS[variants.objective]
    unproven = any(row.time_s and row.status != "optimal" for row in rows)
    hatched = "; hatched: between the lower bound and the plan" if unproven else ""
    yield words("h3", f"Seconds an iteration, {form}{hatched}")
    apart = differences([row.time_s for row in rows], rows[0].time_s)
    yield bars([_bar(*pair) for pair in zip(rows, apart, strict=True)])
    costs = [Span("sure", 0.0, row.cost or 0.0) for row in rows]
    if any(row.cost is not None for row in rows):
        yield words("h3", "Cost of a trillion tokens")
        yield bars(
            [
                Bar(row.change, amount(row.cost), (span,))
                for row, span in zip(rows, costs, strict=True)
            ]
        )
    yield words("p", f"From {variants.name}.", class_="source")


def _bar(row: Variant, against_base: str) -> Bar:
    if row.time_s is None:
        return Bar(row.change, f"no plan: {row.reason or row.status}", ())
    text = f"{rounded(row.time_s)} s, {against_base}"
    sure_s = row.time_s
    if row.status != "optimal":
        text += f", not proven, gap {gap_text(row.gap)}"
        sure_s = min(row.lower_bound_s or 0.0, row.time_s)
    spans = Span("sure", 0.0, sure_s), Span("unsure", sure_s, row.time_s)
    return Bar(row.change, text, spans)
