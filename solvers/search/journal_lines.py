"""The lines of a search's journal after the first: what each kind of them has."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from annotated_types import Ge, Le
from typing_extensions import TypedDict

from hetopt.base.fields import Count, Digest, Expected, NotNegative, Whole
from hetopt.base.file_record import CONFIG, read
from hetopt.errors import InputError
from hetopt.results.settlement import How

#: Times in 1 / PERIOD_SCALE ticks.
Scaled = Annotated[
    int, Ge(0), Le(2**63 - 1), Expected("a whole number of at least 0, in 64 bits")
]


class Told(TypedDict):
    """The progress of the whole search, for human readers.

    Lines about another time than the search's have none.
    """

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    elapsed_s: NotRequired[NotNegative]
    incumbent_s: NotRequired[float | None]
    lower_bound_s: NotRequired[float | None]


class SearchLine(TypedDict):
    """What the lines that follow are about, and the limit of plans of interest.

    ``search`` has the digests of problem and table, the time that is minimised and the
    number of plans that are wanted.
    """

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    search: tuple[Digest, Digest, str, Count]
    limit: Scaled


class KeptDecision(TypedDict):
    """A decision, whose strategies are rows of the latency table."""

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    microbatches: Count
    order: list[Whole]
    rows: list[Whole]
    hosted: list[Count]
    units: list[Whole]
    warmups: NotRequired[list[Count]]


class FoundLine(Told):
    """A plan, with its value."""

    decision: KeptDecision
    value: Scaled


class SettledLine(Told):
    """How a program was settled, and its bound."""

    stages: Count
    microbatches: Count
    how: How
    bound: Scaled
    searched: NotRequired[bool]


class InfeasibleLine(Told):
    """Programs that have no plan, each by its stages and micro-batches."""

    infeasible: list[tuple[Count, Count]]


class ReturnedLine(Told):
    """What the search of a leaf returned; no cutoff is null."""

    problem_digest: Digest
    table_digest: Digest
    cutoff: NotNegative | None
    ended: bool
    result: dict[str, Any]


#: Kinds of lines, by a key that only they have.
KINDS: dict[str, Any] = {
    "search": SearchLine,
    "decision": FoundLine,
    "how": SettledLine,
    "infeasible": InfeasibleLine,
    "result": ReturnedLine,
}


def line_of(data: Any) -> dict[str, Any]:
    """Return a line as it was read.

    Raises
    ------
    InputError
        It is of no kind, or a key of its kind is missing, unknown or wrong.
    """
    keys = [key for key in KINDS if isinstance(data, dict) and key in data]
    if not keys:
        raise InputError(f"has none of the keys {', '.join(KINDS)}")
    found: dict[str, Any] = read(KINDS[keys[0]], data)
    return found
