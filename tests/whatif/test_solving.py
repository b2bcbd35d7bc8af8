"""Variants together: each once, here or in workers, and what is known at Ctrl-C."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetopt.errors import InputError
from hetopt.planning.asked import Search
from hetopt.problem.reading import read_problem_text
from hetopt.results.result import Result
from hetopt.whatif import solving
from hetopt.whatif.solving import Answer, Solving, solve
from hetopt.whatif.variants import Variant
from tests.cli.conftest import SMALL
from tests.whatif.workers import deadly

BASE = read_problem_text(SMALL)
ONCE = Search(problem=BASE, time="closed", jobs=1)


def variants(*batches: int) -> list[Variant]:
    """Return the problem with these global batches."""
    return [
        Variant(
            change=f"batch {batch}",
            problem=replace(BASE, training=replace(BASE.training, global_batch=batch)),
        )
        for batch in batches
    ]


def time_s(answer: Answer) -> float:
    assert answer.result is not None
    assert answer.result.best is not None
    return answer.result.best.closed_form_s


def alone(variant: Variant) -> float:
    assert variant.problem is not None
    return time_s(solve(replace(ONCE, problem=variant.problem)))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the batches that this process is asked to solve, as it goes."""
    asked: list[int] = []

    def counting(search: Search) -> Answer:
        asked.append(search.problem.training.global_batch)
        return solve(search)

    monkeypatch.setattr(solving, "solve", counting)
    return asked


def test_equal_problems_are_solved_once(counted: list[int]) -> None:
    lines: list[str] = []
    asked = variants(4, 8, 4, 8)
    found = Solving(asked, ONCE, lines.append).answers()
    assert counted == [4, 8]
    assert lines == ["1 of 2 searched", "2 of 2 searched"]
    assert found[0] is found[2]
    assert found[1] is found[3]
    assert [time_s(each) for each in found[:2]] == [alone(each) for each in asked[:2]]


def test_profiles_of_one_name_are_not_one_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def noting(search: Search) -> Answer:
        asked.append(search.problem.latency["fast"])
        return Answer(result=None, failure="noted")

    monkeypatch.setattr(solving, "solve", noting)
    paths = ["/one/p.csv", "/two/p.csv", "/one/p.csv"]
    problems = [replace(BASE, latency={**BASE.latency, "fast": path}) for path in paths]
    many = [Variant(change="profile", problem=problem) for problem in problems]
    Solving(many, ONCE, lambda line: None).answers()
    assert asked == paths[:2]


@pytest.mark.slow
def test_workers_find_the_same(
    monkeypatch: pytest.MonkeyPatch, counted: list[int]
) -> None:
    # As if searches took long.
    monkeypatch.setattr(solving, "_STARTING_S", -1.0)
    asked = variants(4, 8, 16)
    found = Solving(asked, replace(ONCE, jobs=2), lambda line: None).answers()
    assert counted == [4]
    assert [time_s(each) for each in found] == [alone(each) for each in asked]


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_variant_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(solving, "_make", deadly)
    asked = variants(4, 8, 16)
    many = Solving(asked, replace(ONCE, jobs=None), lambda line: None)
    many._solve_apart(2)
    first, died, last = many.answers()
    assert (time_s(first), time_s(last)) == (alone(asked[0]), alone(asked[2]))
    assert died.result is None
    assert "its process died" in str(died.failure)


def test_what_was_not_reached_before_ctrl_c_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def second_is_stopped(search: Search) -> Answer:
        answer = solve(search)
        result = answer.result
        assert isinstance(result, Result)
        stopped = search.problem.training.global_batch == 8
        return replace(answer, result=replace(result, interrupted=stopped))

    monkeypatch.setattr(solving, "solve", second_is_stopped)
    many = Solving(variants(4, 8, 16), ONCE, lambda line: None)
    first, second, third = many.answers()
    assert many.interrupted
    assert time_s(first) < time_s(second)
    assert third.result is None
    assert third.failure == "not searched: interrupted"


def test_ctrl_c_while_workers_search(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = variants(4, 8, 16)
    many = Solving(asked, replace(ONCE, jobs=2), lambda line: interrupt())
    done: list[int] = []

    def interrupt() -> None:
        done.append(1)
        raise KeyboardInterrupt

    many._solve_apart(1)
    found = many.answers()
    assert many.interrupted
    assert len(done) == 1
    assert [each.result is None for each in found] == [False, True, True]
    assert time_s(found[0]) == alone(asked[0])


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_a_solver_does_not_take_says_why(
    jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if jobs > 1:
        monkeypatch.setattr(solving, "_STARTING_S", -1.0)
    # uniap plans for one cluster, with GPipe.
    training = replace(BASE.training, schedule="gpipe")
    one = replace(BASE, clusters=BASE.clusters[:1], training=training)
    asked = [Variant(change="one", problem=one), *variants(4, 8)]
    found = Solving(asked, replace(ONCE, solver="uniap", jobs=jobs), lambda line: None)
    first, second, third = found.answers()
    assert first.result is not None
    assert "UniAP plans for one" in str(second.failure)
    assert (second.result, third.failure) == (None, second.failure)


def test_a_first_problem_that_cannot_be_planned_is_an_error() -> None:
    many = Solving(variants(4, 8), replace(ONCE, solver="uniap"), lambda line: None)
    with pytest.raises(InputError, match="UniAP plans for one"):
        many.answers()


def test_a_variant_that_is_no_problem_keeps_its_reason() -> None:
    asked = [*variants(4), Variant(change="x", problem=None, failure="pins")]
    found = Solving(asked, ONCE, lambda line: None).answers()
    assert found[1] == Answer(result=None, failure="pins")
