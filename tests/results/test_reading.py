"""What is refused because it has not the shape that ``hetopt schema`` prints."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.problem.reading import read_problem_text
from hetopt.report.schemas import SCHEMAS
from hetopt.results.result import Result
from hetopt.results.spending import Spending
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.search.branchings.schedules import ScheduleVariant
from hetopt.solvers.search.over import Over
from hetopt.solvers.search.search import TreeSearch

if TYPE_CHECKING:
    from collections.abc import Iterator

Path = tuple[str | int, ...]


PROBLEM = """\
model: {layers: 4, hidden: 512, heads: 4, ffn: 2048, vocab: 32000}
clusters:
  - {name: a, accelerator: A100-80GB, nodes: 2, devices_per_node: 1, price_per_hour: 6,
     inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 2, seq_len: 1024, precision: fp16}
"""
OVER = Over(
    spending=Spending(),
    measure="cost",
    schedules=(ScheduleVariant(schedule="1f1b"), ScheduleVariant(schedule="gpipe")),
    pipelines=2,
)


@cache
def text() -> str:
    """Return a result whose claims are as deep as they can be."""
    problem = read_problem_text(PROBLEM)
    request = Request(
        problem=problem, table=build_table(problem), params=RaceParams(jobs=1)
    )
    tree = TreeSearch(request, load("dp"), OVER, solver="dp", objective="closed")
    return json.dumps(tree.run().to_json())


def paths(data: object, at: Path = ()) -> Iterator[Path]:
    """Yield the place of every value, and of the first two of a list."""
    yield at
    if isinstance(data, dict):
        for key, value in data.items():
            yield from paths(value, (*at, key))
    elif isinstance(data, list):
        for index, value in enumerate(data[:2]):
            yield from paths(value, (*at, index))


def replaced(data: Any, path: Path, value: object) -> Any:
    data = deepcopy(data)
    if not path:
        return value
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


def refusal(data: object) -> InputError | None:
    try:
        Result.from_json(data)
    except InputError as error:
        return error
    return None


@pytest.mark.parametrize(
    "value", [None, True, -1, 0, 1, 0.5, 1e400, "", "word", [], [1], {}, {"a": 1}]
)
def test_it_refuses_what_jsonschema_refuses(value: object) -> None:
    """An endless number aside, which JSON does not have."""
    judge = jsonschema.Draft202012Validator(SCHEMAS["result"])
    data = json.loads(text())
    assert refusal(data) is None
    for path in paths(data):
        forged = replaced(data, path, value)
        wanted = value != 1e400 and judge.is_valid(forged)
        refused = refusal(forged)
        assert (refused is None) == wanted, (path, refused)
        if refused is not None and path:
            assert str(refused.field).startswith(str(path[0]))


def test_every_object_names_the_key_that_it_does_not_know() -> None:
    data = json.loads(text())
    for path in paths(data):
        place = data
        for key in path:
            place = place[key]
        if not isinstance(place, dict):
            continue
        refused = refusal(replaced(data, path, {**place, "solvre": 1}))
        if path and ("at" in path or path[-1] in ("nodes", "table_kinds")):
            # Its keys are names of clusters, or may be.
            continue
        assert refused is not None, path
        assert refused.field == ".".join(map(str, (*path, "solvre")))
        assert "is not a known field" in refused.message


def test_a_slip_is_told_apart() -> None:
    data = json.loads(text())
    data["serach_time_s"] = data.pop("search_time_s")
    refused = refusal(data)
    assert refused is not None
    assert str(refused).startswith(
        "serach_time_s: is not a known field (did you mean 'search_time_s'?), expected "
        "one of schema, status, objective, "
    )
