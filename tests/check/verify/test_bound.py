"""Bounds derived again are true of what brute force finds, and rarely loose."""

from __future__ import annotations

from math import floor
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.check.verify import fills
from hetopt.check.verify.bound import PS_PER_NS, unproven
from hetopt.check.verify.fills import NEVER, add
from hetopt.cost.build import build_table
from hetopt.problem.reading import read_problem_text
from tests.oracle import brute_force
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName

#: One cluster of eight devices.
DEEP = """\
model: {layers: 8, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: only, accelerator: A100-80GB, nodes: 1, devices_per_node: 8,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
training: {global_batch: 2, seq_len: 1024, schedule: %s}
"""


@pytest.mark.parametrize("schedule", ["1f1b", "eager-1f1b", "h-1f1b"])
def test_no_claim_is_so_large_that_it_overflows(schedule: ScheduleName) -> None:
    # With 8 stages in one cluster, windows of 8 lambda and more.
    problem = read_problem_text(DEEP % schedule)
    table = build_table(problem)
    for claim in (PS_PER_NS * NEVER, PS_PER_NS * (NEVER // 8), 2**70, 2**100):
        assert unproven(problem, table, 2, {8: claim}) == [8]


def test_most_bounds_near_the_optimum_are_proven() -> None:
    near = proven = 0
    for seed in range(925, 930):
        instance = make_instance(seed, pinned=False)
        problem, table = instance.problem, instance.table
        for (p, q), found in brute_force.solve(problem, table).programs.items():
            if found is None:
                continue
            near += 1
            below = floor(found.closed_form_ns * PS_PER_NS * 8 / 10)
            proven += not unproven(problem, table, q, {p: below})
    assert proven > near / 2


def test_a_long_row_is_added_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 units in a single stage: a deadline has to come between two bits."""
    random = np.random.default_rng(0)
    before = random.integers(1, 100, (2, 30))
    before[1, 0] = NEVER
    costs = random.integers(1, 100, (4, 25))
    costs[0, 1:], costs[1, :3], costs[2] = NEVER, NEVER, NEVER
    after = np.full((6, 40), NEVER)
    expected = after.copy()
    for p, u in np.ndindex(before.shape):
        for m, n in np.ndindex(costs.shape):
            if n >= m and p + m < len(before) and u + n < before.shape[1]:
                least = min(expected[p + m, u + n], before[p, u] + costs[m, n])
                expected[p + m, u + n] = min(least, NEVER)
    cells: list[int] = []
    whole = fills.add_cells

    def noted(
        before: fills.Ints,
        costs: fills.Ints,
        spans: fills.Ints,
        after: fills.Ints,
        first: int,
        end: int,
    ) -> None:
        cells.append(end - first)
        whole(before, costs, spans, after, first, end)

    monkeypatch.setattr(fills, "add_cells", noted)
    monkeypatch.setattr(fills, "_SUMS", 7 * costs.size)
    add(before, costs, after)
    assert (after == expected).all()
    assert max(cells) == 7
    assert sum(cells) == before.size
