"""What is refused because it has not the shape that ``hetopt schema`` prints."""

from __future__ import annotations

import json
import math
from functools import cache

import jsonschema

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
from tests.mutations import mutations

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


def refusal(data: object) -> InputError | None:
    try:
        Result.from_json(data)
    except InputError as error:
        return error
    return None


def test_it_refuses_what_jsonschema_refuses() -> None:
    """Endless numbers aside, which JSON does not have."""
    judge = jsonschema.Draft202012Validator(SCHEMAS["result"])
    data = json.loads(text())
    assert refusal(data) is None
    for path, what, value, _, document, _ in mutations(data):
        wanted = judge.is_valid(document)
        if isinstance(value, float) and not math.isfinite(value):
            wanted = False
        refused = refusal(document)
        assert (refused is None) == wanted, (path, what, refused)
