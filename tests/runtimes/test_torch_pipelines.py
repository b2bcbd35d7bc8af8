"""Unequal pipelines side by side train what a single process trains."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

torch = pytest.importorskip("torch")

from tests.runtimes.test_torch_execution import (
    batch_of,
    check_memory,
    check_messages,
    check_schedule,
    check_training,
    joined,
    watched,
    written,
)
from tests.runtimes.torch_plans import MIXTRAL, ONE, PAIR, Case, side_by_side

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

HALF = {"hall0": (4,)}
SIXTHS = {
    "heads": 6,
    "kv_heads": 6,
    "hidden": 96,
    "ffn": 192,
    "vocab": 511,
    "gated": False,
    "norm": "layer",
}

#: Pipelines, and the devices of each node that each one has.
CASES = {
    "two, of other stages, layers and micro-batches": (
        (
            Case(
                schedule="1f1b",
                degrees=(PAIR, ONE),
                layers=(2, 1),
                training={"optimizer": "sgd"},
            ),
            Case(
                schedule="1f1b",
                degrees=(ONE, ONE, ONE),
                q=3,
                training={"optimizer": "sgd"},
            ),
        ),
        (HALF, HALF),
    ),
    "thirds meet halves": (
        (
            Case(
                schedule="1f1b",
                degrees=(PAIR, PAIR),
                layers=(1, 1),
                q=2,
                model=SIXTHS,
                training={"seq_len": 48},
            ),
            Case(
                schedule="1f1b",
                degrees=((1, 1, 3),),
                layers=(2,),
                q=3,
                model=SIXTHS,
                training={"seq_len": 48},
            ),
        ),
        (HALF, HALF),
    ),
    "layers cut in other places": (
        (
            Case(schedule="1f1b", degrees=(PAIR, ONE), blocks=(2, 4), q=2),
            Case(schedule="1f1b", degrees=(ONE, ONE, ONE), blocks=(1, 3, 2), q=3),
        ),
        (HALF, HALF),
    ),
    "tied, a stage that has both ends": (
        (
            Case(
                schedule="1f1b",
                degrees=((2, 1, 1), PAIR),
                layers=(1, 2),
                q=2,
                model={"tied": True, "kv_heads": 1},
            ),
            Case(
                schedule="1f1b",
                degrees=((1, 2, 1),),
                layers=(3,),
                q=3,
                model={"tied": True, "kv_heads": 1},
            ),
        ),
        (HALF, HALF),
    ),
    "three, with experts": (
        (
            Case(
                schedule="1f1b",
                degrees=((2, 1, 1),),
                layers=(2,),
                q=2,
                experts=((2, 1),),
                model={"experts": MIXTRAL},
                training={"zero": 0, "overlap_gradients": False},
            ),
            Case(
                schedule="1f1b",
                degrees=(PAIR,),
                layers=(2,),
                q=3,
                experts=((1, 2),),
                model={"experts": MIXTRAL},
                training={"zero": 0, "overlap_gradients": False},
            ),
            Case(
                schedule="1f1b",
                degrees=(ONE, ONE),
                q=2,
                experts=((1, 1), (1, 1)),
                model={"experts": MIXTRAL},
                training={"zero": 0, "overlap_gradients": False},
            ),
        ),
        ({"hall0": (2,)}, {"hall0": (2,)}, HALF),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_pipelines_have_the_gradients_of_a_single_process(
    name: str, tmp_path: Path
) -> None:
    job = written(side_by_side(*CASES[name]), tmp_path / "out")
    batch = batch_of(job)
    found = watched(job, tmp_path / "out", batch)
    sums = []
    for number, part in enumerate(job.parts):
        own = [found[rank.rank] for rank in part.placement.ranks]
        for rank, result in zip(part.placement.ranks, own, strict=True):
            assert result["pipeline"] == rank.pipeline == number
            assert result["where"] == (rank.stage, rank.dp, rank.cp, rank.tp)
        check_training(part, own, batch)
        check_schedule(part, own)
        if part.problem.model.experts is None:
            # What experts keep depends on the tokens that choose them.
            check_memory(part, own)
        check_messages(part, own)
        sums.append(joined(part, own, "gradients"))
    losses = [each["losses"] for each in found if each["losses"][0] is not None]
    assert all(each == losses[0] for each in losses)
    assert losses[0][-1] < losses[0][0] - 0.01
    for other in sums[1:]:
        for key in other.keys() & sums[0].keys():
            assert torch.equal(other[key], sums[0][key]), key
