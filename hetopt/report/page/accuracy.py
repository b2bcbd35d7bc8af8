"""The section on errors of times, as known from published iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.report.page.bars import Bar, Span, bars
from hetopt.report.page.markup import tag, words
from hetopt.report.rounding import differences, rounded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hetopt.problem.facts import Accuracy
    from hetopt.report.page.contents import Contents


def accuracy(contents: Contents) -> str:
    """Return the section: a bar for each plan and its next best ones, and notes."""
    notes = dict.fromkeys(note for plan in contents.plans for note in plan.notes)
    found = list(_bars(contents))
    untold = dict.fromkeys(plan.untold for plan in contents.plans if plan.untold)
    parts = []
    if contents.table is not None:
        text = f"Times follow from {contents.table}: its errors are unknown."
        parts.append(words("p", text))
    elif untold:
        text = f"No published iterations show the error for {'; '.join(untold)}. "
        text += "A missing error bar does not mean that there is no error."
        parts.append(words("p", text))
    if found:
        low = min(span.start for bar in found for span in bar.spans)
        parts += [_sentence(found[0]), bars(found, low, "s")]
    if notes:
        parts.append(tag("ul", *(words("li", note) for note in notes)))
    return "".join(parts)


def _bars(contents: Contents) -> Iterator[Bar]:
    for plan in contents.plans:
        if plan.error is None:
            continue
        text = f"{rounded(plan.time_s, plan.digits)} s"
        yield _bar(plan.name, text, plan.time_s, plan.error)
        others = () if plan.result is None else plan.result.alternatives
        times_s = [other.time_s(plan.objective) for other in others]
        apart = differences(times_s, plan.time_s)
        for rank, other in enumerate(others, start=2):
            if {*other.plan.clusters} <= {*plan.accuracies}:
                name = f"{plan.name}, rank {rank}"
                yield _bar(name, apart[rank - 2], times_s[rank - 2], plan.error)


def _bar(name: str, text: str, time_s: float, error: Accuracy) -> Bar:
    """Return the ranges of the real time; errors are shares of the real time."""

    def around(kind: str, share: float) -> Span:
        return Span(kind, time_s / (1 + share), time_s / (1 - min(share, 0.99)))

    parts = around("worst", error.worst), around("median", error.median)
    return Bar(name, text, (*parts, Span("at", time_s, time_s)))


def _sentence(bar: Bar) -> str:
    worst, median, _ = bar.spans
    return words(
        "p",
        f"With the median error of published runs, the {bar.text} of {bar.name} are "
        f"{rounded(median.start)} to {rounded(median.end)} s (thick); with the worst, "
        f"{rounded(worst.start)} to {rounded(worst.end)} s (thin). Plans that are "
        "closer than that may change places.",
    )
