"""Records refuse values in one line that names the field."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, InstanceOf, ValidationError

from hetopt.base.faults import Fault, faults
from hetopt.base.fields import Count, Name, Positive
from hetopt.base.record import derived, read, record
from hetopt.errors import InputError


class Part:
    """Something that checks itself."""


@record
class Made:
    """A record with a field of every kind.

    Attributes
    ----------
    part
        What it is made of.
    """

    part: InstanceOf[Part]
    count: Count = 1
    rate: Positive | None = None
    kind: Literal["one", "other"] | None = None
    name: str | None = None


@record
class Box:
    """A record as files give it.

    Attributes
    ----------
    name
        A label; never empty.
    width
        In units.
    """

    name: Name
    width: Count
    size_units: Annotated[Count, Field(alias="size")] = derived(
        factory=lambda box: box["width"] ** 2
    )
    kind: Literal["paper", "wood"] = "paper"
    inner: tuple[Box, ...] = ()

    def __post_init__(self) -> None:
        for index, box in enumerate(self.inner):
            if box.width >= self.width:
                msg = f"is {box.width}, expected less than {self.width}"
                raise Fault(msg, "inner", index, "width")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"count": 0}, "count: is 0, expected a whole number of at least 1"),
        ({"count": True}, "count: is true, expected a whole number"),
        ({"rate": 0}, "rate: is 0, expected a number above 0"),
        ({"rate": float("inf")}, "rate: is inf, expected a number"),
        ({"rate": "2"}, "rate: is '2', expected a number"),
        (
            {"kind": "third"},
            "kind: is 'third' (did you mean 'other'?), expected ",
        ),
        ({"name": 3}, "name: is 3, expected a text"),
        ({"part": 3}, "part: is 3, expected Part"),
        ({"colour": "red"}, "colour: is not a known field"),
    ],
)
def test_what_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Made(**{"part": Part(), **values})
    assert str(caught.value).startswith(said)


def test_changes_are_checked_and_leave_the_record_as_it_was() -> None:
    made = Made(part=Part(), rate=2)
    other = replace(made, count=3)
    assert (other.count, other.rate, made.count) == (3, 2.0, 1)
    assert other.part is made.part
    with pytest.raises(InputError, match="count"):
        replace(made, count=0)
    assert pickle.loads(pickle.dumps(other)).count == 3


def test_a_program_uses_its_own_names() -> None:
    assert Box(name="a", width=3).size_units == 9
    with pytest.raises(InputError, match="size_units: is 0, expected a whole"):
        Box(name="a", width=3, size_units=0)
    with pytest.raises(InputError, match="inner: is a list, expected a list"):
        Box(name="a", width=3, inner=[])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"inner\.0: is a mapping, expected Box"):
        Box(name="a", width=3, inner=({"name": "b"},))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("paper", "() is 'paper', expected a mapping with name, width, size, kind"),
        ({"width": 1}, "('name',) is missing, expected a label"),
        ({"name": "a", "width": 2, "size": 0}, "('size',) is 0, expected a whole"),
        ({"name": "a", "with": 2}, "('with',) is not a known field (did you mean 'wi"),
        (
            {"name": "a", "width": 2, "kind": "wod"},
            "('kind',) is 'wod' (did you mean 'wood'?), expected one of paper, wood",
        ),
        (
            {"name": "a", "width": 2, "inner": [{"name": 1, "width": 1}, {"name": 2}]},
            "('inner', 1, 'width') is missing, expected in units",
        ),
        (
            {"name": "a", "width": 2, "inner": [{"name": "b", "width": 5}]},
            "('inner', 0, 'width') is 5, expected less than 2",
        ),
    ],
)
def test_what_a_file_gives(data: Any, said: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(Box, data, "a file")
    found = faults(caught.value)[0]
    assert f"{found.path} {found.message}".startswith(said)


def test_a_file_gives_a_record() -> None:
    data = {"name": 3, "width": 2, "size": None, "inner": [{"name": "b", "width": 1}]}
    made = read(Box, data, "a file")
    assert made == Box(name="3", width=2, inner=(Box(name="b", width=1),))
