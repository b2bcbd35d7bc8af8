"""A race that was cut off goes on from its journal, to the same answer."""

from __future__ import annotations

import json
import re
import resource
from pathlib import Path

import pytest

from hetopt.errors import InputError
from hetopt.results.result import Result
from hetopt.solvers.certificate.claim import certify
from hetopt.solvers.cp_sat import solve
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle.instances import Instance, make_instance

#: Seeds of instances whose races ask the engine several times.
SEEDS = (3, 12, 21)


def run(instance: Instance, path: Path | None, top: int = 1) -> Result:
    journal = None if path is None else str(path)
    return solve(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0, top=top, journal=journal),
        )
    )


def untimed(journal: bytes) -> bytes:
    """Return a journal without what depends on the clock, nor half a line."""
    lines = journal[: journal.rindex(b"\n") + 1]
    return re.sub(rb'"elapsed_s": [\d.]+', b"", lines)


def answer(instance: Instance, result: Result) -> tuple[object, ...]:
    text = certify(instance.problem, instance.table, result).to_text()
    return result.status, result.best, result.alternatives, text


@pytest.mark.parametrize("top", [1, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("seed", SEEDS)
def test_every_prefix_leads_to_the_same_answer(
    seed: int, top: int, tmp_path: Path
) -> None:
    instance = make_instance(seed)
    expected = answer(instance, run(instance, None, top))
    path = tmp_path / "run.jsonl"
    assert answer(instance, run(instance, path, top)) == expected
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    assert len(lines) > 1
    for count in range(0, len(lines) + 1, max(1, len(lines) // 4)):
        half = b'{"stages": 1, "micro' if count else lines[0][:20]
        for torn in (b"", half):
            path.write_bytes(b"".join(lines[:count]) + torn)
            assert answer(instance, run(instance, path, top)) == expected
            for line in path.read_bytes().splitlines():
                json.loads(line)


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
    assert path.read_bytes() == before


def test_a_plan_of_another_value_is_refused(tmp_path: Path) -> None:
    instance = make_instance(SEEDS[0])
    path = tmp_path / "run.jsonl"
    run(instance, path)
    lines = path.read_text().splitlines()
    number = next(n for n, line in enumerate(lines) if "decision" in line)
    entry = json.loads(lines[number])
    entry["value"] -= 1
    lines[number] = json.dumps(entry)
    path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match="but the line says") as caught:
        run(instance, path)
    assert caught.value.line == number + 1


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
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) - 40, before[1]))
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
    times = [line["elapsed_s"] for line in lines[1:]]
    assert times == sorted(times)
    for line in lines[1:]:
        assert line["lower_bound_s"] <= line["incumbent_s"]
    assert result.best is not None
    assert lines[-1]["incumbent_s"] == pytest.approx(result.best.closed_form_s)
    # A later run adds its own time to that of the first.
    first, *kept = lines[:-1]
    late = [{**line, "elapsed_s": 1000.0} for line in kept]
    path.write_text("".join(json.dumps(line) + "\n" for line in (first, *late)))
    run(instance, path)
    last = json.loads(path.read_text().splitlines()[-1])
    assert last["elapsed_s"] >= 1000
