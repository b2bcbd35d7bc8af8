"""The table over the rates between HetAuto's clusters."""

from __future__ import annotations

import pytest
import yaml

from benchmarks import links
from hetopt.problem.catalogue import problem_files

#: Shipped problems, and the same at the former rate.
FILES = [
    *((name, links.SHIPPED, name) for name in links.PROBLEMS),
    *((name, links.SHIPPED, name) for name in links.PUBLISHED.values()),
    *((name, "10 per node", f"{name}-10gbps") for name in links.PROBLEMS),
]


@pytest.mark.parametrize(("name", "reading", "file"), FILES)
def test_readings_are_those_of_the_files(name: str, reading: str, file: str) -> None:
    shipped = yaml.safe_load(problem_files()[file].read_text("utf-8"))
    assert links.linked(name, reading)["links"] == shipped["links"]


@pytest.mark.slow
def test_uniform_and_the_published_plan_at_one_rate() -> None:
    row = links.row_of("hetauto-exp1", links.SHIPPED)
    assert row.optimum is not None
    assert row.uniform is not None
    assert row.every_cluster is not None
    assert row.published is None
    assert row.optimum.status == "optimal"
    assert row.optimum.closed_form_s < row.uniform.closed_form_s
    assert row.uniform.closed_form_s <= row.every_cluster.closed_form_s
    assert set(row.every_cluster.clusters) == {"a100", "ascend"}
