"""The best plan a launcher can run is the best of all that it can run."""

from __future__ import annotations

import contextlib
import json
import pickle
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import GRACE_S, Deadline
from hetopt.check.verify.tree import Launcher, TreeCheck
from hetopt.cli import main
from hetopt.cli.inputs import load_problem
from hetopt.cost.build import build_table
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import InputError
from hetopt.export.job import Job
from hetopt.export.launcher import Limits
from hetopt.export.planning import limits as module
from hetopt.export.planning.limits import broken, fitted, permits, split
from hetopt.export.planning.runnable import launchable
from hetopt.export.registry import SHIPPED, launcher, limited_names, limits_of
from hetopt.problem.digest import problem_digest
from hetopt.problem.training.choices import SCHEDULE_CHOICES
from hetopt.problem.training.principles import PRUNED, Principles
from hetopt.solvers.certificate.tree import certificate_of
from hetopt.solvers.dp.solver import solve
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.search.branchings.runnable import STRATEGIES, Launchable
from hetopt.solvers.search.over import Over
from hetopt.solvers.search.search import TreeSearch
from tests.export.jobs import as_llama, draw_job
from tests.oracle.brute_force import Found, to_plan
from tests.oracle.brute_force import solve as brute_force
from tests.oracle.instances import make_instance
from tests.search.asking import AT_ONCE_S, ensure_holds

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.plans.plan import Plan
    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result
    from hetopt.solvers.request import Solve

ALIKE = Limits(schedules=SCHEDULE_CHOICES, shared=("dp", "cp", "tp", "recompute"))
ENDS = Limits(schedules=SCHEDULE_CHOICES, equal_ends=True)
NO_CP = Limits(
    schedules=SCHEDULE_CHOICES,
    context_parallel=False,
    recompute=(("none", "full"), ("selective",)),
)


def tractor(limits: Limits) -> Launchable:
    """Return a launcher with these limits."""
    return Launchable(
        name="tractor",
        broken=partial(broken, limits),
        split=partial(split, limits),
        passed_over=lambda variant: None,
    )


def best_within(limits: Limits, request: Request, solve: Solve = solve) -> Result:
    """Return the best plan that a launcher with these limits can run."""
    over = Over(launcher=tractor(limits))
    found = TreeSearch(request, solve, over, solver="dp", objective="closed").run()
    ensure_holds(request, found)
    return found


def drawn(
    problem: Problem, table: CostTable, top: int = 1, principles: Principles = PRUNED
) -> Request:
    params = RaceParams(jobs=0, top=top, principles=principles)
    return Request(problem=problem, table=table, params=params)


@pytest.mark.parametrize("seed", range(18))
@pytest.mark.parametrize("limits", [ALIKE, ENDS, NO_CP], ids=["alike", "ends", "no-cp"])
def test_no_plan_that_can_be_run_is_better(seed: int, limits: Limits) -> None:
    instance = make_instance(seed)
    problem, table = instance.problem, instance.table
    if limits.equal_ends:
        problem = replace(problem, model=replace(problem.model, tied=True))
        table = replace(table, problem_digest=problem_digest(problem))
    found = best_within(limits, drawn(problem, table))
    runnable = [
        shape
        for shape in brute_force(problem, table).shapes
        if _can_be_run(limits, problem, table, shape)
    ]
    if not runnable:
        assert (found.status, found.best) == ("infeasible", None)
        return
    assert found.status == "optimal"
    assert found.best is not None
    plan = found.best.plan
    assert plan == to_plan(problem, table, runnable[0])
    # Every (p, q) is accounted for, none with more than the best of its plans.
    best = {shape.shape[:2]: shape for shape in reversed(runnable)}
    for one in found.settlements:
        shape = best.get((one.stages, one.microbatches))
        if shape is not None:
            assert one.bound_s is not None
            assert one.bound_s <= shape.value_ns * 1e-9


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("relaxed", [("p3",), ("p4",), ("p3", "p4-falling-tp")])
@pytest.mark.parametrize("limits", [ALIKE, NO_CP], ids=["alike", "no-cp"])
def test_nor_is_one_that_breaks_principles(
    seed: int, relaxed: tuple[str, ...], limits: Limits
) -> None:
    instance, principles = make_instance(seed), Principles.relaxing(relaxed)
    problem, table = instance.problem, instance.table
    found = best_within(limits, drawn(problem, table, principles=principles))
    values = [
        shape.value_ns
        for shape in brute_force(problem, table, principles).shapes
        if _can_be_run(limits, problem, table, shape)
    ]
    if not values:
        assert (found.status, found.best) == ("infeasible", None)
        return
    assert found.status == "optimal"
    assert found.best is not None
    assert found.best.closed_form_s == pytest.approx(values[0] * 1e-9, rel=1e-6)


def _can_be_run(
    limits: Limits, problem: Problem, table: CostTable, shape: Found
) -> bool:
    _, q, order, rows, _ = shape.shape
    part = table.at(q)
    used = [part.clusters[j].strategies[k] for j, k in zip(order, rows, strict=True)]
    first, last = used[0], used[-1]
    ends_differ = first.tp != last.tp or bool(
        problem.training.zero and first.dp % last.dp and last.dp % first.dp
    )
    return (
        all(len({getattr(one, name) for one in used}) == 1 for name in limits.shared)
        and all(one.cp == 1 or limits.context_parallel for one in used)
        and any(
            {one.recompute for one in used} <= set(together)
            for together in limits.recompute
        )
        and all(problem.training.seq_len % (one.cp * one.tp) == 0 for one in used)
        and not (limits.equal_ends and problem.model.tied and ends_differ)
    )


def certified(limits: Limits, request: Request) -> tuple[Any, Callable[[Any], Any]]:
    """Return a search's certificate, and what returns all that is wrong with one."""
    over = Over(launcher=tractor(limits))
    tree = TreeSearch(request, solve, over, solver="dp", objective="closed")
    result = tree.run()
    problem, table = request.problem, request.table
    answer = json.loads(json.dumps(result.to_json()))
    launcher = Launcher(runs=lambda variant: True, split=partial(split, limits))

    def wrong(certificate: Any) -> Any:
        check = TreeCheck(problem, table, certificate, answer, launcher)
        found = list(check.findings())
        return found or [
            each for leaf in check.leaves for each in leaf.check.findings()
        ]

    return json.loads(certificate_of(tree, problem, table, result)), wrong


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("limits", [ALIKE, ENDS, NO_CP], ids=["alike", "ends", "no-cp"])
def test_what_is_searched_is_certified(seed: int, limits: Limits) -> None:
    instance = make_instance(seed, pinned=False)
    certificate, wrong = certified(limits, drawn(instance.problem, instance.table))
    assert wrong(certificate) == []


def _raised(whole: Any) -> None:
    own = whole["parts"][0]["certificate"]
    own["lower_bound_ps"] = (own["lower_bound_ps"] or 1) * 2


#: Changes of the claim of a space that a rule splits, by what is wrong then.
FORGERIES: dict[str, Callable[[Any], object]] = {
    "a part is left out": lambda whole: whole["parts"].pop(),
    "a part too many": lambda whole: whole["parts"].append(whole["parts"][0]),
    "in another order": lambda whole: whole["parts"].reverse(),
    "no rule of the launcher": lambda whole: whole.update(rule="ends tp"),
    "another rule": lambda whole: whole.update(rule="recompute"),
    "a bound is raised": _raised,
    "the whole's certificate": lambda whole: whole["parts"][0].update(
        certificate=whole["certificate"]
    ),
    "no certificates": lambda whole: whole.update(
        parts=[{"by": "launcher"} for _ in whole["parts"]]
    ),
}


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", FORGERIES)
def test_forged_certificates_are_rejected(name: str) -> None:
    certificate, wrong = certified(ALIKE, not_runnable())
    assert wrong(certificate) == []
    (whole,) = certificate["claims"]["parts"]
    assert whole["rule"] in ALIKE.shared
    FORGERIES[name](whole)
    with contextlib.suppress(InputError):
        assert wrong(certificate) != []


def test_a_space_that_cannot_be_divided_keeps_its_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As with tied embeddings and many clusters, whose orders are too many."""
    refused = 0
    for seed in range(12):
        instance = make_instance(seed)
        problem = replace(
            instance.problem, model=replace(instance.problem.model, tied=True)
        )
        digest = problem_digest(problem)
        request = drawn(problem, replace(instance.table, problem_digest=digest))
        expected = best_within(ENDS, request)
        with monkeypatch.context() as context:
            context.setattr(module, "_MOST_ORDERED", 0)
            found = best_within(ENDS, request)
        if found.status == expected.status:
            continue
        refused += 1
        assert found.status in ("feasible", "unknown")
        assert found.best is not None or "too many orders" in (found.reason or "")
        assert found.lower_bound_s is not None
        if expected.best is not None:
            assert found.lower_bound_s <= expected.best.closed_form_s
    assert refused


@pytest.mark.slow
def test_alternatives_can_be_run_too() -> None:
    for seed in range(6):
        instance = make_instance(seed)
        found = best_within(ALIKE, drawn(instance.problem, instance.table, top=3))
        shapes = [
            shape
            for shape in brute_force(instance.problem, instance.table).shapes
            if _can_be_run(ALIKE, instance.problem, instance.table, shape)
        ]
        times = [] if found.best is None else [found.best, *found.alternatives]
        assert [one.plan for one in times] == [
            to_plan(instance.problem, instance.table, shape) for shape in shapes[:3]
        ]


def not_runnable() -> Request:
    """Return a request whose best plan has stages that are not alike."""
    for instance in map(make_instance, range(100)):
        request = drawn(instance.problem, instance.table)
        best = solve(request).best
        if best is not None and broken(ALIKE, instance.problem, best.plan):
            return request
    pytest.fail("all plans can be run")


def test_a_space_that_no_time_was_left_to_split_stays_open() -> None:
    """Its best plan cannot be run, which does not mean that none can."""
    asked = replace(not_runnable(), deadline=Deadline.after(0.1))

    def slow(request: Request) -> Result:
        found = solve(replace(request, deadline=Deadline()))
        # A first plan is looked for a little longer.
        while asked.deadline.elapsed_s() < 0.1 + GRACE_S:
            time.sleep(0.01)
        return found

    found = best_within(ALIKE, asked, slow)
    assert (found.status, found.best) == ("unknown", None)
    assert found.reason == "stopped before a plan was found"
    assert found.lower_bound_s is not None
    assert found.lower_bound_s > 0
    # Nor is the speed of the plan that cannot be run reported.
    assert (found.tokens_per_s, found.mfu) == (None, None)


def test_a_space_leaves_time_for_its_branches() -> None:
    """The search of the whole space takes all the time that it is given."""
    asked = not_runnable()
    best = best_within(ALIKE, asked).best
    assert best is not None
    searched: list[Request] = []

    def slow(request: Request) -> Result:
        searched.append(request)
        if len(searched) == 1:
            # It is for a plan of one strategy.
            return solve(request)
        found = solve(replace(request, deadline=Deadline()))
        while len(searched) == 2 and not request.deadline.is_over():
            time.sleep(0.01)
        return found

    late = replace(asked, deadline=Deadline.after(8))
    assert best_within(ALIKE, late, slow).best == best


@pytest.mark.parametrize("seed", range(6))
def test_with_little_time_there_is_a_bound(seed: int) -> None:
    instance = make_instance(seed)
    request = drawn(instance.problem, instance.table)
    best = best_within(ALIKE, request).best
    late = replace(request, deadline=Deadline.after(AT_ONCE_S))
    found = best_within(ALIKE, late)
    if best is not None:
        assert found.lower_bound_s is not None
        assert 0 < found.lower_bound_s <= best.closed_form_s


def test_a_search_that_did_not_end_gets_the_time_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As if each search took all its time.
    monkeypatch.setattr("hetopt.solvers.search.node._EARLY", 1.0)
    whole = not_runnable()
    runnable = Limits(schedules=SCHEDULE_CHOICES)
    best = solve(whole).best
    asked: list[float] = []

    def slow(request: Request) -> Result:
        limit_s = request.deadline.limit_s
        assert limit_s is not None
        asked.append(limit_s)
        found = solve(replace(request, deadline=Deadline()))
        if len(asked) > 2:
            return found
        open_ = tuple(
            replace(each, how="unsettled", bound_s=each.bound_s and each.bound_s / 2)
            for each in found.settlements
        )
        least_s = min(each.bound_s or 0 for each in open_)
        return replace(
            found, status="feasible", lower_bound_s=least_s, settlements=open_
        )

    late = replace(whole, deadline=Deadline.after(60))
    found = best_within(runnable, late, slow)
    assert (found.status, found.best) == ("optimal", best)
    assert asked == [0, pytest.approx(30, abs=5), pytest.approx(60, abs=10)]


def test_command_prints_the_price_and_a_plan_that_passes_its_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "plan.json")
    asked = ["plan", "hetauto-exp1", "--jobs", "1", "--out", plan]
    assert main([*asked, "--for", "megatron"]) == 0
    printed = capsys.readouterr().out
    assert "of the plans that megatron can run" in " ".join(printed.split())
    assert "in closed form, " in printed
    launch = json.loads(Path(plan).read_text())["launch"]
    assert (launch["launcher"], launch["schedule"]) == ("megatron", "virtual-1f1b")
    assert launch["proven"]
    assert main(["check", "hetauto-exp1", plan]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--for", "nobody"], "--for: there is no launcher 'nobody'"),
        (["--for", "megatron", "--schedule", "gpipe"], "--schedule: the launcher runs"),
        (["--for", "flagscale", "--relax", "p4"], "--relax: lets stages on one node"),
        (["--for", "megatron", "--solver", "mcts"], "--solver: is mcts, which proves"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "hetauto-exp1", *options]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_problem_that_cannot_be_run_at_all_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["plan", "hapt-gpt39b", "--for", "flagscale"]) == 2
    assert "model.granularity" in capsys.readouterr().err


def test_help_names_the_launchers_that_have_limits() -> None:
    limited = [name for name in SHIPPED if isinstance(launcher(name).limits, Limits)]
    assert limited == [name for name in SHIPPED if SHIPPED[name]]


def _accepted(limits: Limits, problem: Problem, table: CostTable, plan: Plan) -> bool:
    """Whether limits let a search find a plan."""
    used = [stage.strategy for stage in plan.pipeline.stages]
    return (
        all(permits(limits, strategy, problem) for strategy in used)
        and any(
            {strategy.recompute for strategy in used} <= set(together)
            for together in limits.recompute
        )
        and broken(limits, problem, plan) is None
    )


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("name", ["hetu", "hexiscale"])
def test_limits_are_exactly_what_loses_nothing(name: str, seed: int) -> None:
    """Over all plans of a problem, and every ZeRO stage."""
    limits = limits_of(name)
    instance = make_instance(seed, schedule=limits.schedules[0], most=4_000)
    problem, table = instance.problem, instance.table
    if problem.model.granularity != "layer":
        pytest.skip("limits refuse it as a whole")
    training = replace(problem.training, zero=seed % 4, precision="bf16")
    problem = replace(problem, training=training)
    model = replace(problem.model, tied=False)
    if name == "hexiscale":
        sizes = as_llama(draw_job(0)).problem.model
        model = replace(sizes, layers=model.layers)
        problem = replace(problem, training=replace(training, seq_len=4096))
    problem = replace(problem, model=model)
    assert not list(limits.losses(problem) if limits.losses else ())
    for found in brute_force(instance.problem, table).shapes:
        plan = to_plan(instance.problem, table, found)
        stages = tuple(
            replace(stage, resharding=stage.resharding and "p2p")
            for stage in plan.pipeline.stages
        )
        plan = replace(plan, pipelines=(replace(plan.pipeline, stages=stages),))
        try:
            job = Job.of(problem, plan)
        except InputError:
            continue
        lost = list(launcher(name).losses(job))
        assert _accepted(limits, problem, table, plan) == (not lost), lost


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", limited_names())
def test_what_is_found_within_the_limits_loses_nothing(name: str) -> None:
    problem = load_problem("hetu-32b-16h800-16h20")
    if name == "hexiscale":
        model = as_llama(draw_job(0)).problem.model
        problem = replace(
            problem,
            model=replace(model, layers=problem.model.layers),
            training=replace(problem.training, zero=2),
        )
    problem = fitted(limits_of(name), problem)
    table = build_table(problem)
    result = best_within(limits_of(name), drawn(problem, table))
    assert result.status == "optimal"
    assert result.best is not None
    assert not list(launcher(name).losses(Job.of(problem, result.best.plan)))


@pytest.mark.parametrize("name", limited_names())
def test_workers_can_be_sent_what_a_launcher_runs(name: str) -> None:
    """Stability and what-if search in processes of their own."""
    instance = make_instance(0)
    sent = pickle.loads(pickle.dumps(launchable(name, instance.problem)))
    spaces = sent.split(instance.problem, instance.table, STRATEGIES)
    expected = split(limits_of(name), instance.problem, instance.table, STRATEGIES)
    digests = [
        [table_digest(table) for _, table in each] for each in (spaces, expected)
    ]
    assert digests[0] == digests[1]
