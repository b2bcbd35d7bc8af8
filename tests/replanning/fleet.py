"""Small fleets and plans, of which it is plain who holds what."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING

from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.reading import read_problem_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetopt.problem.problem import Problem

TEXT = """\
model: {{layers: 4, hidden: 256, heads: 4, ffn: 1024, vocab: 1000}}
clusters:
  - {{name: a, accelerator: A100-40GB, nodes: {nodes},
     inter_node: {{bandwidth: 100 Gbps}}}}
training: {{global_batch: 12, seq_len: 1024, zero: {zero}, schedule: 1f1b}}
"""


def fleet(nodes: Sequence[int], zero: int = 0) -> Problem:
    """Return a problem of one cluster with these nodes, of 6 units."""
    return read_problem_text(TEXT.format(nodes=list(nodes), zero=zero))


def plan_of(units: Sequence[int], strategies: Sequence[Strategy]) -> Plan:
    """Return a plan of one pipeline, whose stages have so many units."""
    ends = list(accumulate(units))
    last = len(units) - 1
    stages = tuple(
        Stage(
            cluster="a",
            first_unit=ends[k] - units[k],
            end_unit=ends[k],
            strategy=strategies[k],
            warmup=len(units) - k,
            resharding=None if k == last else "p2p",
        )
        for k in range(len(units))
    )
    return Plan(
        schedule="1f1b",
        pipelines=(Pipeline(microbatches=6, stages=stages),),
        problem_digest="",
        table_digest="",
    )
