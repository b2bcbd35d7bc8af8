"""HAPT's epsilon (Eq. 2), as problems, plans and other records give it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from hetopt.base.faults import Fault
from hetopt.base.words import describe
from hetopt.errors import InputError
from hetopt.problem.training.choices import ADAPTIVE, ScheduleName

#: HAPT's epsilon (Eq. 2), first the default: MODEL.md section 4 argues for it. A search
#: for the best schedule tries all of them.
EPSILONS = (0.05, 0.1, 0.01)
#: What h-1f1b had before it could be chosen: files without the field have it.
FORMER_EPSILON = 0.01
#: Epsilon is 1 / n; the largest n.
MOST_PARTS = 1000
EPSILON_EXPECTED = (
    f"expected 1/n with a whole n from 3 to {MOST_PARTS}, such as 0.05 or 1/30"
)


def is_epsilon(value: object) -> bool:
    """Whether a value is 1 / n, n whole: times are compared with it exactly.

    It is below 1 / 2, as otherwise HAPT's Eq. 2 has no second case.
    """
    if isinstance(value, int | float) and 1 / (MOST_PARTS + 1) < value < 0.4:
        return abs(value * round(1 / value) - 1) < 1e-9
    return False


def epsilon_fault(schedule: ScheduleName, epsilon: object) -> str | None:
    """Return why a schedule cannot have this ``warmup_epsilon``, or None."""
    given = f"is {describe(epsilon)}"
    if epsilon is not None and schedule != ADAPTIVE:
        given += f" with schedule {schedule}"
        return f"{given}, expected schedule {ADAPTIVE}, or leave it out"
    good = epsilon is None or is_epsilon(epsilon)
    return None if good else f"{given}, {EPSILON_EXPECTED}"


def written_epsilon(data: Mapping[str, Any], where: str = "") -> float | None:
    """Return ``warmup_epsilon`` of a plan, table or other record in JSON.

    Parameters
    ----------
    where
        Field of the record, for error messages.

    Raises
    ------
    InputError
        The record's schedule cannot have it.
    """
    schedule, epsilon = data["schedule"], data.get("warmup_epsilon")
    fault = epsilon_fault(schedule, epsilon)
    if fault is not None:
        field = f"{where}.warmup_epsilon".lstrip(".")
        raise InputError(fault, field=field)
    if epsilon is None and schedule == ADAPTIVE:
        return FORMER_EPSILON
    return epsilon


def read_epsilon(value: Any) -> float | None:
    """Read 0.05 or "1/20"."""
    if value is None:
        return None
    given = value
    if isinstance(value, str) and re.fullmatch(r"1/[1-9]\d{0,3}", value.strip()):
        given = 1 / int(value.strip()[2:])
    if not is_epsilon(given):
        raise Fault(f"is {describe(value)}, {EPSILON_EXPECTED}")
    return float(1 / round(1 / given))
