"""Labels that differ in nothing that is noticed, against every plan there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from hetopt.check.verify import search
from hetopt.check.verify.fills import NEVER
from hetopt.check.verify.labels import left_to_pay
from hetopt.check.verify.labels.data import PS_PER_NS, At
from hetopt.check.verify.labels.ranges import Node
from hetopt.cost.table.ticks import LONGEST_NS
from tests.oracle import brute_force
from tests.oracle.instances import Instance, make_instance

if TYPE_CHECKING:
    from fractions import Fraction

    from hetopt.problem.training.choices import ScheduleName

    #: By stage count and micro-batches: lambda, and F with g, in ns, of every plan.
    Costs = dict[tuple[int, int], list[tuple[Fraction, Fraction]]]


def _costs(instance: Instance) -> Costs:
    """Price every plan of several micro-batches."""
    costs: Costs = {}
    for found in brute_force.every_plan(instance.problem, instance.table):
        p, q = found.shape[:2]
        if q > 1:
            fill = found.closed_form_ns - (q - 1) * found.period_ns
            costs.setdefault((p, q), []).append((found.period_ns, fill))
    return costs


def _least_fills(
    instance: Instance, q: int, counts: tuple[int, ...], high_ps: int
) -> dict[int, int]:
    """Return the least F with g that labels find, by stage count."""
    bounds = dict.fromkeys(counts, PS_PER_NS * LONGEST_NS)
    one = search.LabelSearch(instance.problem, instance.table, q, bounds, None)
    best = one._labels(Node(0, high_ps, counts))
    assert best is not None
    rows = {p: one.pool[row] for p, row in best.items()}
    return {p: int(row[At.FILL] + row[At.SYNC]) for p, row in rows.items()}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    "seeds",
    [range(760, 764), pytest.param(range(764, 768), marks=pytest.mark.seeds)],
    ids=str,
)
@pytest.mark.parametrize(
    "schedule",
    ["1f1b", "eager-1f1b", "virtual-1f1b", "1f1b-blocking", "1f1b-batched"],
)
def test_labels_find_the_least_fill_of_every_plan_at_each_lambda(
    schedule: ScheduleName, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "_MOST_LABELS", 200_000)
    monkeypatch.setattr(search, "_MOST_TOGETHER", 200_000)
    compared = 0
    for seed in seeds:
        instance = make_instance(seed, schedule=schedule, pinned=False)
        if any(part.tied_ns is not None for part in instance.table.slices):
            # What they add to g labels leave out in part.
            continue
        costs = _costs(instance)
        for q in sorted({q for _, q in costs}):
            own = {p: pairs for (p, count), pairs in costs.items() if count == q}
            periods = sorted({period for pairs in own.values() for period, _ in pairs})
            for period in periods[:: max(1, len(periods) // 4)]:
                high_ps = -(-period * PS_PER_NS // 1)
                expected = {
                    p: min(fills)
                    for p, pairs in own.items()
                    if (
                        fills := [
                            fill for lam, fill in pairs if lam * PS_PER_NS <= high_ps
                        ]
                    )
                }
                assert _least_fills(instance, q, tuple(own), high_ps) == expected
                compared += 1
    assert compared > 20


def test_fewer_labels_are_kept_where_boundaries_hide_what_they_ask(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = make_instance(763, schedule="1f1b", pinned=False)
    costs = _costs(instance)
    p, q = max(costs, key=lambda program: len(costs[program]))
    high_ps = 2 * PS_PER_NS * -(-max(period for period, _ in costs[p, q]) // 1)
    kept = []
    for _ in range(2):
        one = search.LabelSearch(
            instance.problem, instance.table, q, {p: PS_PER_NS * LONGEST_NS}, None
        )
        assert one._labels(Node(0, high_ps, (p,))) is not None
        used = one.pool[:, At.UNITS] > 0
        kept.append(int((one.pool[used, At.FILL] < NEVER).sum()))
        monkeypatch.setattr(
            left_to_pay,
            "calm",
            lambda facts, high: np.zeros(
                (len(facts.kappa), len(facts.cluster)), dtype=np.int64
            ),
        )
    assert kept[0] < kept[1]
