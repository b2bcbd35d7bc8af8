"""Strategies that another one replaces, many pairs at once or few."""

from __future__ import annotations

import pytest

from hetopt.cost.build import build_table
from hetopt.formulations import space
from hetopt.formulations.chain import Chain
from hetopt.problem.training.choices import ScheduleName
from hetopt.problem.training.training import Training
from tests.cost.making import make_cluster, make_problem


# One of each kind that compares strategies in its own way.
@pytest.mark.parametrize("schedule", ["1f1b", "h-1f1b", "gpipe"])
def test_pairs_are_compared_in_any_number(
    schedule: ScheduleName, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = make_problem(
        (make_cluster(nodes=2), make_cluster("b", "H20-96GB")),
        training=Training(global_batch=8, seq_len=2048, schedule=schedule),
    )
    table = build_table(problem)
    part = table.at(4)
    chain = Chain.of(table)
    whole = space.undominated(table, part, chain)
    monkeypatch.setattr(space, "_MOST_CELLS", 1)
    single = space.undominated(table, part, chain)
    for all_at_once, one_by_one, every in zip(
        whole.clusters, single.clusters, part.clusters, strict=True
    ):
        assert all_at_once.strategies == one_by_one.strategies
        left = len(all_at_once.strategies)
        # Where times decide warm-up counts, only what equals another goes.
        assert 0 < left < len(every.strategies) or schedule == "h-1f1b"
