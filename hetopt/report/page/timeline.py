"""The timeline of stages and links: a picture, and one to zoom where scripts run.

The picture is embedded, so that it is shown without scripts and in print.
"""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from hetopt.report.page.events import events_of
from hetopt.report.page.markup import folded, tag, words
from hetopt.report.timeline.palette import ACTIVITIES
from hetopt.report.timeline.picture import MOST_EVENTS, picture
from hetopt.report.timeline.svg import element

if TYPE_CHECKING:
    from hetopt.report.page.contents import Contents, ReportedPlan

#: Most bytes of events on a page.
MOST_BYTES = 1_500_000

_HOW = (
    "Drag or use the arrow keys to move, the wheel with Ctrl or + and - to zoom, 0 to "
    "see all; point at a bar to see what it is."
)
_PARTS = " Shaded: not on this page."
_MODELLED = "All times are a model's; no iteration was measured."


def timeline(contents: Contents) -> str:
    """Return the section: the iteration of every plan."""
    plans = len(contents.plans)
    # All plans on one scale.
    end_s = max(plan.price.iteration_time_s for plan in contents.plans)
    return words("p", _MODELLED) + contents.of_each(
        lambda plan: _zoomable(plan, plans, end_s) + _still(plan, plans)
    )


def _still(plan: ReportedPlan, plans: int) -> str:
    """Return the picture, unfolded; the script folds it when it draws its own."""
    drawn = picture(plan.timeline, MOST_EVENTS // plans).encode()
    source = f"data:image/svg+xml;base64,{base64.b64encode(drawn).decode()}"
    about = "What each stage and link does when, and the memory of each stage over time"
    image = element("img", src=source, alt=about)
    scroller = tag(
        "div", image, class_="wide paper", tabindex="0", role="group", aria_label=about
    )
    return folded("Picture, with memory over time", scroller, open_=True)


def _zoomable(plan: ReportedPlan, plans: int, end_s: float) -> str:
    """Return the figure for the script to draw in, hidden until then."""
    events = events_of(plan.timeline, MOST_BYTES // plans, end_s)
    data = json.dumps(events, separators=(",", ":"))
    found = {event.activity for event in plan.timeline.events}
    legend = (
        tag(
            "span",
            tag("i", style=f"background:var(--on-{name})"),
            words("span", paint.meaning),
        )
        for name, paint in ACTIVITIES.items()
        if name in found
    )
    buttons = (
        words("button", sign, type="button", data_act=act, aria_label=about)
        for sign, act, about in (
            ("+", "in", "zoom in"),
            ("-", "out", "zoom out"),
            ("◀", "left", "earlier"),
            ("▶", "right", "later"),
            ("All", "all", "see all"),
            *(
                [("Next part", "part", "see the next part")]
                if events["windows"]
                else []
            ),
        )
    )
    return tag(
        "figure",
        tag(
            "div",
            tag("div", *buttons, class_="buttons"),
            tag("div", *legend, class_="legend"),
        ),
        tag(
            "div",
            tag("canvas", class_="axis"),
            tag("div", tag("canvas", class_="lanes"), class_="scroll"),
            class_="zoom",
            tabindex="0",
            role="application",
            aria_label=f"timeline of {plan.name}: arrow keys move, plus and minus zoom",
        ),
        words("output", "", aria_live="polite"),
        words("figcaption", _HOW + (_PARTS if events["windows"] else "")),
        # Text in the data must not end the element or begin a comment.
        tag("script", data.replace("<", "\\u003c"), type="application/json"),
        class_="timeline",
        hidden="",
    )
