"""The section of each cluster alone, from files of `hetopt explain --out`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base import reading
from hetopt.errors import InputError
from hetopt.report.page.markup import table, words
from hetopt.report.schemas.reports import REASONS
from hetopt.report.schemas.shape import ensure_shape
from hetopt.report.whatif.mixing import TITLE, mixing_report
from hetopt.whatif.mixing import Mixing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.plans.plan import Plan
    from hetopt.report.page.contents import Contents

_HOW = "`hetopt explain PROBLEM PLAN --out FILE` writes what --explain shows here."


def read_mixing(path: str, plans: Iterable[Plan]) -> Mixing | None:
    """Read what ``hetopt explain`` wrote about one of these plans.

    Returns
    -------
    None if the plan's problem has a single cluster.

    Raises
    ------
    InputError
        The file cannot be used, or explains another plan.
    """
    data = reading.read_json(path, "an explanation")
    try:
        ensure_shape(data, REASONS)
        if data["plan"] not in [plan.to_json() for plan in plans]:
            msg = "is not on the page: run `hetopt explain` with one that is"
            raise InputError(msg, field="plan")
    except InputError as error:
        raise InputError(error.message, file=path, field=error.field) from error
    found = data["mixing"]
    return None if found is None else Mixing.from_json(found)


def mixing(contents: Contents) -> str:
    """Return the section; empty if the problem has a single cluster."""
    if len(contents.plans[0].problem.clusters) == 1:
        return ""
    parts = (
        table(mixing_report(own), TITLE) + words("p", f"From {name}.", class_="source")
        for name, own in contents.mixed
        if own is not None
    )
    return "".join(parts) or words("p", f"None given: {_HOW}")
