from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from hetopt.cost.build import build_table
from hetopt.cost.sources.accuracy import accuracies, latency_notes
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.operator_source import OperatorSource
from hetopt.plans.plan import Pipeline, Plan, Stage
from hetopt.plans.strategy import Strategy
from hetopt.problem.catalogue import accelerators, software
from hetopt.problem.model.experts import Experts
from tests.cost.making import make_cluster, make_problem
from tests.cost.sources.test_operator_source import operators

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.problem.problem import Problem


@dataclass(frozen=True)
class Timed:
    plan: Plan
    iteration_time_s: float


def timed(seconds: float, *clusters: str) -> Timed:
    stages = tuple(
        Stage(
            cluster=name,
            first_unit=number,
            end_unit=number + 1,
            strategy=Strategy(dp=1, cp=1, tp=1),
            warmup=1,
            resharding=None,
        )
        for number, name in enumerate(clusters)
    )
    plan = Plan(
        schedule="1f1b",
        pipelines=(Pipeline(microbatches=1, stages=stages),),
        problem_digest="",
        table_digest="",
    )
    return Timed(plan, seconds)


def problem_of(*names: str) -> Problem:
    return make_problem(tuple(make_cluster(name, name) for name in names))


def test_each_cluster_used_says_what_was_borrowed_and_how_far_off_it_is() -> None:
    problem = problem_of("A100-80GB", "H20-96GB", "B200", "H2-Chip-A")
    notes = latency_notes(problem, timed(1.0, "A100-80GB", "H20-96GB", "H2-Chip-A"))
    assert len(notes) == 2
    known = accelerators()["A100-80GB"].accuracy
    assert notes[0] == (
        "A100-80GB: the sum of measured operators; attention as on A100-PCIe-80GB; "
        f"{known}"
    )
    assert "multiplications, element-wise kernels as on H100" in notes[1]
    assert notes[1].endswith("no published iteration to compare with")


def test_grouped_multiplications_are_named_where_there_are_experts() -> None:
    dense = problem_of("H100")
    experts = Experts(number=8, per_token=2, ffn=1024)
    routed = replace(dense, model=replace(dense.model, experts=experts))
    for problem, said in ((dense, False), (routed, True)):
        (note,) = latency_notes(problem, timed(1.0, "H100"))
        assert ("grouped multiplications" in note) == said


def attention_of_h100(kind: str) -> str:
    """Return an operators file with attention alone."""
    rows = [
        f"{op},bf16,,,,,,{batch},2048,8,8,128,128,,{1000 * batch * part}"
        for op, part in (("sdp_fwd", 1), ("sdp_bwd", 2.5))
        for batch in (1, 2, 4)
    ]
    return (
        f"# schema: hetopt-operators/1\n# device: H100\n# kind: {kind}\n"
        "# source: a test\n# licence: none\n"
        "op,dtype,m,k,n,groups,layout,batch,seq,heads,kv_heads,qk_dim,v_dim,bytes,"
        "time_us\n" + "\n".join(rows) + "\n"
    )


def test_what_a_user_measured_is_taken_as_it_is(tmp_path: Path) -> None:
    """H100's share of attention, and its errors, are of B200's kernels."""
    path = tmp_path / "mine.csv"
    path.write_text(attention_of_h100("measured"))
    problem = replace(problem_of("H100"), latency={"H100": str(path)})
    source = latency_sources(problem).by_cluster["H100"]
    assert isinstance(source, OperatorSource)
    known = accelerators()["H100"].sustained
    reached = source.reached(problem.model, problem.training)
    assert reached.sustained == replace(known, attention=1.0)
    assert known.attention < 0.5
    (note,) = latency_notes(problem, timed(1.0, "H100"))
    assert "the sum of measured operators; " in note
    assert f"attention as in {path}; " in note
    assert note.endswith("no published iteration to compare with")


def test_modelled_operators_do_not_pass_for_measured(tmp_path: Path) -> None:
    """Neither where all of a model's are modelled, nor where attention alone is."""
    path = tmp_path / "mine.csv"
    problem = replace(problem_of("H100"), latency={"H100": str(path)})
    every = operators().replace("kind: measured", "kind: modelled")
    for text, kind, known, said in (
        (
            attention_of_h100("modelled"),
            "modelled",
            "measured and modelled",
            "modelled",
        ),
        (every, "modelled", "modelled", "modelled"),
        (attention_of_h100("published"), "operators", "measured", "published"),
    ):
        path.write_text(text)
        assert build_table(problem).sources == (kind,)
        (note,) = latency_notes(problem, timed(1.0, "H100"))
        assert note.startswith(f"H100: the sum of {known} operators; ")
        assert f" as in {path} ({said}); " in note


@pytest.mark.parametrize(
    ("next_s", "said"),
    [
        (1.01, "1.0% slower, within that error"),
        (1.5, "50.0% slower, beyond that error"),
        # The best in closed form need not be the best in simulation.
        (0.99, "1.0% faster, simulated, within that error"),
    ],
)
def test_the_next_best_plan_is_held_against_the_error(next_s: float, said: str) -> None:
    found = latency_notes(
        problem_of("A100-80GB"), timed(1.0, "A100-80GB"), [timed(next_s, "A100-80GB")]
    )
    assert found[-1] == f"the next best plan is {said}"


def test_the_roofline_has_nothing_to_say() -> None:
    problem = replace(problem_of("A100-80GB"), latency={"A100-80GB": "roofline"})
    assert latency_notes(problem, timed(1.0, "A100-80GB")) == []


def test_every_cluster_used_has_its_errors_or_none() -> None:
    names = ("H2-Chip-A", "A100-80GB", "H20-96GB")
    found = accuracies(problem_of("B200", *names), timed(1.0, *names).plan)
    known = accelerators()["A100-80GB"].accuracy
    assert known is not None
    assert found == {"H2-Chip-A": None, "A100-80GB": known, "H20-96GB": None}


def test_what_is_not_known_of_software_is_said() -> None:
    problem = problem_of("H100")
    named = replace(
        problem.training,
        software=software()["mindspeed"],
        overlap_tensor=True,
    )
    (note,) = latency_notes(replace(problem, training=named), timed(1.0, "H100"))
    assert "nothing is known of mindspeed there with dense models in bf16" in note
    assert "overlap_tensor gains there is not known" in note
    assert note.endswith("no published iteration that the fit had not seen")
    known = replace(named, software=software()["torchtitan"])
    (note,) = latency_notes(replace(problem, training=known), timed(1.0, "H100"))
    assert "under torchtitan: " in note
    assert "not known" not in note
