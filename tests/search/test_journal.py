"""A search that was cut off goes on from its journal, to the same answer."""

from __future__ import annotations

import json
import re
import resource
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.errors import InputError
from hetopt.planning.posed import search
from hetopt.results.spending import Spending
from hetopt.solvers.certificate.claim import certify
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.search.branchings.schedules import ScheduleVariant
from hetopt.solvers.search.over import Over
from tests.oracle.instances import Instance, make_instance
from tests.search.composing import drawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.results.result import Objective, Result

#: Seeds of instances whose races ask the engine several times.
SEEDS = (3, 12, 21)
#: One whose leaves under both schedules of ``NESTED`` have (p, q) to settle.
TELLING = 20
#: Searches that branch.
NESTED = {
    "schedules": Over(
        schedules=(ScheduleVariant(schedule="1f1b"), ScheduleVariant(schedule="gpipe"))
    ),
    "fleets": Over(spending=Spending(budget=14.0), measure="cost"),
    "pipelines": Over(pipelines=2),
    "fleets of pipelines": Over(spending=Spending(budget=14.0), pipelines=2),
}


def run(
    instance: Instance,
    path: Path | None,
    top: int = 1,
    *,
    solver: str = "cp-sat",
    objective: Objective = "closed",
    over: Over | None = None,
    limit_s: float | None = None,
) -> Result:
    journal = None if path is None else str(path)
    request = Request(
        problem=instance.problem,
        table=instance.table,
        params=RaceParams(jobs=0, top=top, journal=journal),
        deadline=Deadline.after(limit_s),
    )
    return search(request, solver=solver, objective=objective, over=over or Over())


def untimed(journal: bytes) -> bytes:
    """Return a journal without what depends on the clock, results and half a line."""
    lines = journal[: journal.rindex(b"\n") + 1].splitlines(keepends=True)
    own = b"".join(line for line in lines if b'"result"' not in line)
    return re.sub(rb'"elapsed_s": [\d.]+', b"", own)


def answer(instance: Instance, result: Result) -> tuple[object, ...]:
    text = certify(instance.problem, instance.table, result).to_text()
    return result.status, result.best, result.alternatives, text


def ensure_prefixes_resume(
    path: Path, answered: Callable[[Path | None], object], steps: int
) -> None:
    """Fail unless searches from every prefix of a journal have the same answer."""
    expected = answered(None)
    assert answered(path) == expected
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) > 1
    for count in range(0, len(lines) + 1, max(1, len(lines) // steps)):
        half = b'{"stages": 1, "micro' if count else lines[0][:20]
        for torn in (b"", half):
            path.write_bytes(b"".join(lines[:count]) + torn)
            assert answered(path) == expected
            for line in path.read_bytes().splitlines():
                json.loads(line)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("top", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_prefix_leads_to_the_same_answer(
    seed: int, top: int, tmp_path: Path
) -> None:
    instance = make_instance(seed)
    ensure_prefixes_resume(
        tmp_path / "run.jsonl",
        lambda path: answer(instance, run(instance, path, top)),
        4,
    )


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("top", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", SEEDS)
def test_so_does_every_prefix_of_a_search_of_simulated_times(
    seed: int, top: int, tmp_path: Path
) -> None:
    instance = make_instance(seed)

    def answered(path: Path | None) -> object:
        result = run(instance, path, top, solver="dp", objective="simulated")
        return result.status, result.best, result.alternatives, result.lower_bound_s

    ensure_prefixes_resume(tmp_path / "run.jsonl", answered, 4)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("objective", ["closed", "simulated"])
@pytest.mark.parametrize(
    "name",
    [
        *("schedules", "fleets"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in list(NESTED)[2:]),
    ],
)
def test_so_does_every_prefix_of_a_search_that_branches(
    name: str, objective: Objective, tmp_path: Path
) -> None:
    problem = drawn(0)
    instance = Instance(seed=0, problem=problem, table=build_table(problem))

    def answered(path: Path | None) -> object:
        result = run(
            instance, path, solver="dp", objective=objective, over=NESTED[name]
        )
        return result.status, result.best, result.lower_bound_s, result.lower_cost

    ensure_prefixes_resume(tmp_path / "run.jsonl", answered, 4)


def test_a_leaf_that_was_cut_off_keeps_what_it_settled(tmp_path: Path) -> None:
    """Lines of (p, q) alone suffice: no engine settles them again."""
    instance = make_instance(TELLING)
    over = NESTED["schedules"]
    path = tmp_path / "run.jsonl"
    expected = run(instance, path, over=over)
    lines = path.read_text().splitlines(keepends=True)
    kept = [line for line in lines if "result" not in json.loads(line)]
    assert any("stages" in json.loads(line) for line in kept)
    path.write_text("".join(kept))
    again = run(instance, path, over=over)
    assert (again.best, again.status) == (expected.best, expected.status)
    added = path.read_text().splitlines()[len(kept) :]
    assert not [line for line in added if "stages" in json.loads(line)]


def test_several_plans_have_the_first_one_that_is_looked_for_late(
    tmp_path: Path,
) -> None:
    """Programs are refuted with it as one of several, by slices that follow."""
    instance = make_instance(TELLING)
    path = tmp_path / "run.jsonl"
    found = run(instance, path, 3, solver="dp", limit_s=1e-9)
    assert found.best is not None
    assert found.status == "feasible"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sum("decision" in line for line in lines) == 1


def test_what_is_settled_is_not_searched_again(tmp_path: Path) -> None:
    instance = make_instance(SEEDS[0])
    path = tmp_path / "run.jsonl"
    run(instance, path)
    before = path.read_bytes()
    run(instance, path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"schema": "hetopt-journal/9"}', "schema"),
        ("[]", "not a line of a journal"),
        ("not json", "not a line of a journal"),
        ("", "not a line of a journal"),
        ('{"schema": "hetopt-journal/1"}', "schema is 'hetopt-journal/1'"),
    ],
)
def test_what_is_no_journal_is_refused(tmp_path: Path, line: str, says: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(InputError, match=says) as caught:
        run(make_instance(SEEDS[0]), path)
    assert (caught.value.file, caught.value.line) == (str(path), 1)
    assert path.read_text() == line + "\n"


def test_the_journal_of_another_race_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run(make_instance(SEEDS[0]), path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="problem_digest"):
        run(make_instance(SEEDS[1]), path)
    with pytest.raises(InputError, match="top"):
        run(make_instance(SEEDS[0]), path, top=3)
    with pytest.raises(InputError, match="over"):
        run(make_instance(SEEDS[0]), path, over=NESTED["pipelines"])
    assert path.read_bytes() == before


def ensure_refused(path: Path, change: Callable[[Any], None], why: str) -> None:
    """Fail unless a journal with a changed plan is refused, naming its line."""
    instance = make_instance(SEEDS[0])
    run(instance, path)
    lines = path.read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if "decision" in line)
    entry = json.loads(lines[number])
    change(entry)
    lines[number] = json.dumps(entry)
    # Without the result of its search.
    path.write_text("\n".join(lines[:-1]) + "\n")
    with pytest.raises(InputError, match=why) as caught:
        run(instance, path)
    assert caught.value.line == number + 1


def test_a_plan_of_another_value_is_refused(tmp_path: Path) -> None:
    def lower(entry: Any) -> None:
        entry["value"] -= 1

    ensure_refused(tmp_path / "run.jsonl", lower, "but the line says")


def test_a_plan_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    def move(entry: Any) -> None:
        entry["decision"]["units"][0] += 1

    ensure_refused(tmp_path / "run.jsonl", move, "is not a line of a journal")


@pytest.mark.parametrize("over", [Over(), NESTED["schedules"]])
def test_a_result_that_does_not_hold_is_refused(tmp_path: Path, over: Over) -> None:
    instance = make_instance(TELLING)
    path = tmp_path / "run.jsonl"
    run(instance, path, over=over)
    lines = path.read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if '"status": "optimal"' in line)
    entry = json.loads(lines[number])
    entry["result"]["iteration_time_s"] *= 0.9
    lines[number] = json.dumps(entry)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match="a result in it is wrong"):
        run(instance, path, over=over)


def with_zero_3(cluster: ClusterTable) -> ClusterTable:
    strategies = tuple(replace(each, zero=3) for each in cluster.strategies)
    return replace(cluster, strategies=strategies)


def test_plans_of_every_zero_stage_are_kept(tmp_path: Path) -> None:
    """Strategies of equal degrees may differ in what their ranks keep."""
    instance = make_instance(SEEDS[0])
    table = instance.table
    sharded = [
        replace(part, clusters=tuple(map(with_zero_3, part.clusters)))
        for part in table.slices
    ]
    instance = replace(instance, table=replace(table, slices=tuple(sharded)))
    path = tmp_path / "run.jsonl"
    expected = run(instance, path, solver="dp")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if '"result"' not in line))
    assert run(instance, path, solver="dp").best == expected.best


@pytest.mark.parametrize(
    ("place", "message"),
    [("", "is a directory"), ("missing/run.jsonl", "cannot be opened")],
)
def test_a_journal_that_cannot_be_opened_is_refused(
    tmp_path: Path, place: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        run(make_instance(SEEDS[0]), tmp_path / place)


def test_a_full_disk_ends_the_journal_and_not_the_race(tmp_path: Path) -> None:
    instance = make_instance(SEEDS[0])
    path = tmp_path / "run.jsonl"
    expected = answer(instance, run(instance, path))
    whole = path.read_bytes()
    path.unlink()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 3, before[1]))
    try:
        result = run(instance, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert answer(instance, result) == expected
    assert "cannot be written" in str(result.journal_failure)
    # What there is, is good, and a later race goes on from it.
    assert untimed(whole).startswith(untimed(path.read_bytes()))
    assert answer(instance, run(instance, path)) == expected
    assert untimed(path.read_bytes()) == untimed(whole)


def test_lines_say_how_far_the_search_was(tmp_path: Path) -> None:
    instance = make_instance(SEEDS[0])
    path = tmp_path / "run.jsonl"
    result = run(instance, path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    timed = [line for line in lines if "elapsed_s" in line]
    times = [line["elapsed_s"] for line in timed]
    assert times == sorted(times)
    for line in timed:
        assert line["lower_bound_s"] <= line["incumbent_s"]
    assert result.best is not None
    assert lines[-1]["incumbent_s"] == pytest.approx(result.best.closed_form_s)
    # A later run adds its own time to that of the first.
    first, *kept = lines[:-1]
    late = [{**x, "elapsed_s": 1000.0} if "elapsed_s" in x else x for x in kept]
    path.write_text("".join(json.dumps(line) + "\n" for line in (first, *late)))
    run(instance, path)
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["elapsed_s"] >= 1000
