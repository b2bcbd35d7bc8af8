"""What the checker says of a strategy's degrees, experts' above all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.check.plan.rules import mesh_findings, table_findings
from hetopt.cost.build import build_table
from hetopt.plans.strategy import Strategy
from hetopt.problem.model.experts import Experts
from hetopt.problem.problem import Problem
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.pins import ClusterPins, Domain, Pins
from tests.oracle import plain

EXPERTS = Experts(number=12, per_token=2, ffn=48, shared_ffn=8, dense_layers=(0,))
MIXTURE = plain.problem(model=replace(plain.MODEL, experts=EXPERTS))
PINNED = replace(
    MIXTURE, pins=Pins(clusters={"a": ClusterPins(ep=Domain(allowed=frozenset({2})))})
)
ROUTED = replace(
    MIXTURE,
    model=replace(MIXTURE.model, ffn=255, experts=replace(EXPERTS, dense_layers=())),
)
UNSPLIT = replace(MIXTURE, training=replace(MIXTURE.training, sequence_parallel=False))


def said(problem: Problem, *degrees: int) -> str:
    dp, cp, tp, ep, etp = degrees
    strategy = Strategy(dp=dp, cp=cp, tp=tp, ep=ep, etp=etp)
    cluster = plain.cluster("a", 2, 4)
    return " | ".join(mesh_findings(problem, cluster, strategy, 1))


def test_sound_degrees() -> None:
    assert said(MIXTURE, 4, 1, 2, 4, 1) == ""
    assert said(MIXTURE, 2, 1, 4, 2, 4) == ""
    assert said(ROUTED, 4, 1, 2, 4, 1) == ""
    assert said(UNSPLIT, 8, 1, 1, 4, 2) == ""


@pytest.mark.parametrize(
    ("problem", "degrees", "finding"),
    [
        (
            plain.problem(),
            (4, 1, 1, 4, 1),
            "ep 4 and etp 1, but the model has no experts",
        ),
        (MIXTURE, (8, 1, 1, 8, 1), "ep 8 does not divide the 12 experts"),
        (
            replace(
                MIXTURE, model=replace(MIXTURE.model, experts=replace(EXPERTS, ffn=6))
            ),
            (8, 1, 1, 1, 4),
            "etp 4 does not divide an expert's width 6",
        ),
        (MIXTURE, (8, 1, 1, 1, 8), "with tp 1 and etp 8 inside each node"),
        (
            replace(
                MIXTURE,
                model=replace(MIXTURE.model, experts=replace(EXPERTS, shared_ffn=6)),
            ),
            (1, 1, 4, 4, 1),
            "tp 4 does not divide the shared expert's width 6",
        ),
        (UNSPLIT, (4, 1, 2, 4, 1), "but training.sequence_parallel is false"),
        (PINNED, (4, 1, 1, 4, 1), "pin clusters.a.ep: 4, expected 2"),
    ],
)
def test_broken_rules(problem: Problem, degrees: tuple[int, ...], finding: str) -> None:
    assert finding in said(problem, *degrees)


def test_stages_of_unequal_nodes_are_counted_by_both_tensor_degrees() -> None:
    # Of 24 devices three nodes of 8, or four of 6, which etp 4 does not divide.
    problem = read_problem_text(
        "model: {layers: 2, hidden: 64, heads: 4, ffn: 64, vocab: 96,\n"
        "  experts: {number: 24, per_token: 2, ffn: 64}}\n"
        "clusters:\n"
        "  - {name: a, accelerator: H100,\n"
        "     nodes: [8, 8, 8, 8, 8, 8, 6, 6, 6, 6, 6, 6],\n"
        "     inter_node: {bandwidth: 400 Gbps}}\n"
        "training: {global_batch: 24, seq_len: 48}\n"
    )
    table = build_table(problem)
    held = {
        strategy.etp: stages
        for strategy, stages in zip(
            table.at(1).clusters[0].strategies,
            table.at(1).clusters[0].max_stages.tolist(),
            strict=True,
        )
        if strategy.devices == 24 and strategy.tp == 2
    }
    assert (held[1], held[4]) == (3, 2)
    assert list(table_findings(problem, table)) == []
