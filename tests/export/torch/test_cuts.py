"""Stages that begin inside a layer go to hetopt's own program, and come back."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from hetopt.cli import main
from hetopt.errors import InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.torch.launcher import LAUNCHER as TORCH
from hetopt.export.torch.reading import read_torch
from tests.export.jobs import draw_job
from tests.runtimes.torch_plans import CUTS, job_of

ROOT = Path(__file__).parents[3]

#: Units of 12 stages, of which some end behind each kind of block.
UNITS = (11, 10, 10, 10, 12, 12, 14, 13, 14, 13, 14, 13)
PINS = f"""
pin:
  microbatches: 256
  order: [v100, a100]
  units: {list(UNITS)}
  clusters:
    v100: {{stages: 4, dp: 4, tp: 2, recompute: none}}
    a100: {{stages: 8, dp: 2, tp: 2, recompute: none}}
"""


def moved(seed: int) -> Job:
    """Return a drawn job whose stages end up to two blocks earlier."""
    job = draw_job(seed, granularity="block", schedules=("1f1b", "gpipe"))
    ends = [stage.end_unit - (n + seed) % 3 for n, stage in enumerate(job.stages)]
    ends[-1] = job.stages[-1].end_unit
    stages = tuple(
        replace(stage, first_unit=first, end_unit=end)
        for stage, first, end in zip(job.stages, [0, *ends], ends, strict=False)
    )
    pipeline = replace(job.plan.pipeline, stages=stages)
    return replace(job, plan=replace(job.plan, pipelines=(pipeline,)))


@pytest.mark.parametrize("seed", range(12))
def test_a_plan_that_cuts_layers_comes_back(seed: int, tmp_path: Path) -> None:
    job = moved(seed)
    write_folder(str(tmp_path / "out"), bundle(job, TORCH, allow_lossy=False))
    read = read_torch(tmp_path / "out")
    layers = [Fraction(stage.units, 3) for stage in job.stages]
    layers[0] -= Fraction(1, 3)
    layers[-1] -= Fraction(1, 3)
    assert [stage.layers for stage in read.stages] == layers
    imported = import_plan(read, job.problem).plan.pipeline.stages
    assert [(s.first_unit, s.end_unit) for s in imported] == [
        (s.first_unit, s.end_unit) for s in job.stages
    ]
    if job.layers is None:
        model = replace(job.problem.model, granularity="layer")
        with pytest.raises(InputError, match="whole ones: set granularity: block"):
            import_plan(read, replace(job.problem, model=model))


@pytest.mark.parametrize("name", CUTS)
def test_stages_have_the_units_of_the_plan(name: str) -> None:
    job = job_of(CUTS[name])
    assert job.layers is None
    stages = json.loads(bundle(job, TORCH, allow_lossy=False)["job.json"])["stages"]
    assert [(stage["first"], stage["end"]) for stage in stages] == [
        (stage.first_unit, stage.end_unit) for stage in job.stages
    ]


def test_a_bundle_that_counts_whole_layers_is_still_read(tmp_path: Path) -> None:
    job = draw_job(4, granularity="block")
    assert job.layers is not None
    write_folder(str(tmp_path), bundle(job, TORCH, allow_lossy=False))
    path = tmp_path / "job.json"
    content = json.loads(path.read_text())
    for stage in content["stages"]:
        stage["first"] = -(-stage["first"] // 3)
        stage["end"] = -(-stage["end"] // 3)
    content["stages"][-1]["end"] = job.problem.model.layers + 2
    path.write_text(json.dumps(content))
    assert tuple(stage.layers for stage in read_torch(tmp_path).stages) == job.layers
    content["stages"][-1]["end"] += 1
    path.write_text(json.dumps(content))
    units = 3 * job.problem.model.layers + 2
    with pytest.raises(InputError, match=f"expected {units}: the embedding, all"):
        read_torch(tmp_path)


def test_hapt_s_model_is_planned_exported_and_read_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shipped = (ROOT / "data/problems/hapt-gpt39b.yaml").read_text()
    names = ("problem.yaml", "plan.json", "out", "mine.json")
    problem, plan, out, mine = (str(tmp_path / name) for name in names)
    Path(problem).write_text(shipped + PINS)
    asked = ["plan", problem, "--for", "torch", "--jobs", "1", "--out", plan]
    assert main(asked) == 0
    assert "--to torch" in capsys.readouterr().out
    assert main(["export", problem, plan, "--to", "torch", "--out", out]) == 0
    content = json.loads((tmp_path / "out/job.json").read_text())
    stages = content["stages"]
    ends = [sum(UNITS[: n + 1]) for n in range(len(UNITS))]
    assert [stage["end"] for stage in stages] == ends
    assert [stage["first"] for stage in stages] == [0, *ends[:-1]]
    assert ends[-1] == 3 * content["model"]["layers"] + 2 == 146
    assert {(end - 1) % 3 for end in ends} == {0, 1, 2}
    degrees = [(stage["dp"], stage["cp"], stage["tp"]) for stage in stages]
    assert degrees == [(4, 1, 2)] * 4 + [(2, 1, 2)] * 8
    warmups = [stage["warmup"] for stage in stages]
    assert warmups == sorted(warmups, reverse=True)
    assert warmups[0] > len(stages)
    assert main(["import", problem, out, "--out", mine]) == 0
    ours, theirs = (json.loads(Path(each).read_text()) for each in (plan, mine))
    assert theirs["plan"]["pipelines"] == ours["plan"]["pipelines"]


def test_other_launchers_still_refuse_blocks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for other in ("megatron", "hetu", "nemo", "hexiscale"):
        assert main(["plan", "hapt-gpt39b", "--for", other]) == 2
        error = capsys.readouterr().err
        assert "the launcher cuts between layers" in error
        assert error.count("\n") == 1
