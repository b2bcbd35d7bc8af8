"""Stages of several chunks: how activations get back to the first stage."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from hetopt.check import check_plan
from hetopt.errors import CheckError
from hetopt.problem.training.choices import RESHARDING
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_chunked


def drawn(seed: int) -> Instance:
    """Draw an instance of two to four chunks."""
    return make_chunked(7300 + seed, 2 + seed % 3)


def test_how_activations_get_back_to_the_first_stage_is_checked() -> None:
    solved = (
        (each.problem, each.table, brute_force.solve(each.problem, each.table).best)
        for each in map(drawn, itertools.count())
    )
    problem, table, best = next(each for each in solved if each[2] is not None)
    assert best is not None
    plan = brute_force.to_plan(problem, table, best)
    check_plan(problem, table, plan)
    *before, last = plan.pipeline.stages
    for way in (None, *RESHARDING):
        if way == last.resharding:
            continue
        stages = (*before, replace(last, resharding=way))
        wrong = replace(plan, pipelines=(replace(plan.pipeline, stages=stages),))
        with pytest.raises(
            CheckError, match=f"{way}, the table says {last.resharding}"
        ):
            check_plan(problem, table, wrong)
