"""Gradients of weights that run later: bounds and searches are brute force's."""

from __future__ import annotations

from dataclasses import replace
from math import floor

import numpy as np
import pytest

from hetopt.check.verify import search as module
from hetopt.check.verify.bound import PS_PER_NS, unproven
from hetopt.check.verify.chunks import at_rest
from hetopt.cost.chunks import with_waiting
from tests.check.verify.descending import ensure_least
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_split

#: Seeds of what is compared in seconds, and of all that is.
FEW, MANY = range(8600, 8606), range(8606, 8686)


def _exact(seed: int) -> Instance:
    """Draw one without what labels leave out: pins of units, and tied embeddings."""
    instance = make_split(seed, pinned=False)
    parts = (replace(part, tied_ns=None) for part in instance.table.slices)
    table = replace(instance.table, slices=tuple(parts))
    return replace(instance, table=table)


def test_units_hold_at_rest_what_waits() -> None:
    for seed in FEW:
        table = make_split(seed).table
        for part in table.slices:
            for p in range(1, 5):
                found = at_rest(table, part.microbatches, p)
                expected = with_waiting(part, ~np.array(table.body), p)
                for own, other in zip(found.clusters, expected.clusters, strict=True):
                    assert np.array_equal(own.state_bytes, other.state_bytes)
                    assert np.array_equal(own.activation_bytes, other.activation_bytes)


@pytest.mark.slow
def test_many_bounds_near_the_optimum_are_proven() -> None:
    near = proven = 0
    for seed in range(8510, 8525):
        instance = make_split(seed, pinned=False)
        problem, table = instance.problem, instance.table
        programs = brute_force.solve(problem, table).programs
        for (p, q), found in programs.items():
            near += 1
            below = floor(found.closed_form_ns * PS_PER_NS * 7 / 10)
            proven += not unproven(problem, table, q, {p: below})
    assert proven > near / 2


@pytest.fixture
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_LABELS", 200_000)


@pytest.mark.slow
@pytest.mark.usefixtures("_little_memory")
def test_the_search_goes_down_to_every_optimum() -> None:
    assert sum(map(ensure_least, map(_exact, FEW))) > 3


@pytest.mark.slow
@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("first", MANY[::10])
def test_the_search_goes_down_to_every_optimum_of_many(first: int) -> None:
    found = [ensure_least(_exact(seed)) for seed in range(first, first + 10)]
    assert any(found)
