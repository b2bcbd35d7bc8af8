"""Records refuse values in one line that names the field."""

from __future__ import annotations

import pickle
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from hetopt.base.record import Checked, Record
from hetopt.errors import InputError


class Part:
    """Something that checks itself."""


class Made(Record):
    """A record with a field of every kind."""

    part: Annotated[Part, Checked]
    count: Annotated[int, Field(ge=1)] = 1
    rate: Annotated[float, Field(gt=0)] | None = None
    kind: Literal["one", "other"] | None = None
    name: str | None = None


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"count": 0}, "count: is 0, expected a whole number of at least 1"),
        ({"count": True}, "count: is True, expected a whole number"),
        ({"rate": 0}, "rate: is 0, expected a number above 0"),
        ({"rate": float("inf")}, "rate: is inf, expected a finite number"),
        ({"rate": "2"}, "rate: is '2', expected a number"),
        ({"kind": "third"}, "kind: is 'third', expected 'one' or 'other'"),
        ({"name": 3}, "name: is 3, expected a text"),
        ({"part": 3}, "part: "),
        ({"colour": "red"}, "colour: "),
    ],
)
def test_what_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Made(**{"part": Part(), **values})
    assert str(caught.value).startswith(said)


def test_changes_are_checked_and_leave_the_record_as_it_was() -> None:
    made = Made(part=Part(), rate=2)
    other = made.but(count=3)
    assert (other.count, other.rate, made.count) == (3, 2.0, 1)
    assert other.part is made.part
    with pytest.raises(InputError, match="count"):
        made.but(count=0)
    assert pickle.loads(pickle.dumps(other)).count == 3
