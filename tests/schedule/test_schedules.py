"""One record per schedule: what it promises, and that a new one is one record."""

from __future__ import annotations

import ast
from copy import copy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import hetopt
from hetopt.check import check_plan
from hetopt.check.plan.schedule import schedules as checked
from hetopt.cost.build import build_table
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import SCHEDULE_CHOICES, SCHEDULES
from hetopt.problem.training.training import Training
from hetopt.schedule import schedules
from hetopt.schedule.orders import FOLDS
from hetopt.schedule.period import period_by_recursion
from hetopt.schedule.schedules import MAX_DELTA, RULES, ScheduleRule, rule_of
from hetopt.schedule.warmup import warmup_counts
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle.instances import make_instance
from tests.schedule.pipelines import pipeline

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from hetopt.results.priced_plan import PricedPlan

ROOT = Path(hetopt.__file__).parent
#: Who has to call schedules by name: records, the input, launchers whose runtimes have
#: one or two of them, and the command that writes the programs of some.
HOMES = {
    "schedule/schedules.py",
    "schedule/orders.py",
    "check/plan/schedule/schedules.py",
    "problem/training/choices.py",
    "problem/training/training.py",
    "cli/commands/formulate.py",
    "export/job.py",
    "export/planning/example.py",
    # What bundles hold imports nothing of hetopt; a run's shape says which it was.
    "export/shared/megatron/common.py",
    "export/hetu/launcher.py",
    "export/hetu/reading.py",
    "export/shared/megatron/pipeline.py",
    "export/flagscale/launcher.py",
    "export/flagscale/reading.py",
    "export/torch/reading.py",
    "export/torchtitan/cut.py",
    "export/torchtitan/reading.py",
    "export/hexiscale/launcher.py",
    "export/hexiscale/reading.py",
    # Where a search with free warm-up counts starts from.
    "solvers/simulated/solver.py",
}
#: Each has its own words for warm-ups.
PROGRAMS = ("cp-sat", "milp", "miqp-highs", "dp")
TWO_CLUSTERS = """\
model: {layers: 6, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}
clusters:
  - {name: near, accelerator: A100-40GB, nodes: 1, devices_per_node: 2, inter_node:
      {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: far, accelerator: A40, nodes: 1, devices_per_node: 2, inter_node:
      {bandwidth: 10 Gbps, latency: 5 us}}
links: {default: {bandwidth: 2 Gbps, latency: 50 us}}
training: {global_batch: 16, seq_len: 1024, schedule: 1f1b}
pin: {stages: 4, microbatches: 16}
"""


def test_every_name_has_a_record() -> None:
    assert tuple(RULES) == SCHEDULE_CHOICES
    assert all(RULES[name].name == name for name in RULES)
    assert tuple(name for name in RULES if not RULES[name].free) == SCHEDULES
    for rule in RULES.values():
        assert rule.inside <= rule.across
        # The MIQP states two thresholds, and no program tells crossings apart there.
        assert not rule.thresholds or rule.inside == rule.across
        assert rule.thresholds == tuple(sorted(rule.thresholds, reverse=True))
        assert len(rule.thresholds) in (0, 2)


@pytest.mark.parametrize("name", SCHEDULES)
def test_counts_keep_to_the_record(name: str) -> None:
    rule, random = rule_of(name), Random(name)
    seen = set()
    for _ in range(300):
        p, q = random.randint(1, 7), random.randint(1, 9)
        crosses = [random.random() < 0.5 for _ in range(p - 1)]
        counts = warmup_counts(
            rule.name,
            microbatches=q,
            crosses=crosses,
            round_trip_ns=[random.randint(0, 200) for _ in range(p)],
            transfer_ns=[random.choice([0, 1, 2, 60, 120]) for _ in range(p - 1)],
        )
        if rule.all_first:
            assert set(counts) == {q}
            continue
        if FOLDS.get(rule.name):
            # Counted in the order (tests/schedule/test_blocks.py).
            return
        if rule.folded:
            # What every stage holds ahead.
            counts = tuple(count - p for count in counts)
        for i, count in enumerate(counts):
            crossings = sum(crosses[i:])
            assert rule.least_warmups(p - 1 - i, crossings) <= count
            assert count <= rule.most_warmups(p - 1 - i, crossings)
            if i + 1 < p:
                seen.add((crosses[i], count - counts[i + 1]))
    if not rule.all_first:
        # Every delta the record permits occurs, and no other one.
        assert seen == {
            *((False, d) for d in range(rule.inside, rule.most_inside + 1)),
            *((True, d) for d in range(rule.across, rule.most_across + 1)),
        }
        assert max(d for _, d in seen) <= MAX_DELTA


@pytest.mark.parametrize("name", SCHEDULES)
def test_bounds_hold_under_another_record(name: str) -> None:
    """It holds no more, waits no longer in windows and for transfers."""
    rule, random = rule_of(name), Random(name)
    others = [each for each in RULES.values() if rule.bounds(each)]
    if rule.all_first or rule.interleaved or rule.splits:
        assert not others
        return
    assert rule in others
    for other in others:
        for _ in range(100):
            p, q = random.randint(1, 6), random.randint(1, 9)
            crosses = [random.random() < 0.5 for _ in range(p - 1)]
            times = pipeline(
                [random.randint(0, 50) for _ in range(p)],
                [random.randint(0, 50) for _ in range(p)],
                [random.choice([0, 1, 2, 60, 120]) for _ in range(p - 1)],
                microbatches=q,
                warmups=[1] * p,
                schedule=other.name,
            )
            counts = warmup_counts(
                other.name,
                microbatches=q,
                crosses=crosses,
                round_trip_ns=times.round_trip_ns,
                transfer_ns=times.transfer_ns,
            )
            most = []
            for i, count in enumerate(counts):
                after, crossings = p - 1 - i, sum(crosses[i:])
                assert rule.least_warmups(after, crossings) <= count
                most.append(rule.most_warmups(after, crossings))
            period = period_by_recursion(replace(times, warmups=counts))
            quick = replace(times, warmups=tuple(most), schedule="1f1b")
            assert period_by_recursion(quick) <= period
            if rule.blocking:
                quick = replace(quick, schedule=rule.name)
                assert period_by_recursion(quick) <= period


def test_bounds_of_all_schedules_whose_stages_compute_meanwhile() -> None:
    adaptive = rule_of("h-1f1b", 0.01)
    held = {name for name in SCHEDULES if adaptive.bounds(rule_of(name))}
    assert held == {
        "1f1b",
        "1f1b-batched",
        "1f1b-blocking",
        "eager-1f1b",
        "virtual-1f1b",
        "h-1f1b",
    }
    assert not adaptive.bounds(rule_of("free-1f1b"))
    assert not rule_of("eager-1f1b").bounds(rule_of("1f1b"))
    assert not rule_of("1f1b").bounds(rule_of("eager-1f1b"))
    assert not rule_of("1f1b-blocking").bounds(rule_of("1f1b-batched"))


def add(
    monkeypatch: pytest.MonkeyPatch, rule: ScheduleRule, steps: checked.Steps
) -> None:
    """Add a record to both homes, for one test."""
    monkeypatch.setattr(schedules, "RULES", {**RULES, rule.name: rule})
    monkeypatch.setitem(checked.STEPS, rule.name, steps)
    # Problems refuse names that are not in ``ScheduleName``.
    monkeypatch.setattr(Training, "__init__", _unchecked)


def _unchecked(training: Training, **values: Any) -> None:
    for field, value in values.items():
        object.__setattr__(training, field, value)


def best(name: str, problem: Problem, table: CostTable, schedule: str) -> PricedPlan:
    """Plan under a schedule, here and now, and have the checker look at it."""
    training = copy(problem.training)
    # Problems refuse a name that hetopt does not have.
    object.__setattr__(training, "schedule", schedule)
    problem = replace(problem, training=training)
    digest = problem_digest(problem)
    table = replace(
        table,
        schedule=training.schedule,
        warmup_epsilon=training.epsilon,
        problem_digest=digest,
    )
    params = RaceParams(jobs=0)
    found = load(name)(Request(problem=problem, table=table, params=params)).best
    assert found is not None
    checked_plan = check_plan(problem, table, found.plan)
    assert checked_plan.closed_form_s == pytest.approx(found.closed_form_s, rel=1e-12)
    return found


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("name", [*PROGRAMS, "uniform", "amp", "metis", "dfs"])
@pytest.mark.parametrize("like", ["1f1b", "h-1f1b"])
def test_another_name_changes_no_plan(
    name: str, like: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = make_instance(
        3027,
        schedule=like,  # type: ignore[arg-type]
        pinned=False,
        clusters=2,
    )
    problem, table = instance.problem, instance.table
    expected = best(name, problem, table, like)
    rule = replace(rule_of(like), name="another")  # type: ignore[arg-type]
    add(monkeypatch, rule, checked.STEPS[like])
    found = best(name, problem, table, "another")
    assert found.closed_form_s == expected.closed_form_s
    assert found.plan.pipelines == expected.plan.pipelines


@pytest.mark.slow
def test_programs_agree_on_a_schedule_that_nobody_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two clusters far apart: three warm-ups between them hide what one does not."""
    rule = ScheduleRule(name="patient", inside=1, across=3)  # type: ignore[arg-type]
    add(monkeypatch, rule, checked.Steps(inside=1, across=3, most=1))
    problem = read_problem_text(TWO_CLUSTERS)
    table = build_table(problem)
    plain = best("cp-sat", problem, table, "1f1b")
    found = [best(name, problem, table, "patient") for name in PROGRAMS]
    for each in found:
        warmups = [stage.warmup for stage in each.plan.pipeline.stages]
        assert warmups == [6, 5, 2, 1]
        assert each.closed_form_s == found[0].closed_form_s < plain.closed_form_s


def named(path: Path) -> set[str]:
    """Return the schedules that a file's code has as strings, docstrings aside."""
    tree = ast.parse(path.read_text("utf-8"))
    strings = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)}
    return {name for name in SCHEDULE_CHOICES if name in strings}


def test_no_other_file_knows_a_schedule_by_name() -> None:
    files = {
        path.relative_to(ROOT).as_posix(): path
        for folder in (ROOT, *(link for link in ROOT.iterdir() if link.is_symlink()))
        for path in folder.rglob("*.py")
    }
    assert {path.split("/")[0] for path in files} >= {
        "check",
        "formulations",
        "solvers",
    }
    knowing = {path: named(file) for path, file in files.items() if named(file)}
    assert set(knowing) == HOMES
