"""The section of variants of the problem, from files of `hetopt whatif --out`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base import reading
from hetopt.errors import InputError
from hetopt.report.page.bars import Bar, Span, bars
from hetopt.report.page.contents import Variants
from hetopt.report.page.markup import words
from hetopt.report.rounding import differences, rounded
from hetopt.report.summary import FORMS, amount, gap_text
from hetopt.report.whatif.table import Row, Whatif

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.report.page.contents import Contents

_HOW = "`hetopt whatif PROBLEM --drop-each --out FILE` writes what --whatif shows here."


def read_variants(path: str, problem_digest: str) -> Variants:
    """Read what ``hetopt whatif`` wrote about a problem.

    Raises
    ------
    InputError
        The file cannot be used, or is about another problem.
    """
    with reading.named(path):
        found = Whatif.from_json(reading.read_json(path, "variants"))
        if found.rows[0].problem_digest != problem_digest:
            msg = "is another problem's: run `hetopt whatif` with the problem and "
            msg += "schedule of the plan, which must not be one that --for limited"
            raise InputError(msg, field="rows.0.problem_digest")
    return Variants(name=path, found=found)


def whatif(contents: Contents) -> str:
    """Return the section: a bar for every variant of every file."""
    parts = [part for each in contents.variants for part in _parts(each)]
    return "".join(parts or [words("p", f"None given: {_HOW}")])


def _parts(variants: Variants) -> Iterator[str]:
    found = variants.found
    times_s = [found.time_s(row) for row in found.rows]
    unproven = any(
        time_s and row.status != "optimal"
        for row, time_s in zip(found.rows, times_s, strict=True)
    )
    hatched = "; hatched: between the lower bound and the plan" if unproven else ""
    yield words("h3", f"Seconds an iteration, {FORMS[found.objective]}{hatched}")
    apart = differences(times_s, times_s[0])
    yield bars([_bar(*each) for each in zip(found.rows, times_s, apart, strict=True)])
    costs = [row.cost.per_trillion_tokens if row.cost else None for row in found.rows]
    if any(cost is not None for cost in costs):
        yield words("h3", "Cost of a trillion tokens")
        yield bars(
            [
                Bar(row.change, amount(cost), (Span("sure", 0.0, cost or 0.0),))
                for row, cost in zip(found.rows, costs, strict=True)
            ]
        )
    yield words("p", f"From {variants.name}.", class_="source")


def _bar(row: Row, time_s: float | None, against_base: str) -> Bar:
    if time_s is None:
        return Bar(row.change, f"no plan: {row.reason or row.status}", ())
    text = f"{rounded(time_s)} s, {against_base}"
    sure_s = time_s
    if row.status != "optimal":
        text += f", not proven, gap {gap_text(row.gap)}"
        sure_s = min(row.lower_bound_s or 0.0, time_s)
    spans = Span("sure", 0.0, sure_s), Span("unsure", sure_s, time_s)
    return Bar(row.change, text, spans)
