"""Plans of several chunks a stage: what is derived and searched agrees with others."""

from __future__ import annotations

from dataclasses import replace
from math import floor
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from hetopt.check.verify import search as module
from hetopt.check.verify.bound import PS_PER_NS, unproven
from hetopt.check.verify.chunks import at_rest
from hetopt.cost.chunks import with_stages
from hetopt.formulations.chain import Chain
from tests.check.verify.descending import ensure_least, searched
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_chunked

if TYPE_CHECKING:
    pass

#: Seeds of what is compared in seconds, and of all that is.
FEW, MANY = range(7706, 7712), range(7712, 7792)


def _draw(seed: int, **options: Any) -> Instance:
    return make_chunked(seed, 2 + seed % 3, **options)


def _exact(seed: int) -> Instance:
    """Draw one without what labels leave out: pins of units, and tied embeddings.

    Of two in three the way back is like no other boundary, and often as long as stages.
    """
    instance = _draw(seed, pinned=False)
    table, rng = instance.table, Random(seed)
    parts = [replace(part, tied_ns=None) for part in table.slices]
    if seed % 3 == 0:
        return replace(instance, table=replace(table, slices=tuple(parts)))
    back = len(table.cut_classes)
    for i, part in enumerate(parts):
        longest = max(int(own.forward_ns.max(initial=1)) for own in part.clusters)
        shape = part.transfer_ns.shape[1:]
        drawn = [rng.randint(0, 4 * longest) for _ in range(2 * shape[0] * shape[1])]
        kappa, omega = np.array(drawn, dtype=np.int64).reshape(2, 1, *shape)
        parts[i] = replace(
            part,
            way_back=back,
            transfer_ns=np.concatenate([part.transfer_ns, kappa]),
            occupancy_ns=np.concatenate([part.occupancy_ns, omega]),
            resharding=np.concatenate([part.resharding, part.resharding[:1]]),
        )
    table = replace(
        table,
        cut_classes=(*table.cut_classes, "way back"),
        way_back=back,
        slices=tuple(parts),
    )
    return replace(instance, table=table)


def test_units_hold_at_rest_what_plans_of_so_many_stages_do() -> None:
    for seed in range(7600, 7608):
        table = _draw(seed).table
        chain = Chain.of(table)
        lead, trail = (np.array(end) > 0 for end in (chain.lead, chain.trail))
        for part in table.slices:
            q = part.microbatches
            for p in (p for p in range(2, q + 1) if q % p == 0):
                found = at_rest(table, q, p)
                expected = with_stages(part, lead, trail, p)
                assert found.ahead == expected.ahead
                for own, other in zip(found.clusters, expected.clusters, strict=True):
                    used = sorted(set(table.units))
                    assert np.array_equal(
                        own.state_bytes[:, used], other.state_bytes[:, used]
                    )
                    assert np.array_equal(
                        own.activation_bytes[:, used], other.activation_bytes[:, used]
                    )


@pytest.mark.slow
def test_many_bounds_near_the_optimum_are_proven() -> None:
    near = proven = 0
    for seed in range(925, 945):
        instance = make_chunked(seed, 2, pinned=False)
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


@pytest.mark.usefixtures("_little_memory")
@pytest.mark.parametrize("seed", FEW)
def test_bounds_a_little_above_an_optimum_are_refuted(seed: int) -> None:
    instance = _exact(seed)
    table = instance.table
    programs, refuted = brute_force.solve(instance.problem, table).programs, 0
    for (p, q), found in programs.items():
        exact = found.closed_form_ns * PS_PER_NS
        true = searched(instance, p, q, floor(exact))
        assert true is None or true.plan is None
        bound = floor(exact * 1001 / 1000) + 2 * q * table.chunks + 4
        false = searched(instance, p, q, bound)
        # It may be left to another search, but never counts as true.
        assert false is not None
        assert false.open or false.plan is not None
        refuted += false.plan is not None
    assert 2 * refuted > len(programs) or not programs
