"""Every solver against brute force, the checker and its own certificate.

A failing instance is compared again by ``python -m tests.agreement SEED``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import asdict, replace

import pytest

from hetopt.problem.training.choices import SCHEDULE_CHOICES
from hetopt.problem.training.epsilon import EPSILONS
from hetopt.solvers.race import programs
from hetopt.solvers.simulated import view
from hetopt.solvers.simulated.worker import (
    BoundTimesTask,
    SimulatedSpec,
    SimulatedWorker,
)
from tests.agreement.answers import answer_to, answers
from tests.agreement.comparing import Comparison
from tests.agreement.generator import RELAXED, features_of, in_simulated_time, make

#: Where the instances of ``make test`` and ``test-slow`` end, and how many are a batch.
QUICK, ALL, BATCH = 100, 2000, 10


def batches(first: int, end: int) -> list[range]:
    return [range(n, n + BATCH) for n in range(first, end, BATCH)]


def compare(batch: range) -> None:
    """Fail unless all that solvers say of these instances is so."""
    known = answers(batch)
    wrong = []
    for seed in batch:
        features = features_of(seed)
        comparison = Comparison(features, make(features), known[seed])
        wrong += [f"{features}: {each}" for each in comparison.findings()]
    assert not wrong, "\n".join(wrong)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("batch", batches(0, QUICK), ids=str)
def test_all_that_solvers_say_is_so(batch: range) -> None:
    compare(batch)


@pytest.mark.slow
@pytest.mark.parametrize("batch", batches(QUICK, ALL), ids=str)
def test_all_that_solvers_say_of_many_is_so(batch: range) -> None:
    compare(batch)


def compare_in_simulated_time(batch: range) -> None:
    """Fail unless all is so with relaxed principles, and with several lengths."""
    wrong = []
    for features in map(in_simulated_time, batch):
        if features.relaxed or features.lengths:
            instance = make(features)
            answer = answer_to(features, instance)
            findings = Comparison(features, instance, answer).findings()
            wrong += [f"{features}: {each}" for each in findings]
    assert not wrong, "\n".join(wrong)


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("batch", batches(0, QUICK), ids=str)
def test_simulated_times_are_bounded(batch: range) -> None:
    compare_in_simulated_time(batch)


@pytest.mark.slow
@pytest.mark.parametrize("batch", batches(QUICK, ALL), ids=str)
def test_simulated_times_of_many_are_bounded(batch: range) -> None:
    compare_in_simulated_time(batch)


@pytest.mark.parametrize("seed", [8, 65, 69, 163, 187])
def test_the_least_simulated_time_is_that_with_shared_uplinks(seed: int) -> None:
    features = replace(features_of(seed), objective="simulated", top=1 + seed % 2)
    features = replace(features, relaxed=(), lengths=False, large=False)
    instance = make(features)
    comparison = Comparison(features, instance, answer_to(features, instance))
    assert comparison.exact
    assert [*comparison.findings()] == []
    slices = tuple(replace(part, shared=None) for part in instance.table.slices)
    alone = replace(instance, table=replace(instance.table, slices=slices))
    best, quicker = comparison.answer.best, answer_to(features, alone).best
    assert best is not None
    assert quicker is not None
    assert (quicker.simulated_ns or 0) < (best.simulated_ns or 0)


@pytest.mark.parametrize("seed", [411, 503])
def test_cp_sat_ends_where_few_plans_are_left(seed: int) -> None:
    features = features_of(seed)
    instance = make(features)
    comparison = Comparison(features, instance, answer_to(features, instance))
    assert comparison.of("cp-sat") == []


@pytest.mark.parametrize("seed", [7, 14, 18, 26, 55, 83])
def test_bounds_leave_out_what_others_replace(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where there are many strategies."""
    monkeypatch.setattr(programs, "_MANY", 0)
    features = features_of(seed)
    instance = make(features)
    comparison = Comparison(features, instance, answer_to(features, instance))
    assert comparison.of("dp") == []


def test_every_feature_is_drawn_on_and_off() -> None:
    seen: defaultdict[str, Counter[object]] = defaultdict(Counter)
    for seed in range(3 * QUICK):
        for name, value in asdict(features_of(seed)).items():
            seen[name][value] += 1
    counts = {name: len(values) for name, values in seen.items() if name != "seed"}
    assert counts == {
        "schedule": len(SCHEDULE_CHOICES),
        "objective": 2,
        "chunks": 4,
        "epsilon": 1 + len(EPSILONS),
        "clusters": 3,
        "links": 4,
        "model": 4,
        "relaxed": 1 + len(RELAXED),
        "top": 2,
        **dict.fromkeys(("pinned", "odd", "experts"), 2),
        **dict.fromkeys(("offload", "prices", "lengths", "large"), 2),
    }


def test_most_instances_have_plans() -> None:
    known = {
        seed: each
        for batch in batches(0, QUICK)
        for seed, each in answers(batch).items()
    }
    best = [each.best for each in known.values() if each.best is not None]
    assert len(best) > QUICK / 2
    assert sum(found.shape[0] > 1 for found in best) > QUICK / 3
    assert sum(len(set(found.shape[2])) > 1 for found in best) > QUICK / 5


def bounds(seed: int) -> dict[tuple[int, int], tuple[int, int]]:
    """Return bounds on simulated times in ns, of all p of one q at once, and the times.

    By p and q.
    """
    features = features_of(seed, simulated_share=1.0)
    instance = make(features)
    programs = answer_to(features, instance).programs
    payload = SimulatedSpec(problem=instance.problem, table=instance.table, top=1)
    worker = SimulatedWorker(payload, None, print)
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for q in {q for _, q in programs}:
        least = {p: own.simulated_ns or 0 for (p, n), own in programs.items() if n == q}
        task = BoundTimesTask(
            microbatches=q,
            least=1,
            most=max(least),
            limit=max(least.values()),
            share=1 / 128,
        )
        bound = worker.run(task)
        found |= {(p, q): (int(bound[p]), ns) for p, ns in least.items()}
    return found


def test_bounds_of_several_stage_counts_hold_for_each() -> None:
    """One strategy is better here only where stages hold one micro-batch."""
    assert [key for key, (bound, ns) in bounds(341).items() if bound > ns] == []


@pytest.mark.parametrize("seed", [367, 546, 576, 689, 691])
def test_bounds_know_that_a_few_first_units_differ(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = bounds(seed)
    monkeypatch.setattr(view, "unlike", lambda _: 0)
    before = bounds(seed)
    assert all(before[key][0] <= own <= ns for key, (own, ns) in found.items())
    assert found != before
