"""How far off the times may be: what published iterations leave as error."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from hetopt.report.page.markup import percent, tag, words
from hetopt.report.rows import chain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.sources.accuracy import Accuracy
    from hetopt.report.page.contents import Contents

#: Room beside the longest bar, as a share of all bars.
_ROOM = 0.04


class _ErrorBar(NamedTuple):
    """A simulated time, and between which ones the real one may lie, in seconds."""

    name: str
    time_s: float
    median_s: tuple[float, float]
    worst_s: tuple[float, float]


def accuracy(contents: Contents) -> str:
    """Return the section: a bar for each plan and its next best, and what is known."""
    notes = dict.fromkeys(note for plan in contents.plans for note in plan.notes)
    bars = list(_bars(contents))
    untold = dict.fromkeys(plan.untold for plan in contents.plans if plan.untold)
    parts = [_sentence(bars[0]), _picture(bars)] if bars else []
    if contents.table is not None:
        text = f"Times follow from {contents.table}: its errors are unknown."
        parts.append(words("p", text))
    elif untold:
        text = f"Of {'; '.join(untold)} no published iteration tells how far times are "
        text += "off. That no error is drawn does not mean that there is none."
        parts.append(words("p", text))
    if notes:
        parts.append(tag("ul", *(words("li", note) for note in notes)))
    return "".join(parts)


def _bars(contents: Contents) -> Iterator[_ErrorBar]:
    for plan in contents.plans:
        if plan.error is None:
            continue
        yield _bar(plan.name, plan.price.iteration_time_s, plan.error)
        others = () if plan.result is None else plan.result.alternatives
        for rank, other in enumerate(others, start=2):
            hosts = {stage.cluster for stage in other.plan.pipeline.stages}
            if hosts <= {*plan.accuracies}:
                name = f"{plan.name}, rank {rank}: {chain(other.plan)}"
                yield _bar(name, other.iteration_time_s, plan.error)


def _bar(name: str, time_s: float, error: Accuracy) -> _ErrorBar:
    """Return where the real time lies, of which an error is a share."""

    def around(share: float) -> tuple[float, float]:
        return time_s / (1 + share), time_s / (1 - min(share, 0.99))

    return _ErrorBar(name, time_s, around(error.median), around(error.worst))


def _sentence(bar: _ErrorBar) -> str:
    low, high = bar.median_s
    least, most = bar.worst_s
    return words(
        "p",
        f"Off by the median of published runs, the {bar.time_s:.4g} s of {bar.name} "
        f"are {low:.4g} to {high:.4g} s (thick); off like the worst of them, "
        f"{least:.4g} to {most:.4g} s (thin). Plans that are closer than that may "
        "change places.",
    )


def _picture(bars: Sequence[_ErrorBar]) -> str:
    low = min(bar.worst_s[0] for bar in bars)
    high = max(bar.worst_s[1] for bar in bars)
    room = (high - low) * _ROOM
    low, high = low - room, high + room

    def place(time_s: float) -> float:
        return (time_s - low) / (high - low)

    def line(name: str, ends: tuple[float, float]) -> str:
        left, right = map(place, ends)
        style = f"left:{percent(left)};width:{percent(right - left)}"
        return tag("i", class_=name, style=style)

    rows = (
        tag(
            "li",
            words("span", bar.name, class_="name"),
            tag(
                "span",
                line("worst", bar.worst_s),
                line("median", bar.median_s),
                tag("i", class_="at", style=f"left:{percent(place(bar.time_s))}"),
                class_="track",
            ),
            words("span", f"{bar.time_s:.4g} s", class_="value"),
        )
        for bar in bars
    )
    ends = tag(
        "li",
        tag("span", class_="name"),
        tag(
            "span",
            words("span", f"{low:.4g} s"),
            words("span", f"{high:.4g} s"),
            class_="ends",
        ),
        tag("span", class_="value"),
        aria_hidden="true",
    )
    return tag("ul", *rows, ends, class_="bars errors")
