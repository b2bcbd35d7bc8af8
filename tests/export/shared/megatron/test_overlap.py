"""Experts' all-to-alls beside another micro-batch, as megatron-core is told of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.errors import CheckError, InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.launcher import Launcher, Limits
from hetopt.export.megatron.launcher import LAUNCHER as MEGATRON
from hetopt.export.megatron.reading import read_megatron
from hetopt.export.nemo.launcher import LAUNCHER as NEMO
from hetopt.export.nemo.reading import read_nemo
from hetopt.export.planning.limits import fitted, permits
from hetopt.export.torch.launcher import LAUNCHER as TORCH
from hetopt.export.torchtitan.launcher import LAUNCHER as TORCHTITAN
from hetopt.planning.plan import plan
from hetopt.plans.strategy import Strategy
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.dispatch import EVEN
from tests.export.scripts import told

if TYPE_CHECKING:
    from hetopt.problem.training.choices import ScheduleName

TEXT = """\
model:
  layers: 8
  hidden: 1024
  heads: 16
  ffn: 2048
  vocab: 32000
  activation: silu
  experts: {number: 8, per_token: 2, ffn: 512}
clusters:
  - {name: a, accelerator: H100, nodes: 1, devices_per_node: 4,
     inter_node: {bandwidth: 100 Gbps}}
training:
  {global_batch: 8, seq_len: 2048, recompute: none, moe: {overlap: 0.9}}
pin: {clusters: {a: {dp: 2, cp: 1, tp: 1, ep: 2, etp: 1}}}
"""
ARGUMENT = "--overlap-moe-expert-parallel-comm"


def problem(stages: int, **training: Any) -> Problem:
    found = read_problem_text(TEXT.replace("pin: {", f"pin: {{stages: {stages}, "))
    found = found.under("interleaved-1f1b", 2) if stages > 1 else found.under("1f1b")
    return replace(found, training=replace(found.training, **training))


def job(given: Problem) -> Job:
    best = plan(given, solver="dp", jobs=1).best
    assert best is not None
    return Job.of(given, best.plan)


def script(given: Job, *, allow_lossy: bool = False) -> str:
    files = bundle(given, MEGATRON, allow_lossy=allow_lossy)
    return next(text for path, text in files.items() if path.endswith(".sh"))


@pytest.mark.parametrize("launcher", [MEGATRON, NEMO], ids=["megatron", "nemo"])
def test_what_hides_all_to_alls_is_read_back(
    tmp_path: Path, launcher: Launcher
) -> None:
    own = job(problem(2))
    write_folder(str(tmp_path / "out"), bundle(own, launcher, allow_lossy=False))
    found = (read_megatron if launcher is MEGATRON else read_nemo)(tmp_path / "out")
    assert found.says["overlaps"] is True
    imported = import_plan(found, own.problem)
    assert imported.plan == own.plan
    assert imported.findings == ()
    exposed = replace(own.problem.training, moe=EVEN)
    with pytest.raises(InputError, match="overlaps: the files say true"):
        import_plan(found, replace(own.problem, training=exposed))


def test_one_stage_hides_them_without_chunks() -> None:
    text = script(job(problem(1)))
    assert ARGUMENT in told(text)
    # Nothing that asserts one connection: no tensor or context parallelism.
    assert 'CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-32}"' in text


def test_nothing_is_hidden_where_nothing_is_sent() -> None:
    given = job(problem(2))
    stages = [
        replace(each, strategy=replace(each.strategy, ep=1)) for each in given.stages
    ]
    pipeline = replace(given.plan.pipeline, stages=tuple(stages))
    alone = Job.of(given.problem, replace(given.plan, pipelines=(pipeline,)))
    assert ARGUMENT not in told(script(alone))


def refused(given: Job, why: str) -> None:
    """Assert that a plan loses what it hides, and that its script says so."""
    with pytest.raises(CheckError, match=rf"moe\.overlap 0\.9: {why}"):
        script(given)
    assert ARGUMENT not in told(script(given, allow_lossy=True))


def test_stages_of_one_chunk_hide_nothing() -> None:
    given = problem(2)
    refused(job(given.under("1f1b")), "of several stages it hides those of interleaved")


def test_full_recomputation_hides_nothing() -> None:
    full = {"a": ("full",)}
    refused(
        job(problem(2, recompute=full)),
        "it cannot hide all-to-alls with full recomputation",
    )


def test_fp32_hides_nothing() -> None:
    refused(job(problem(2, precision="fp32")), "it hides none in fp32")


def test_plans_made_for_megatron_keep_to_it() -> None:
    limits = MEGATRON.limits
    assert isinstance(limits, Limits)
    own = fitted(limits, problem(2))
    assert fitted(limits, problem(1)).training.schedule == "1f1b"
    some = Strategy(dp=2, cp=1, tp=1, ep=2, recompute="full")
    assert not permits(limits, some, own)
    assert permits(limits, replace(some, recompute="selective"), own)
    assert permits(limits, replace(some, ep=1), own)
    # Nothing is hidden in FP32, which plans without all-to-alls need not.
    unhidden = replace(own, training=replace(own.training, precision="fp32"))
    assert not permits(limits, replace(some, recompute="none"), unhidden)
    assert permits(limits, replace(some, ep=1), unhidden)


@pytest.mark.parametrize("free", ["stages", "experts"])
def test_plans_that_hide_all_or_send_nothing_are_found(free: str) -> None:
    """Under 1F1B: one stage, or no parallel experts."""
    text = TEXT if free == "stages" else TEXT.replace(", ep: 2, etp: 1", "")
    given = read_problem_text(text).under("1f1b")
    result = plan(given, launcher="megatron", solver="dp", jobs=1)
    assert result.status == "optimal"
    assert result.best is not None
    assert result.problem is not None
    stages = result.best.plan.pipeline.stages
    assert (len(stages) == 1) == (stages[0].strategy.ep > 1)
    assert not [*MEGATRON.losses(Job.of(result.problem, result.best.plan))]


def test_pins_may_leave_nothing_that_hides() -> None:
    given = problem(2).under("1f1b")
    result = plan(given, launcher="megatron", solver="dp", jobs=1)
    assert result.status == "infeasible"
    assert result.reason == "nothing the launcher can run fits the devices and pins"
    assert {each.how for each in result.settlements} == {"infeasible"}


@pytest.mark.parametrize("launcher", [TORCH, TORCHTITAN], ids=["torch", "torchtitan"])
def test_others_wait(launcher: Launcher) -> None:
    losses = {loss.what: loss.instead for loss in launcher.losses(job(problem(1)))}
    assert losses["moe.overlap 0.9: it waits for all-to-alls"] == (
        "all-to-alls that nothing hides, which take longer"
    )


@pytest.mark.parametrize("own", ["1f1b", "interleaved-1f1b"])
def test_the_best_schedule_is_one_that_megatron_runs(own: ScheduleName) -> None:
    """Whatever schedule the problem has, each is asked about under itself."""
    given = problem(2).under(own, 2 if own == "interleaved-1f1b" else None)
    result = plan(given, schedule="auto", launcher="megatron", solver="dp", jobs=1)
    assert result.best is not None
    assert result.best.plan.schedule == "interleaved-1f1b"
    assert result.problem is not None
    assert not [*MEGATRON.losses(Job.of(result.problem, result.best.plan))]
    (other,) = [each for each in result.schedules if each.schedule == "1f1b"]
    assert other.objective_s is None
