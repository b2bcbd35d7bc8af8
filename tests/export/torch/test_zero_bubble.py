"""Jobs of zero bubble say so, and can be read back."""

import json
from pathlib import Path
from typing import Any

import pytest

from hetopt.cli import main
from hetopt.errors import InputError
from hetopt.export.torch.reading import read_torch
from tests.export.torch.test_torch import change, write
from tests.runtimes.torch_plans import job_of
from tests.runtimes.zero_bubble_plans import ZERO_BUBBLE

PROBLEM = """\
model: {layers: 8, hidden: 256, heads: 4, ffn: 704, vocab: 512}
clusters:
  - {name: one, accelerator: A40, nodes: 1, devices_per_node: 1,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
  - {name: two, accelerator: A40, nodes: 1, devices_per_node: 2,
     inter_node: {bandwidth: 100 Gbps, latency: 5 us}}
links: {default: {bandwidth: 100 Gbps, latency: 5 us}}
training: {global_batch: 16, seq_len: 512, recompute: none}
pin: {stages: 2}
"""


@pytest.mark.parametrize("name", ZERO_BUBBLE)
def test_gradients_of_weights_apart_are_read_back(name: str, tmp_path: Path) -> None:
    job = job_of(ZERO_BUBBLE[name])
    folder = write(job, tmp_path / "out")
    content = json.loads((folder / "job.json").read_text())
    assert content["training"]["zero_bubble"] == job.plan.schedule
    ends = [stage["end"] for stage in content["stages"]]
    assert ends == [stage.end_unit for stage in job.stages]
    assert "run later than those of inputs" in (folder / "README.md").read_text()
    read = read_torch(folder)
    assert (read.schedule, read.chunks) == (job.plan.schedule, 1)
    assert tuple(stage.layers for stage in read.stages) == job.layers
    for stage, own in zip(read.stages, job.stages, strict=True):
        assert (stage.warmup, stage.strategy) == (own.warmup, own.strategy)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", ["zb-h1", "zb-v"])
def test_a_plan_for_the_program_comes_back(name: Any, tmp_path: Path) -> None:
    problem = tmp_path / "problem.yaml"
    problem.write_text(PROBLEM)
    plan, out, mine = (str(tmp_path / each) for each in ("p.json", "out", "mine.json"))
    options = ["--for", "torch", "--schedule", name, "--jobs", "1"]
    assert main(["plan", str(problem), *options, "--out", plan]) == 0
    assert main(["export", str(problem), plan, "--to", "torch", "--out", out]) == 0
    assert main(["import", str(problem), out, "--out", mine]) == 0
    ours, theirs = (json.loads(Path(each).read_text()) for each in (plan, mine))
    assert ours["plan"]["schedule"] == name
    assert len(ours["plan"]["pipelines"][0]["stages"]) == 2
    assert theirs["plan"]["pipelines"] == ours["plan"]["pipelines"]
    assert theirs["iteration_time_s"] == pytest.approx(ours["iteration_time_s"])


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (
            ("training", "zero_bubble"),
            "zb",
            r"zero_bubble: is 'zb' .*, expected one",
        ),
        (
            ("training", "zero_bubble"),
            [1],
            r"zero_bubble: is a list, expected one",
        ),
        (("training", "chunks"), 3, r"training\.chunks: is 3, "),
        (("model", "layers"), 7, r"model\.layers: is 7, expected an even number"),
        (("stages", -1, "end"), 6, r"end: is 6, expected 5: the embedding, half"),
    ],
)
def test_wrong_folds_are_refused_with_the_reason(
    keys: tuple[Any, ...], value: object, message: str, tmp_path: Path
) -> None:
    folder = write(job_of(ZERO_BUBBLE["zb-v"]), tmp_path / "out")
    change(folder / "job.json", keys, value)
    with pytest.raises(InputError, match=message):
        read_torch(folder)
