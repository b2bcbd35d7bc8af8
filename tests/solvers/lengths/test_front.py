"""Which options are left, and that bounds stand in for no pipeline."""

from __future__ import annotations

import hetopt
from hetopt.formulations.lengths.option import Host, Option
from hetopt.plans.strategy import Strategy
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.lengths.front import Front

HOSTS = (Host(0, Strategy(dp=1, cp=1, tp=1, recompute="none")),)


def option(fixed: int, *, real: bool) -> Option:
    return Option(
        per_microbatch=1,
        longest=0,
        fixed=fixed,
        rates=(10,),
        hosts=HOSTS if real else (),
    )


def left(*given: Option) -> list[Option]:
    front = Front()
    front.add(given)
    return front.options()


def test_the_quicker_pipeline_is_left() -> None:
    assert left(option(5, real=True), option(3, real=True)) == [option(3, real=True)]
    assert left(option(3, real=True), option(5, real=True)) == [option(3, real=True)]


def test_a_bound_leaves_pipelines() -> None:
    bound, slower = option(3, real=False), option(5, real=True)
    assert set(left(bound, slower)) == set(left(slower, bound)) == {bound, slower}


def test_a_bound_that_a_pipeline_keeps_to_is_not_needed() -> None:
    bound, quicker = option(3, real=False), option(3, real=True)
    assert left(bound, quicker) == left(quicker, bound) == [quicker]


def test_what_a_pipeline_beats_need_not_be_cut() -> None:
    front = Front()
    front.add([option(3, real=False)])
    assert front.passes([option(4, real=False)])
    front.add([option(4, real=True)])
    assert not front.passes([option(4, real=False)])


def test_many_ways_to_cut_leave_a_plan() -> None:
    problem = read_problem_text(
        "model: {layers: 40, hidden: 1024, heads: 8, ffn: 4096, vocab: 4000}\n"
        "clusters:\n"
        "  - {name: a, accelerator: A100-40GB, memory: 8 GB, nodes: 2,\n"
        "     devices_per_node: 4, max_tp: 1, inter_node: {bandwidth: 100 Gbps}}\n"
        "training: {global_batch: 8, seq_len: 4096, schedule: 1f1b, zero: 0,\n"
        "  lengths: {1024: 0.75, 4096: 0.25}}\n"
    )
    result = hetopt.plan(problem, jobs=1)
    assert result.best is not None
    assert len(result.best.plan.pipeline.stages) > 1
    assert result.gap is not None
    assert result.gap < 0.2


def test_nothing_that_fits_is_said_to_be_so() -> None:
    problem = read_problem_text(
        "model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 4000}\n"
        "clusters:\n"
        "  - {name: a, accelerator: A100-40GB, memory: 12 GB, nodes: 2,\n"
        "     devices_per_node: 2, inter_node: {bandwidth: 100 Gbps}}\n"
        "training: {global_batch: 8, seq_len: 262144, schedule: 1f1b,\n"
        "  recompute: none, lengths: {1024: 0.75, 262144: 0.25}}\n"
    )
    for pipelines in (1, 2):
        result = hetopt.plan(problem, pipelines=pipelines, jobs=1)
        assert result.status == "infeasible"
    # Plans that break principles are not searched.
    result = hetopt.plan(problem, relax=["p4"], jobs=1)
    assert result.status == "unknown"
    assert result.reason == "no plan was found, but not all plans were searched"
