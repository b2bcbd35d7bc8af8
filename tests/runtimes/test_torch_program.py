"""The exported program as users start it: its checkpoints, hooks and failures."""

from __future__ import annotations

import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from hetopt.export.torch.program.crossing import Crossing
from hetopt.export.torch.program.scaling import PATIENCE, LossScale
from tests.runtimes.test_torch_execution import (
    batch_of,
    check_memory,
    check_messages,
    check_schedule,
    exported,
    watched,
)
from tests.runtimes.test_torch_routes import job_of as routes_job
from tests.runtimes.torch_plans import ONE, PAIR, Case, launch, start

pytestmark = pytest.mark.torch

ALONE = Case(
    schedule="1f1b",
    degrees=((2, 1, 1),),
    layers=(2,),
    model={"tied": True},
    training={"precision": "bf16"},
)
TWO_NODES = Case(
    schedule="1f1b", degrees=((1, 1, 1), (1, 1, 1)), halls=(0, 1), q=2, each=2
)

#: How-to with a model of the user's own.
PAGE = Path(__file__).parents[2] / "docs/how-to/export.md"

#: Data of which a step is missing.
DATA = """
import os


def batch(step, job):
    if step == 2 and os.environ["RANK"] == "1":
        raise FileNotFoundError("no shard 2")
    return torch.full((job.global_batch, job.seq_len + 1), step)
"""


def losses(printed: list[str]) -> dict[int, float]:
    found = re.findall(r"step (\d+): loss ([\d.]+)", "".join(printed))
    return {int(step): float(loss) for step, loss in found}


@pytest.mark.parametrize(
    ("precision", "degrees"), [("bf16", (ONE, PAIR)), ("fp16", ((1, 2, 1), ONE))]
)
def test_sixteen_bits_keep_what_the_table_counts(
    precision: str, degrees: tuple[tuple[int, int, int], ...], tmp_path: Path
) -> None:
    case = Case(
        schedule="1f1b",
        degrees=degrees,
        layers=(2, 1),
        training={"precision": precision},
    )
    job = exported(case, tmp_path / "out")
    found = watched(job, tmp_path / "out", batch_of(job))
    check_schedule(job, found)
    check_memory(job, found)
    check_messages(job, found)
    for each in found:
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16}
        assert {x.dtype for x in each["weights"].values()} == {kinds[precision]}
        assert {x.dtype for x in each["gradients"].values()} == {torch.float32}
    assert found[-1]["losses"][-1] < found[-1]["losses"][0] - 0.01


def test_a_run_goes_on_from_its_newest_complete_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    exported(ALONE, folder)
    arguments = ["--lr", "0.01", "--every", "2", "--checkpoints"]
    whole = launch(folder, "--steps", "5", *arguments, str(tmp_path / "first"))
    assert sorted(losses(whole)) == [0, 1, 2, 3, 4]
    assert len(set(losses(whole).values())) == 5
    # What one rank alone has saved is no checkpoint.
    shutil.copytree(tmp_path / "first/step-2", tmp_path / "again/step-2")
    shutil.copytree(tmp_path / "first/step-4", tmp_path / "again/step-4")
    (tmp_path / "again/step-4/rank-1.pt").unlink()
    resumed = launch(folder, "--steps", "5", *arguments, str(tmp_path / "again"))
    assert losses(resumed) == {n: loss for n, loss in losses(whole).items() if n >= 2}


def test_own_units_and_data_and_a_rank_that_fails(tmp_path: Path) -> None:
    """Ranks are on two nodes: neither torchrun sees the other's rank die."""
    folder = tmp_path / "out"
    exported(TWO_NODES, folder)
    units = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    assert "def build_unit" in units
    (folder / "own.py").write_text(units + DATA)
    begun = time.monotonic()
    running = start(
        folder, "--units", "own.py:build_unit", "--data", "own.py:batch", "--lr", "0.01"
    )
    printed = [each.communicate(timeout=60)[0] for each in running]
    assert all(each.returncode for each in running)
    assert time.monotonic() - begun < 45
    assert sorted(losses(printed)) == [0, 1]
    first, second = printed
    complaints = [line for line in second.splitlines() if "rror" in line]
    assert complaints[0] == "rank 1: FileNotFoundError: no shard 2"
    assert "rank 0 ends: rank 1 failed" in first


@pytest.mark.parametrize(
    ("units", "complaint"),
    [
        (
            "own.py:build_unit",
            r"rank 0: ValueError: stage 0 has results of width \[64\] to send behind, "
            r"expected \[64, 176\]: a unit must return what program/units.py says",
        ),
        ("llama_units.py:build_unit", r"rank \d: ValueError: .* granularity: layer"),
    ],
)
def test_own_units_that_are_no_blocks_are_told(
    units: str, complaint: str, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    exported(Case(schedule="1f1b", degrees=(ONE, ONE), blocks=(2, 1)), folder)
    text = PAGE.read_text().partition("```python\n")[2].partition("```")[0]
    (folder / "own.py").write_text(text)
    (running,) = start(folder, "--units", units)
    printed = running.communicate(timeout=60)[0]
    assert running.returncode
    assert re.search(rf"^{complaint}$", printed, re.MULTILINE), printed


def test_a_function_that_is_not_there_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    exported(ALONE, folder)
    (running,) = start(folder, "--units", "mine.py:build_unit")
    printed = running.communicate(timeout=60)[0]
    assert running.returncode
    assert re.search(
        r"^rank \d: ValueError: mine.py:build_unit: expected FILE.py:FUNCTION, with a "
        "file that exists$",
        printed,
        re.MULTILINE,
    )


def test_a_step_of_gradients_that_overflow_is_left_out() -> None:
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        job = routes_job((1, 1, 1), (1, 1, 1))
        world = Crossing(near=dist.group.WORLD)
        assert LossScale(job, world).settle([torch.tensor([torch.inf])])
        scale = LossScale(replace(job, precision="fp16"), world)
        first = scale.factor
        assert not scale.settle([torch.ones(2), torch.tensor([1.0, torch.inf])])
        assert scale.factor == first / 2
        gradients = torch.full((2,), first)
        for _ in range(PATIENCE):
            gradients.fill_(first)
            assert scale.settle([gradients])
        assert gradients.tolist() == [2.0, 2.0]
        assert scale.factor == first
    finally:
        dist.destroy_process_group()
