"""What the checker says of a strategy's degrees, experts' above all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.check.plan.rules import mesh_findings
from hetopt.plans import Strategy
from hetopt.problem.experts import Experts
from hetopt.problem.problem import Problem
from hetopt.problem.training import ClusterPins, Domain, Pins
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
        (MIXTURE, (8, 1, 1, 1, 8), "with tp 1 and etp 8 inside each, all that"),
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
