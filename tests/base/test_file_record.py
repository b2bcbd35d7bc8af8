"""Records in files: what is written, what is read, and what their schema says."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import jsonschema
import pytest
from annotated_types import MinLen
from typing_extensions import TypedDict

from hetopt.base import file_record, interruption
from hetopt.base.fields import Count, Seconds
from hetopt.base.file_record import (
    ALWAYS,
    ASIDE,
    CONFIG,
    INLINE,
    LATER,
    As,
    FileRecord,
    Named,
)
from hetopt.base.schema import json_schema
from hetopt.errors import InputError


class Node(TypedDict, total=False):
    """A part that is a mapping in Python, too.

    Attributes
    ----------
    bound
        No plan takes less.
    """

    __pydantic_config__ = CONFIG  # type: ignore[misc]

    bound: Seconds


class Tree(Node, total=False):
    """A node with children."""

    below: list[Tree]


Nodes: TypeAlias = Annotated[Mapping[str, Any], As(Tree)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh(FileRecord):
    """How devices share work.

    Attributes
    ----------
    dp
        Replicas.
    """

    dp: Count
    tp: Count = 1
    kind: Annotated[Literal["one", "other"], ALWAYS] = "one"

    def __post_init__(self) -> None:
        if self.dp < self.tp:
            raise ValueError("dp is less than tp")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage(FileRecord):
    """A stage of a pipeline.

    It has more in its docstring.

    Attributes
    ----------
    name, alias
        What it is called; None if nothing.
    """

    SCHEMA: ClassVar[str] = "stage/1"

    name: str | None
    alias: Annotated[str | None, Named("also")] = None
    mesh: Annotated[Mesh, INLINE]
    units: Annotated[tuple[Count, ...], MinLen(1)]
    tree: Nodes | None = None
    noise: Annotated[tuple[str, ...], LATER] = ()
    stopped: Annotated[bool, ASIDE] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered(FileRecord):
    """Its keys have an order of their own, and one follows from the others."""

    KEYS: ClassVar[tuple[str, ...]] = ("dp", "total", "name", "tp", "kind")

    name: str
    mesh: Annotated[Mesh | None, INLINE]

    @property
    def total(self) -> int:
        """Of all replicas."""
        return 0 if self.mesh is None else self.mesh.dp * self.mesh.tp


STAGE = Stage(
    name=None,
    alias="b",
    mesh=Mesh(dp=4, tp=2),
    units=(1, 2),
    tree={"below": [{"bound": 1.5}]},
    stopped=True,
)
WRITTEN = {
    "schema": "stage/1",
    "name": None,
    "also": "b",
    "dp": 4,
    "tp": 2,
    "kind": "one",
    "units": [1, 2],
    "tree": {"below": [{"bound": 1.5}]},
    "noise": [],
}


def test_keys_are_the_fields_in_their_order() -> None:
    assert list(STAGE.to_json().items()) == list(WRITTEN.items())
    found = Stage.from_json(WRITTEN)
    assert not found.stopped
    assert found.to_json() == WRITTEN


def test_defaults_are_left_out() -> None:
    plain = Stage(name="a", mesh=Mesh(dp=1), units=(1,))
    assert plain.to_json() == {
        **{"schema": "stage/1", "name": "a", "dp": 1, "kind": "one", "units": [1]},
        "noise": [],
    }
    older = {key: each for key, each in plain.to_json().items() if key != "noise"}
    assert Stage.from_json(older) == plain


@pytest.mark.parametrize("mesh", [None, Mesh(dp=3, tp=2)])
def test_properties_are_written_but_not_read(mesh: Mesh | None) -> None:
    made = Ordered(name="a", mesh=mesh)
    data = made.to_json()
    assert list(data)[:3] == ["dp", "total", "name"]
    assert Ordered.from_json(data) == made


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"schema": "stage/2", "x": 1}, "schema: is 'stage/2', expected 'stage/1'"),
        (
            {"nmae": 1},
            "nmae: is not a known field (did you mean 'name'?), expected ",
        ),
        ({"stopped": True}, "stopped: is not a known field"),
        ({"alias": "b"}, "alias: is not a known field"),
        ({"dp": 0}, "dp: is 0, expected a whole number of at least 1"),
        ({"dp": True}, "dp: is true, expected a whole number of at least 1"),
        ({"dp": 1}, "dp is less than tp"),
        (
            {"kind": "third"},
            "kind: is 'third' (did you mean 'other'?), expected ",
        ),
        ({"units": []}, "units: has 0 entries, expected at least 1"),
        ({"units": [1, "2"]}, "units.1: is '2', expected a whole number"),
        ({"also": None}, "also: is empty, expected a text"),
        (
            {"tree": {"below": [{"bond": 1}]}},
            "tree.below.0.bond: is not a known field",
        ),
        ({"tree": {"bound": -1}}, "tree.bound: is -1, expected a number of at least 0"),
        ({"tree": {"bound": float("nan")}}, "tree.bound: is nan, expected a number of"),
        ({"tree": 3}, "tree: is 3, expected a mapping"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Stage.from_json({**WRITTEN, **changed})
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize("key", ["schema", "name", "dp", "kind", "units"])
def test_what_is_missing(key: str) -> None:
    with pytest.raises(InputError, match=f"^{key}: is missing$"):
        Stage.from_json({each: WRITTEN[each] for each in WRITTEN if each != key})


def test_the_schema_says_the_same() -> None:
    schema = json_schema(Stage, "a stage")
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(WRITTEN, schema)
    assert schema["title"] == "a stage"
    assert schema["description"] == "A stage of a pipeline."
    keys = schema["properties"]
    assert keys["name"]["description"] == "What it is called; null if nothing."
    assert keys["dp"]["description"] == "Replicas."
    assert schema["required"] == ["schema", "name", "dp", "kind", "units"]
    tree = schema["$defs"]["Tree"]["properties"]
    assert tree["bound"]["description"] == "No plan takes less."
    total = json_schema(Ordered)["properties"]["total"]
    assert total["description"] == "Of all replicas."


def test_an_interruption_is_no_wrong_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """What validates takes all that is raised for a wrong value."""

    class Swallowing:
        def validate_json(self, data: str, *, strict: bool) -> object:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.01)
            except KeyboardInterrupt:
                msg = "expected another value"
                raise InputError(msg) from None
            return data

    monkeypatch.setattr(file_record, "adapter", lambda kind: Swallowing())
    # A parent may ignore it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interruption.install()
    try:
        with pytest.raises(KeyboardInterrupt), interruption.released():
            file_record.read(Node, {})
    finally:
        interruption.remove()
        signal.signal(signal.SIGINT, before)
