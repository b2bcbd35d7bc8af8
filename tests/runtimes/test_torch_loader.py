"""torch.distributed.pipelining's own loader takes the schedules that we export."""

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

schedules = pytest.importorskip("torch.distributed.pipelining.schedules")

from hetopt.export.bundle import bundle
from hetopt.export.registry import launcher
from hetopt.export.torchtitan.schedule_csv import schedule_text
from tests.export.jobs import draw_job

pytestmark = pytest.mark.runtimes

PLANS = 500


class Stage:
    """As much of a pipeline stage as loading a schedule asks for."""

    has_backward = True
    is_first = is_last = True
    stage_index = group_rank = 0
    stage_index_to_group_rank: dict[int, int]

    def __init__(self, stages: int) -> None:
        self.num_stages = self.group_size = stages


def load(path: Path, stages: int, microbatches: int) -> Any:
    """Load a schedule as torch does, sends and receives included."""
    runtime = schedules._PipelineScheduleRuntime(
        [Stage(stages)], n_microbatches=microbatches, loss_fn=lambda out, target: out
    )
    runtime._load_csv(str(path))
    return runtime


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "mixed"])
def test_no_plan_that_we_accept_is_rejected(alike: bool, tmp_path: Path) -> None:
    target = launcher("torchtitan")
    path = tmp_path / "schedule.csv"
    loaded = 0
    for seed in range(PLANS):
        job = draw_job(seed, alike=alike)
        if any(loss.instead is None for loss in target.losses(job)):
            continue
        files = bundle(job, target, allow_lossy=True)
        if "schedule.csv" not in files:
            assert len(job.stages) == 1
            continue
        path.write_text(files["schedule.csv"])
        runtime = load(path, len(job.stages), job.microbatches)
        # Every stage on the rank of its own number.
        assert runtime.stage_index_to_group_rank == {
            stage: stage for stage in range(len(job.stages))
        }
        loaded += 1
    assert loaded > 10


def test_rising_warm_ups_are_refused(tmp_path: Path) -> None:
    rng = Random(3)
    path = tmp_path / "schedule.csv"
    refused = 0
    for _ in range(300):
        stages, q = rng.randint(1, 5), rng.randint(1, 6)
        warmups = [rng.randint(1, q) for _ in range(stages)]
        path.write_text(schedule_text(warmups, q))
        if all(before >= here for before, here in pairwise(warmups)):
            load(path, stages, q)
            continue
        refused += 1
        with pytest.raises(AssertionError, match="Malformed compute schedule"):
            load(path, stages, q)
    assert refused > 50
