"""The section of each cluster alone, from files of `hetopt explain --out`."""

from __future__ import annotations

from math import isclose
from typing import TYPE_CHECKING, Any

from hetopt.base import reading
from hetopt.base.words import counted, describe
from hetopt.errors import InputError
from hetopt.report.page.markup import table, words
from hetopt.report.whatif.mixing import TITLE, UNLIMITED, mixing_report
from hetopt.report.whatif.reasons import Reasons
from hetopt.whatif.mixing import Mixing, mixed_clusters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.report.page.contents import Contents, ReportedPlan

_HOW = "`hetopt explain PROBLEM PLAN --out FILE` writes what --explain shows here."
_SOURCE = "From {}: the times, proofs and reasons of each cluster alone are its word. "
_SOURCE += UNLIMITED


def read_mixing(path: str, plans: Iterable[ReportedPlan]) -> Mixing | None:
    """Read what ``hetopt explain`` wrote about one of these plans.

    What was found of each cluster alone is the file's word; all else is computed again.

    Returns
    -------
    None if pins leave fewer than two clusters.

    Raises
    ------
    InputError
        The file cannot be used, explains another plan, or says what does not follow.
    """
    data = reading.read_json(path, "an explanation")
    with reading.named(path):
        said = Reasons.from_json(data)
        own = next((own for own in plans if own.plan == said.plan), None)
        if own is None:
            msg = "is not on the page: run `hetopt explain` with one that is"
            raise InputError(msg, field="plan")
        return _checked(said.mixing, own)


def _checked(said: Mixing | None, own: ReportedPlan) -> Mixing | None:
    """Return what follows from a plan and the rows of each cluster alone."""
    count, rows = len(mixed_clusters(own.problem)), said.alone if said else ()
    if len(rows) != count:
        msg = f"compares {counted(len(rows), 'cluster')}, not {count}"
        raise InputError(f"{msg}: run `hetopt explain` again", field="mixing")
    if said is None:
        return None
    for number, each in enumerate(rows):
        if (each.time_s is None) == (each.status in ("optimal", "feasible")):
            msg = f"is {each.status}, but time_s is {describe(each.time_s)}"
            raise InputError(msg, field=f"mixing.alone.{number}.status")
    made = Mixing.of(own.problem, own.plan, own.price, said.objective, rows)
    _ensure_same(said.to_json(), made.to_json(), "mixing")
    return made


def _ensure_same(said: Any, due: Any, field: str) -> None:
    """Raise InputError if the file does not say what follows."""
    if isinstance(due, dict | list):
        for key, value in due.items() if isinstance(due, dict) else enumerate(due):
            _ensure_same(said[key], value, f"{field}.{key}")
    elif said != due and not (isinstance(due, float) and said and isclose(said, due)):
        msg = f"is {describe(said)}, but {describe(due)} follows"
        raise InputError(f"{msg}: run `hetopt explain` again", field=field)


def mixing(contents: Contents) -> str:
    """Return the section; empty if the problem has a single cluster."""
    if len(contents.plans[0].problem.clusters) == 1:
        return ""
    parts = (
        table(mixing_report(own), TITLE)
        + words("p", _SOURCE.format(name), class_="source")
        for name, own in contents.mixed
        if own is not None
    )
    return "".join(parts) or words("p", f"None given: {_HOW}")
