"""Every way of resharding brings each token to its rank, by the pairs as priced."""

from itertools import product
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from hetopt.cost.boundaries.resharding import (
    Side,
    outer_degree,
    overlaps,
    plan_transfer,
)
from hetopt.export.torch.program.job import Carried, ClusterPlan, Job, StagePlan
from hetopt.export.torch.program.routes import ALL, Step, holdings_of, steps_of
from hetopt.problem.training.choices import RESHARDING, Resharding
from tests.export.jobs import draw_job

pytestmark = pytest.mark.torch

DEGREES = [(1, 1, 1), (1, 1, 2), (1, 1, 4), (2, 1, 2), (3, 1, 1), (4, 1, 1), (6, 1, 2)]
HALL: dict[str, Any] = {"device": "cpu", "backend": "gloo", "group": 0}
SPLIT = [(1, 2, 1), (2, 2, 2), (1, 3, 2)]

#: Whole tokens, and tokens whose numbers are divided among tensor-parallel ranks.
HIDDEN, INNER = Carried(width=64), Carried(width=96, runs=4)

#: Enough degrees for tokens in runs, of which there are more.
FEW = [(1, 1, 1), (1, 1, 4), (2, 1, 2), (3, 1, 1), (1, 2, 2)]


def job_of(*degrees: tuple[int, ...]) -> Job:
    plans = tuple(
        StagePlan(
            cluster="hall0",
            first=0,
            end=1,
            dp=dp,
            cp=cp,
            tp=tp,
            ep=1,
            etp=1,
            recompute="none",
            zero=1,
            warmup=1,
            resharding="p2p",
        )
        for dp, cp, tp in degrees
    )
    return Job(
        model={"layers": 2},
        clusters={"hall0": ClusterPlan(name="hall0", **HALL)},
        global_batch=24,
        batch=24,
        first_sequence=0,
        first_of_all=0,
        seq_len=24,
        microbatches=2,
        chunks=1,
        zero_bubble=None,
        precision="fp32",
        optimizer="adam",
        gradients="fp32",
        sequence_parallel=True,
        overlap_gradients=True,
        stages=plans,
        tested_with="2.13",
    )


def carried(
    steps: dict[int, list[Step]], x: dict[int, Any], number: int
) -> dict[int, Any]:
    """Carry out one step of all ranks; a message must be expected by its receiver."""
    found = {rank: torch.full((own[number].rows,), -1) for rank, own in steps.items()}
    sent = {
        (rank, to): x[rank][rows]
        for rank, own in steps.items()
        for to, rows in own[number].sends
    }
    for rank, own in steps.items():
        for rows, at in own[number].kept:
            found[rank][at] = x[rank][rows]
        for source, at, count in own[number].receives:
            part = sent.pop((source, rank))
            assert len(part) == count
            assert at != ALL or len(own[number].receives) == 1
            found[rank][at] = part
    assert not sent
    return found


@pytest.mark.parametrize("tensor", [HIDDEN, INNER], ids=["hidden", "inner"])
@pytest.mark.parametrize("way", RESHARDING)
def test_tokens_get_where_they_belong(way: Resharding, tensor: Carried) -> None:
    degrees = FEW if tensor is INNER else DEGREES + SPLIT
    for first, last in product(degrees, repeat=2):
        job = job_of(first, last)
        for ends in ((0, 1), (1, 0)):
            holdings = holdings_of(job, ends, way, tensor.runs)
            ranks = range(job.end_rank)
            device = torch.device("cpu")
            steps = {
                rank: steps_of(job, rank, ends, way, device, tensor) for rank in ranks
            }
            nothing = torch.empty(0, dtype=torch.int64)
            x = {rank: holdings[0].get(rank, nothing) for rank in ranks}
            for number in range(len(holdings) - 1):
                x = carried(steps, x, number)
            for rank, tokens in holdings[-1].items():
                assert x[rank].tolist() == tokens.tolist()


def test_tensor_ranks_have_all_tokens_and_some_columns() -> None:
    job = job_of((1, 2, 2), (2, 1, 4))
    first, last = holdings_of(job, (0, 1), "p2p", 4)
    tokens = torch.cat([job.tokens_of(0, 1) + n * job.seq_len for n in range(12)])
    for rank, columns in ((2, (0, 1)), (3, (2, 3))):
        whole = [n * 4 + column for n in tokens.tolist() for column in columns]
        assert first[rank].tolist() == whole
    tokens = torch.arange(6 * job.seq_len) + 6 * job.seq_len
    for rank in range(4):
        assert last[8 + rank].tolist() == (tokens * 4 + rank).tolist()


@pytest.mark.parametrize("tensor", [HIDDEN, INNER], ids=["hidden", "inner"])
@pytest.mark.parametrize("way", RESHARDING)
def test_pairs_of_ranks_are_those_that_are_priced(
    way: Resharding, tensor: Carried
) -> None:
    cluster = draw_job(0).problem.clusters[0]
    for first, last in product(FEW[:-1] if tensor is INNER else DEGREES, repeat=2):
        job = job_of(first, last)
        ranks = range(job.end_rank)
        border = job.first_rank(1)
        device = torch.device("cpu")
        pairs = {
            (rank, to)
            for rank in ranks
            for step in steps_of(job, rank, (0, 1), way, device, tensor)
            for to, _ in step.sends
            if rank < border <= to
        }
        one, other = (
            Side(cluster=cluster, dp=np.array([dp]), shards=np.array([tp]))
            for dp, _, tp in (first, last)
        )
        name = "p2p" if first == last else way
        transfer = plan_transfer(name, one, other, 1.0, outer_degree(one, other))
        assert len(pairs) == transfer.pairs.item(), (first, last)


def test_split_sequences_meet_as_slices_do_where_both_sides_split_alike() -> None:
    job = job_of((2, 2, 2), (4, 2, 1))
    pairs = {
        (rank, to)
        for rank in range(job.end_rank)
        for step in steps_of(job, rank, (0, 1), "p2p", torch.device("cpu"), HIDDEN)
        for to, _ in step.sends
    }
    shards = overlaps(np.array([4]), np.array([2])).item()
    assert len(pairs) == 4 * shards
