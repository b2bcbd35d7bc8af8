"""TorchTitan's files become the plans that they were written for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.cli import main
from hetopt.errors import InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.registry import reader
from hetopt.export.torchtitan.launcher import LAUNCHER as TORCHTITAN
from hetopt.problem.training.choices import Precision
from tests.export.jobs import draw_job, restaged, untied
from tests.export.torchtitan.test_torchtitan import PARTS
from tests.runtimes.torch_plans import job_of as job_of_case
from tests.with_configs import job_of, problem_of, problem_with_preset

#: What every bundle loses, which importing says again.
DOCUMENTS = "attention across the documents of a sequence"


def exact_jobs() -> list[Job]:
    """Return jobs whose bundles lose nothing else."""
    found = []
    for seed in range(16):
        for zero in (0, 1, 3):
            drawn = draw_job(seed, alike=True, recompute=("none", "full"))
            job = untied(drawn, zero)
            if [loss.what for loss in TORCHTITAN.losses(job)] == [DOCUMENTS]:
                found.append(job)
    return found


def test_a_bundle_is_read_as_its_plan(tmp_path: Path) -> None:
    jobs = exact_jobs()
    assert len(jobs) > 20
    assert {len(job.stages) > 1 for job in jobs} == {True, False}
    assert any(job.stages[0].strategy.cp > 1 for job in jobs)
    for number, job in enumerate(jobs):
        out = tmp_path / str(number)
        write_folder(str(out), bundle(job, TORCHTITAN, allow_lossy=True))
        found = reader(out, None).read(out)
        assert [each.argument for each in found.reported] == ["model_spec"]
        imported = import_plan(found, job.problem)
        for given, meant in zip(imported.plan.pipeline.stages, job.stages, strict=True):
            assert replace(given, resharding=None) == replace(meant, resharding=None)
        assert imported.plan.pipeline.microbatches == job.microbatches


@pytest.mark.parametrize("cuts", [(), PARTS.cuts], ids=["alike", "not alike"])
def test_stages_of_several_parts_are_read_as_their_plan(
    cuts: tuple[int, ...], tmp_path: Path
) -> None:
    job = job_of_case(replace(PARTS, cuts=cuts, layers=() if cuts else (1, 1)))
    write_folder(str(tmp_path / "out"), bundle(job, TORCHTITAN, allow_lossy=True))
    found = reader(tmp_path / "out", None).read(tmp_path / "out")
    assert found.chunks == 3
    assert found.layout == ("E|tt|t|tt|t|L" if cuts else None)
    plan = import_plan(found, job.problem).plan
    assert plan.cuts == job.plan.cuts
    assert plan.chunks == 3
    for given, meant in zip(plan.pipeline.stages, job.stages, strict=True):
        assert replace(given, resharding=None) == replace(meant, resharding=None)


@pytest.mark.parametrize("precision", ["fp8", "fp32"])
def test_a_bundle_keeps_its_precision(precision: Precision, tmp_path: Path) -> None:
    job = exact_jobs()[0]
    training = replace(job.problem.training, precision=precision)
    job = replace(job, problem=replace(job.problem, training=training))
    out = tmp_path / "out"
    write_folder(str(out), bundle(job, TORCHTITAN, allow_lossy=True))
    found = reader(out, None).read(out)
    assert found.says["precision"] == precision
    assert [each.argument for each in found.reported] == ["model_spec"]


@pytest.mark.parametrize("name", ["qwen3-30b-a3b", "mixtral-8x7b"])
@pytest.mark.parametrize(("ep", "etp"), [(4, 1), (2, 1), (1, 4)])
def test_a_mixture_is_read_as_its_plan(
    name: str, ep: int, etp: int, tmp_path: Path
) -> None:
    drawn = job_of(problem_with_preset(name), tp=4, ep=ep)
    job = drawn
    for number, stage in enumerate(drawn.stages):
        strategy = replace(stage.strategy, etp=etp)
        job = restaged(job, number, strategy=strategy)
    write_folder(str(tmp_path / "out"), bundle(job, TORCHTITAN, allow_lossy=True))
    found = reader(tmp_path / "out", None).read(tmp_path / "out")
    assert [each.argument for each in found.reported] == ["model_spec"]
    assert found.says["experts"] == job.problem.model.experts
    read = [stage.strategy for stage in found.stages]
    assert read == [stage.strategy for stage in job.stages]
    imported = import_plan(found, job.problem)
    assert imported.plan.pipeline.microbatches == job.microbatches


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("expert_parallel_degree=4", "expert_parallel_degree=3", "is 3, expected a d"),
        ("top_k=8", "top_k=256", "per_token is 256, expected at most number"),
        ('comm_backend="standard"', 'comm_backend="x"', "hetopt can price standard"),
        ("score_func='softmax'", "score_func='tanh'", "expected softmax or sigmoid"),
        ("hidden_dim=768", "hidden_dim=None", "expected a whole number"),
        ("groups=None", "groups='x'", "num_expert_groups: is 'x', expected a whole"),
        ("route_scale=1.0", "route_scale=1e999", "is inf, expected a number above 0"),
        ("moe=mixture(deep)", "moe=mixture(deep), feed_forward=norm(1)", "without fee"),
    ],
)
def test_wrong_mixtures_are_refused_with_the_reason(
    before: str, after: str, message: str, tmp_path: Path
) -> None:
    job = job_of(problem_with_preset("qwen3-30b-a3b"), tp=4, ep=4)
    write_folder(str(tmp_path / "out"), bundle(job, TORCHTITAN, allow_lossy=True))
    path = tmp_path / "out/hetopt_plan.py"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(InputError, match=message):
        reader(tmp_path / "out", None).read(tmp_path / "out")


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("scaling_factor=8.0", "scaling_factor=1e999", "is inf, expected a number"),
        ("low_freq_factor=1.0", "low_freq_factor=9", "scaling: is llama, but low_freq"),
    ],
)
def test_wrong_scalings_are_refused_with_the_reason(
    before: str, after: str, message: str, tmp_path: Path
) -> None:
    job = job_of(problem_of("llama-3.1-8b"))
    write_folder(str(tmp_path / "out"), bundle(job, TORCHTITAN, allow_lossy=True))
    path = tmp_path / "out/hetopt_plan.py"
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after))
    with pytest.raises(InputError, match=message):
        reader(tmp_path / "out", None).read(tmp_path / "out")


#: What is no job, or computes one.
HOSTILE = {
    "a table for a number": "[model]\nflavor = '8B'\n[training.seq_len]\na = 1\n",
    "a section that is a number": "training = 1\nmodel = 2\n[parallelism]\na = 1\n",
    "a degree below 1": "[model]\n[parallelism]\ntensor_parallel_degree = 0\n",
    "a huge degree": "[model]\n[parallelism]\npipeline_parallel_degree = 99999999999\n",
    "a number for a list": (
        "[model]\n[parallelism]\nmodule_fqns_per_model_part = 3\n"
        "pipeline_parallel_degree = 2\ndata_parallel_shard_degree = 1\n"
    ),
    "no TOML": "[[[",
    "a number of too many digits": f"[model]\n[training]\nsteps = {'9' * 5000}\n",
    "a hexadecimal one": f"[model]\n[training]\nseq_len = 0x{'f' * 5000}\n",
}
COMPUTED = {
    "a loop": "    c = Trainer.Config()\n    while True: c = f(c)\n    return c\n",
    "itself": "    return job()\n",
    "a lambda": "    return (lambda: Trainer.Config())()\n",
    "its file": "    open('ran', 'w')\n    return Trainer.Config(**open('x'))\n",
    "a model by code": "    return Trainer.Config(model_spec=[eval('1')][0])\n",
    "a long sum": f"    return Trainer.Config(a={'1+' * 5000}1)\n",
    "a long number": f"    return Trainer.Config(a=0x{'f' * 5000})\n",
    "an own recomputation": (
        "    return Trainer.Config(activation_checkpoint=MyFullAC.Config())\n"
    ),
}


@pytest.mark.parametrize("name", [*HOSTILE, *COMPUTED])
def test_what_is_no_job_ends_in_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    if name in HOSTILE:
        (files / "job.toml").write_text(HOSTILE[name])
    else:
        text = "from torchtitan.trainer import Trainer\n\ndef job():\n"
        (files / "jobs.py").write_text(text + COMPUTED[name] + "#Trainer.Config(\n")
        (files / "run.sh").write_text(
            "torchrun --nproc_per_node 2 -m torchtitan.train --module jobs --config job"
        )
    out = tmp_path / "mine.json"
    options = ["--from", "torchtitan", "--out", str(out)]
    assert main(["import", "a100-h100-v100", str(files), *options]) == 2
    said = capsys.readouterr().err.strip()
    assert str(files) in said
    assert "\n" not in said
    assert not out.exists()
    assert not Path("ran").exists()
