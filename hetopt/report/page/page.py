"""The whole page: its head, its sections in order, style and script.

It makes no requests: a policy in its head forbids all requests, and all scripts but its
own. The same contents give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from hetopt.report.page.accuracy import accuracy
from hetopt.report.page.answer import answer, sentence
from hetopt.report.page.colours import variables
from hetopt.report.page.comparison import comparison
from hetopt.report.page.front import front
from hetopt.report.page.history import history
from hetopt.report.page.markup import tag, words
from hetopt.report.page.mixing import mixing
from hetopt.report.page.sources import alternatives, problem, reproduction
from hetopt.report.page.stability import stability
from hetopt.report.page.stages import stages
from hetopt.report.page.timeline import timeline
from hetopt.report.page.whatif import whatif
from hetopt.report.timeline.svg import element
from hetopt.report.whatif.mixing import TITLE
from hetopt.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetopt.report.page.contents import Contents


#: The package that contains style and script.
_PACKAGE = "hetopt.report.page"


class _Section(NamedTuple):
    """One section; it is left out if ``draw`` returns nothing."""

    name: str
    link: str
    title: str
    draw: Callable[[Contents], str]


#: All sections, in the order of the page.
SECTIONS = (
    _Section("plans", "Plans", "The plans", comparison),
    _Section("stages", "Stages", "Stages", stages),
    _Section("timeline", "Timeline", "An iteration over time", timeline),
    _Section("accuracy", "Errors", "How far off the times may be", accuracy),
    _Section("search", "Proof", "How sure the answer is", history),
    _Section("next", "Next best", "The next best plans", alternatives),
    _Section("stability", "Stability", "How far coefficients may move", stability),
    _Section("whatif", "What if", "What if", whatif),
    _Section("mixing", "Mixing", TITLE, mixing),
    _Section("front", "Prices", "Time against price", front),
    _Section("problem", "Problem", "The problem", problem),
    _Section("again", "Again", "How to make this again", reproduction),
)


def page(contents: Contents) -> str:
    """Return the page as HTML."""
    drawn = [(each, each.draw(contents)) for each in SECTIONS]
    found = [(each, text) for each, text in drawn if text]
    links = (words("a", each.link, href=f"#{each.name}") for each, _ in found)
    sections = (
        tag(
            "section",
            words("h2", each.title, id=f"{each.name}-title"),
            text,
            id=each.name,
            aria_labelledby=f"{each.name}-title",
        )
        for each, text in found
    )
    style = variables() + _file("page.css")
    script = _file("page.js")
    head = (
        '<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("meta", name="generator", content=f"hetopt {__version__}"),
        element("meta", name="description", content=sentence(contents)),
        words("title", f"{contents.plans[0].problem.name}: plan by hetopt"),
        f"<style>\n{style}</style>",
    )
    body = (
        words("a", "Skip to the plan", href="#main", class_="skip"),
        tag("nav", *links, aria_label="sections"),
        tag("main", answer(contents), *sections, id="main"),
        tag("script", script),
    )
    whole = tag("head", *head) + "\n" + tag("body", *body)
    return f'<!DOCTYPE html>\n<html lang="en">\n{whole}\n</html>\n'


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    )


def _file(name: str) -> str:
    return resources.files(_PACKAGE).joinpath(name).read_text("utf-8")
