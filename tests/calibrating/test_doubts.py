from __future__ import annotations

from hetopt.calibrating.doubts import doubts
from hetopt.calibrating.factors import Factor
from hetopt.plans.plan import Plan
from hetopt.problem.calibration import NO_CALIBRATION
from tests.calibrating.making import plan_of_one, problem_of_one, run_of

COMPUTING = (Factor("efficiency", "a"),)


def said(*plans: Plan, corrected: tuple[Factor, ...] = COMPUTING) -> str | None:
    runs = [run_of(problem_of_one(), 1.0, plan) for plan in plans]
    return doubts(runs, NO_CALIBRATION, corrected)


def test_one_run_of_tp_8_and_batch_1_tells_little() -> None:
    text = said(plan_of_one(tp=8, microbatches=32))
    assert text is not None
    assert text.startswith("this run cannot tell computing on a (")
    assert "% of the time) and links inside nodes (" in text
    assert "% of the time) apart, has only" in text
    assert ", has only micro-batches of one sequence per replica and has tp 8" in text
    assert text.endswith(
        ": add a run with another tp and a larger micro-batch (--also)"
    )


def test_one_run_that_only_computes_tells_how_fast() -> None:
    plan = plan_of_one(tp=1, microbatches=2)
    assert said(plan) is None
    # But not how fast the links are.
    text = said(plan, corrected=(Factor("intra_node"),))
    assert text is not None
    assert "cannot tell computing on a (" in text


def test_several_runs_tell_by_their_tp() -> None:
    tall, flat = plan_of_one(tp=8, microbatches=16), plan_of_one(tp=1, microbatches=2)
    every = (*COMPUTING, Factor("intra_node"), Factor("bandwidth"))
    assert said(tall, flat, corrected=every) is None
    alike = said(tall, plan_of_one(tp=8, microbatches=8), corrected=every)
    assert alike is not None
    assert alike.startswith("these runs cannot tell computing on a (")
    assert "have tp 8 in every stage: add a run with another tp (--also)" in alike
