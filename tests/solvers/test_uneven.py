"""The hosts of a pinned layout: the search against all plans, one by one."""

from __future__ import annotations

import json
from itertools import combinations
from random import Random
from typing import TYPE_CHECKING

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check.verify.certificate import CertificateCheck
from hetopt.check.verify.said import Said
from hetopt.check.verify.uneven import search_hosts
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.planning.solving import solve_for
from hetopt.pricing.price import price
from hetopt.problem.reading import read_problem_text
from hetopt.results.certificate import PS_S
from hetopt.results.result import Objective, Result
from hetopt.solvers.certificate.claim import certify
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle.instances import Instance
from tests.oracle.uneven import make_uneven, valid_plans

if TYPE_CHECKING:
    from hetopt.check.plan.plan import CheckedPlan
    from hetopt.plans.plan import Plan

OBJECTIVES: tuple[Objective, ...] = ("closed", "simulated")


@pytest.mark.parametrize("seed", range(100))
def test_the_search_finds_the_best_of_all_plans(seed: int) -> None:
    instance = make_uneven(seed)
    known = valid_plans(instance)
    for plan, checked in known[:: max(1, len(known) // 20)]:
        priced = price(plan, instance.table)
        assert priced.memory_bytes == checked.memory_bytes
        assert priced.iteration_time_s == pytest.approx(checked.iteration_time_s)
        assert priced.closed_form_s <= priced.iteration_time_s * (1 + 1e-12)
    for objective in OBJECTIVES:
        times = sorted(_times(known, objective))
        request = Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(top=3),
        )
        result = solve_for("auto", objective)(request)
        if not times:
            assert result.status == "infeasible"
            continue
        assert result.status == "optimal"
        assert result.best is not None
        found = [result.best, *result.alternatives]
        values = [each.time_s(objective) for each in found]
        assert values == pytest.approx(times[: len(values)], rel=1e-9)
        assert len(values) == min(3, len(times))
        for each in result.settlements:
            least = min(_times(known, objective, each.microbatches), default=None)
            if each.how == "infeasible":
                assert least is None
            else:
                assert each.bound_s is not None
                assert least is None or each.bound_s <= least * (1 + 1e-9)
                _verify(instance, each.microbatches, each.bound_s, least, objective)


def _times(
    known: list[tuple[Plan, CheckedPlan]],
    objective: Objective,
    microbatches: int | None = None,
) -> list[float]:
    return [
        checked.iteration_time_s if objective == "simulated" else checked.closed_form_s
        for plan, checked in known
        if microbatches in (None, plan.pipeline.microbatches)
    ]


def _verify(
    instance: Instance,
    microbatches: int,
    bound_s: float,
    least: float | None,
    objective: Objective,
) -> None:
    """The checker's own search confirms a bound, and refutes a larger one."""
    of = instance.problem, instance.table, microbatches
    assert search_hosts(*of, int(bound_s / PS_S), objective).plan is None
    if least is not None:
        more = int(least * (1 + 1e-6) / PS_S) + 2000
        assert search_hosts(*of, more, objective).plan is not None


def make_balanced(seed: int) -> Instance:
    """Draw stages that are alike but for what they wait for: bounds are close there."""
    rng = Random(f"balanced {seed}")
    p, v, names = rng.randint(2, 3), rng.randint(2, 4), "abc"[: rng.randint(1, 3)]
    units = p * v + rng.randint(0, 2)
    nodes = 1 if len(names) == p else p
    clusters = "".join(
        f"  - {{name: {name}, accelerator: H100, memory: 40 GB, devices_per_node: 1,"
        f" nodes: {nodes}, inter_node: {{bandwidth: 400 Gbps}}}}\n"
        for name in names
    )
    pairs = "".join(
        f"    - {{between: [{one}, {two}], bandwidth: {rng.choice((100, 400))} Gbps,"
        f" latency: {rng.choice((20, 200))} us, staged: device}}\n"
        for one, two in combinations(names, 2)
    )
    cuts = [units * (k + 1) // (p * v) + 1 for k in range(p * v)]
    problem = read_problem_text(
        f"model: {{layers: {units}, hidden: 1024, heads: 8, ffn: 4096, vocab: 100}}\n"
        f"clusters:\n{clusters}"
        + (f"links:\n  pairs:\n{pairs}" if pairs else "")
        + f"training: {{global_batch: {p * rng.choice((1, 2))}, seq_len: 2048,"
        f" schedule: interleaved-1f1b, chunks: {v}, recompute: full}}\n"
        f"pin: {{cuts: {[*cuts[:-1], units + 2]}}}\n"
    )
    return Instance(seed=seed, problem=problem, table=build_table(problem))


# Of 400 seeds, those whose bounds were above plans as long as stages were taken to fill
# the pipeline one by one.
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("seed", [32, 35, 66, 162, 175, 178, 180, 184, 187, 285, 310])
def test_no_bound_is_above_a_balanced_plan(seed: int, objective: Objective) -> None:
    """The pipeline fills in less than the time of whole stages."""
    instance = make_balanced(seed)
    times = _times(valid_plans(instance), objective)
    request = Request(problem=instance.problem, table=instance.table)
    result = solve_for("auto", objective)(request)
    assert result.best is not None
    assert result.best.time_s(objective) == pytest.approx(min(times), rel=1e-9)
    _ensure_certified(instance, result)


def _ensure_certified(instance: Instance, result: Result) -> None:
    """Have the checker confirm a certificate, by searches where it asks for them."""
    problem, table = instance.problem, instance.table
    assert result.best is not None
    data = json.loads(certify(problem, table, result).to_text())
    check = CertificateCheck(problem, table, data, Said(plan=result.best.plan))
    assert list(check.findings()) == []
    # No bound of a layout is derived: whatever is claimed is searched again.
    known = {part.microbatches for part in table.slices}
    claims = {(p, q) for _, p, q, _, bound in check.claims if q in known and bound != 0}
    assert {(each.stages, each.microbatches) for each in check.doubts} == claims
    for doubt in check.doubts:
        assert doubt.bound_ps is not None
        of = problem, table, doubt.microbatches, doubt.bound_ps
        assert search_hosts(*of, result.objective).plan is None, doubt


def test_a_stage_may_have_no_layer() -> None:
    problem = read_problem_text(
        "model: {layers: 2, hidden: 512, heads: 4, ffn: 2048, vocab: 1000}\n"
        "clusters: [{name: a, accelerator: H100, nodes: 3, devices_per_node: 1,"
        " inter_node: {bandwidth: 100 Gbps}}]\n"
        "training: {global_batch: 6, seq_len: 1024, schedule: interleaved-1f1b,"
        " chunks: 2}\n"
        "pin: {cuts: [1, 2, 2, 2, 3, 4]}\n"
    )
    instance = Instance(seed=0, problem=problem, table=build_table(problem))
    request = Request(problem=problem, table=instance.table)
    _ensure_certified(instance, solve_for("auto", "simulated")(request))


def test_a_stage_without_a_layer_needs_no_memory_for_one() -> None:
    problem = read_problem_text(
        "model: {layers: 4, hidden: 1024, heads: 8, vocab: 1000, ffn: 65536}\n"
        "clusters:\n"
        "- {name: a, nodes: 1, devices_per_node: 1, memory: 0.6 GB, overhead: 0 GB,"
        " inter_node: {bandwidth: 100 Gbps}, accelerator: A100-80GB}\n"
        "- {name: b, nodes: 1, devices_per_node: 1, memory: 100 GB, overhead: 0 GB,"
        " inter_node: {bandwidth: 100 Gbps}, accelerator: A100-80GB}\n"
        "links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}\n"
        "training: {global_batch: 4, seq_len: 512, schedule: interleaved-1f1b,"
        " chunks: 2, recompute: none}\n"
        "pin: {cuts: [1, 5, 5, 6], stages: 2}\n"
    )
    instance = Instance(seed=0, problem=problem, table=build_table(problem))
    # On a: the embedding alone.
    assert {plan.pipeline.stages[0].cluster for plan, _ in valid_plans(instance)} == {
        "a"
    }
    result = solve_for("auto", "simulated")(
        Request(problem=problem, table=instance.table)
    )
    assert result.status == "optimal"


def test_a_limit_leaves_a_plan_and_a_bound() -> None:
    instance = next(
        each for each in map(make_uneven, range(20)) if len(valid_plans(each)) > 20
    )
    deadline = Deadline.after(0.0)
    request = Request(problem=instance.problem, table=instance.table, deadline=deadline)
    result = solve_for("auto", "simulated")(request)
    assert result.best is not None
    assert result.lower_bound_s is not None
    times = _times(valid_plans(instance), "simulated")
    assert result.lower_bound_s <= min(times) <= result.best.iteration_time_s


def test_other_solvers_do_not_search_layouts() -> None:
    instance = make_uneven(0)
    request = Request(problem=instance.problem, table=instance.table)
    with pytest.raises(InputError, match="dp does not search: use auto") as caught:
        solve_for("dp", "closed")(request)
    assert caught.value.field == "pin.cuts"


def test_experts_beside_computation_hold_one_more_micro_batch() -> None:
    text = (
        "model: {layers: 8, hidden: 512, heads: 8, ffn: 2048, vocab: 1000,"
        " experts: {number: 8, per_token: 2, ffn: 512}}\n"
        "clusters: [{name: a, accelerator: H100, nodes: 4, devices_per_node: 2,"
        " inter_node: {bandwidth: 400 Gbps}}]\n"
        "training: {global_batch: 16, seq_len: 1024, schedule: interleaved-1f1b,"
        " chunks: 2, moe: {overlap: %s}}\n"
        "pin: {microbatches: 8, cuts: [3, 5, 8, 10],"
        " clusters: {a: {dp: 2, ep: 2, tp: 1, cp: 1, stages: 2}}}\n"
    )
    memory = []
    for overlap in (0, 1):
        problem = read_problem_text(text % overlap)
        table = build_table(problem)
        request = Request(problem=problem, table=table)
        best = solve_for("auto", "simulated")(request).best
        assert best is not None
        memory.append(price(best.plan, table).memory_bytes)
    assert all(more > less for less, more in zip(*memory, strict=True))
