"""Routed experts in FlagScale's meshes: as written, as read, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetopt.cost.build import build_table
from hetopt.errors import CheckError
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.flagscale.launcher import LAUNCHER
from hetopt.export.flagscale.reading import read_flagscale
from hetopt.export.job import Job
from hetopt.export.launcher import Limits
from hetopt.export.planning.limits import permitted
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.dispatch import Dispatch
from tests.export.flagscale.checker import broken_rules
from tests.with_configs import job_of, problem_with_preset


def job(name: str = "qwen3-30b-a3b", first: Any = None, last: Any = None) -> Job:
    """Return a job of two stages on four devices each, with these (ep, etp)."""
    found = job_of(problem_with_preset(name), tp=4, ep=4)
    degrees = (first or (4, 1), last or (4, 1))
    stages = tuple(
        replace(stage, strategy=replace(stage.strategy, ep=ep, etp=etp))
        for stage, (ep, etp) in zip(found.stages, degrees, strict=True)
    )
    pipeline = replace(found.plan.pipeline, stages=stages)
    return Job.of(found.problem, replace(found.plan, pipelines=(pipeline,)))


def train(given: Job) -> dict[str, Any]:
    files = bundle(given, LAUNCHER, allow_lossy=True)
    found: dict[str, Any] = yaml.safe_load(files["conf/train/plan.yaml"])
    return found


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v2-lite"])
@pytest.mark.parametrize("last", [(4, 1), (2, 2)])
def test_every_mesh_has_its_own_degrees(
    tmp_path: Path, name: str, last: tuple[int, int]
) -> None:
    given = job(name, last=last)
    assert not [loss.what for loss in LAUNCHER.losses(given)]
    write_folder(str(tmp_path / "out"), bundle(given, LAUNCHER, allow_lossy=False))
    assert list(broken_rules(tmp_path / "out")) == []
    found, model = read_flagscale(tmp_path / "out"), given.problem.model
    degrees = [(s.strategy.ep, s.strategy.etp) for s in found.stages]
    assert degrees == [(4, 1), last]
    assert found.says["experts"] == model.experts
    assert found.says["latent"] == model.latent
    assert found.says["overlaps"] is False
    # Of latent attention, whose pairs are neighbours.
    assert {each.argument for each in found.reported} <= {"no_rope_fusion"}


def test_experts_are_cut_like_the_tensors_of_a_mesh_by_default(tmp_path: Path) -> None:
    given = job(first=(1, 4), last=(1, 4))
    write_folder(str(tmp_path / "out"), bundle(given, LAUNCHER, allow_lossy=False))
    path = tmp_path / "out/conf/train/plan.yaml"
    settings = yaml.safe_load(path.read_text())
    del settings["system"]["hetero"]["expert_tensor_parallel_size_per_process_mesh"]
    del settings["system"]["expert_tensor_parallel_size"]
    path.write_text(yaml.safe_dump(settings))
    found = read_flagscale(tmp_path / "out")
    assert [(s.strategy.ep, s.strategy.etp) for s in found.stages] == [(1, 4)] * 2


def test_meshes_all_spread_experts_or_none_does() -> None:
    with pytest.raises(CheckError, match="all stages spread experts or none does"):
        bundle(job(last=(1, 4)), LAUNCHER, allow_lossy=True)
    both = job(first=(1, 4), last=(1, 4))
    assert not [loss.what for loss in LAUNCHER.losses(both)]


def test_what_meshes_cannot_do_of_experts() -> None:
    given = job()
    training = given.problem.training

    def lost(**changes: Any) -> dict[str, str | None]:
        problem = replace(given.problem, training=replace(training, **changes))
        other = Job.of(problem, given.plan)
        return {loss.what: loss.instead for loss in LAUNCHER.losses(other)}

    assert "routed experts with tensor and without sequence parallelism" in lost(
        sequence_parallel=False
    )
    once = Dispatch(node_dedup=True, overlap=0.5)
    assert list(lost(moe=once).values()) == [
        "an all-to-all of all copies, which takes longer",
        "all-to-alls that nothing hides, which take longer",
    ]
    problem = replace(given.problem, training=replace(training, moe=once))
    told = train(Job.of(problem, given.plan))["model"]
    assert told["moe_token_dispatcher_type"] == "alltoall"
    cut = job("gpt-oss-20b", first=(2, 2), last=(2, 2))
    said = [loss.what for loss in LAUNCHER.losses(cut)]
    assert any("experts with biases whose matrices are cut" in what for what in said)


def test_no_shell_reads_which_layers_are_routed() -> None:
    told = train(job("deepseek-v2-lite"))["model"]
    assert told["moe_layer_freq"] == "[0]*1+[1]*26"


def test_plans_for_it_spread_experts_on_all_stages_or_on_none() -> None:
    problem = read_problem_text(
        "model: {layers: 4, hidden: 512, heads: 8, ffn: 512, vocab: 4096,\n"
        "  experts: {number: 4, per_token: 2, ffn: 256}}\n"
        "clusters:\n  - {name: a, accelerator: H100, nodes: 1, devices_per_node: 4}\n"
        "training: {global_batch: 4, seq_len: 512, recompute: none}\n"
    )
    limits = LAUNCHER.limits
    assert isinstance(limits, Limits)
    sides = [
        {each.ep > 1 for part in table.slices for each in part.clusters[0].strategies}
        for table in permitted(limits, problem, build_table(problem))
        if any(part.clusters[0].strategies for part in table.slices)
    ]
    assert sides == [{True}, {False}]
