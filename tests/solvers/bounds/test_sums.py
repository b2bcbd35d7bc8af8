"""Sums of clusters, in one call of machine code or in many."""

from __future__ import annotations

import numpy as np
import pytest

from hetopt.formulations.chain import Chain
from hetopt.solvers.bounds import sums
from hetopt.solvers.bounds.by_count import focus, survey
from hetopt.solvers.bounds.relaxation import Relaxation
from tests.oracle.instances import make_instance


@pytest.mark.parametrize("most_steps", [1, 50, sums._MOST_STEPS])
def test_min_plus_is_that_of_all_pairs(
    most_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(7)
    before, costs = rng.random((3, 5)), rng.random((4, 5))
    before[rng.random(before.shape) < 0.3] = np.inf
    costs[rng.random(costs.shape) < 0.3] = np.inf
    after = rng.random((4, 5)) + 0.5
    expected = after.copy()
    for (s, u), one in np.ndenumerate(before):
        for (m, n), other in np.ndenumerate(costs):
            if s + m < 4 and u + n < 5:
                expected[s + m, u + n] = min(expected[s + m, u + n], one + other)
    monkeypatch.setattr(sums, "_MOST_STEPS", most_steps)
    sums.min_plus(before, costs, after)
    assert after.tolist() == expected.tolist()


@pytest.mark.parametrize("seed", [300, 301, 302])
def test_a_search_compiles_nothing_twice(seed: int) -> None:
    """What is compiled ahead is compiled for the arrays that a search passes."""
    sums.add_once()
    instance = make_instance(seed)
    table = instance.table
    for part in table.slices:
        relaxation = Relaxation(
            table=table,
            part=part,
            chain=Chain.of(table),
            pins=instance.problem.rules,
            most_stages=max(instance.problem.stage_counts),
        )
        found = survey(relaxation, cutoff=None).bound
        for stages in np.flatnonzero(np.isfinite(found)):
            focus(relaxation, int(stages), cutoff=2 * float(found[stages]))
    for name in ("_min_plus", "complete", "cheapest_with", "capped_first"):
        assert len(getattr(sums, name).signatures) == 1
