"""Searches that branch, killed and continued, and with workers."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.errors import InputError
from hetopt.planning.asked import Search
from hetopt.planning.posed import Posed
from hetopt.planning.solving import solve_for
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.results.spending import Spending
from hetopt.solvers.certificate.tree import certificate_of
from hetopt.solvers.search.over import Over
from tests.agreement.lengths import drawn as of_lengths
from tests.search.asking import ensure_holds, found, request_of
from tests.search.composing import Asked, drawn, searched

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.problem.problem import Problem
    from hetopt.results.result import Result
    from hetopt.solvers.request import Request

#: Its search branches under every question.
PROBLEM = drawn(0)


class Killed(Exception):
    """Ends a search where the system would kill it."""


def kept_in(journal: Path, asked: Asked, most: int | None = None) -> tuple[Any, int]:
    """Search with a journal, and die when ``most`` leaves have been searched.

    Returns
    -------
    The answer but for its seconds, None if the search died, and how many searches of
    leaves were begun.
    """
    begun, solve = 0, solve_for("dp", asked.time)

    def counted(request: Request) -> Result:
        nonlocal begun
        if begun == most:
            raise Killed
        begun += 1
        return solve(request)

    search = searched(PROBLEM, asked, solve=counted, journal=str(journal))
    try:
        result = search.run()
    except Killed:
        return None, begun
    ensure_holds(search.request, result)
    return without_seconds(result.to_json()), begun


def without_seconds(data: Any) -> Any:
    """Return an answer without what takes another time in each run."""
    if isinstance(data, list):
        return [without_seconds(each) for each in data]
    if not isinstance(data, dict):
        return data
    return {
        key: without_seconds(each)
        for key, each in data.items()
        if key not in ("search_time_s", "warm_up_s", "found_after_s")
    }


NESTED = [
    Asked(None, True, 1, False, "closed", 1),
    Asked("time", True, 1, True, "closed", 1),
    Asked("cost", False, 2, False, "closed", 3),
    Asked("time", False, 2, True, "simulated", 1),
]


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("asked", NESTED, ids=str)
def test_a_search_that_was_killed_is_continued(asked: Asked, tmp_path: Path) -> None:
    whole, searches = kept_in(tmp_path / "whole", asked)
    assert searches > 1
    for most in sorted({1, searches // 2, searches - 1}):
        journal = tmp_path / f"after {most}"
        assert kept_in(journal, asked, most) == (None, most)
        answer, rest = kept_in(journal, asked)
        assert answer == whole
        # Spaces of pipelines that share something may be equal: the journal has all.
        alike = asked.launcher and asked.pipelines > 1
        assert rest <= searches - most if alike else rest == searches - most


def answered(problem: Problem, journal: Path | None = None, **asked: Any) -> list[Any]:
    """Return an answer and its certificate, but for seconds."""
    kept = None if journal is None else str(journal)
    posed = Posed.of(
        Search(problem=problem, jobs=1, certified=True, journal=kept, **asked)
    )
    tree = posed.tree(posed.request())
    result = posed.found_by(tree)
    problem, table = result.problem or posed.problem, result.table or posed.table
    text = certificate_of(tree, problem, table, result)
    return [without_seconds(result.to_json()), without_seconds(json.loads(text))]


def ensure_all_prefixes_resume(
    problem: Problem, journal: Path, steps: int, known: Any = None, **asked: Any
) -> None:
    """Fail unless searches from a journal and from its beginnings answer alike.

    Parameters
    ----------
    known
        What is compared of an answer; None: all.
    """
    known = known or (lambda answer: answer)
    whole = answered(problem, **asked)
    assert answered(problem, journal, **asked) == whole
    lines = journal.read_bytes().splitlines(keepends=True)
    assert answered(problem, journal, **asked) == whole
    assert journal.read_bytes().splitlines(keepends=True) == lines
    for kept in range(1, len(lines), max(1, len(lines) // steps)):
        journal.write_bytes(b"".join(lines[:kept]))
        assert known(answered(problem, journal, **asked)) == known(whole), kept


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("time", ["closed", "simulated", None])
@pytest.mark.parametrize("launcher", ["megatron", "flagscale", "torch"])
@pytest.mark.parametrize("seed", [4, 6])
def test_what_a_launcher_runs_is_continued(
    seed: int, launcher: str, time: str | None, tmp_path: Path
) -> None:
    """From any line on the answer and its certificate are those of one search.

    With no time named there is a limit, so that first plans are looked for before.
    """
    ensure_all_prefixes_resume(
        drawn(seed), tmp_path / "journal", 100, launcher=launcher, time=time
    )


def by_any_means(data: Any) -> Any:
    """Return an answer in which it makes no difference how a program was refuted.

    A (p, q) that was searched before the best plan was known, but whose line is not
    yet in the journal, is refuted by its bound when the plan is known from the start.
    """
    if isinstance(data, list):
        return [by_any_means(each) for each in data]
    if isinstance(data, dict):
        return {key: by_any_means(data[key]) for key in data if key != "settled"}
    return "refuted" if data in ("refuted-by-bound", "refuted-by-search") else data


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "launcher", "time"),
    [
        ("a100-h100-v100", "megatron", "simulated"),
        ("hetauto-exp1-10gbps", "nemo", "closed"),
        ("hetauto-exp2-10gbps", "flagscale", "closed"),
    ],
)
def test_shipped_problems_are_continued(
    name: str, launcher: str, time: str, tmp_path: Path
) -> None:
    ensure_all_prefixes_resume(
        read_problem(name),
        tmp_path / "j",
        4,
        by_any_means,
        launcher=launcher,
        time=time,
    )


def test_lengths_on_some_of_the_nodes_are_continued(tmp_path: Path) -> None:
    """Whatever is rented, a result is of the nodes that there are."""
    problem = next(each for each in map(of_lengths, count()) if len(each.clusters) > 1)
    priced = tuple(
        replace(each, price_per_hour=each.devices) for each in problem.clusters
    )
    over = Over(spending=Spending(), measure="cost", pipelines=2, lengths=True)
    journal = str(tmp_path / "journal")
    results = [
        found(request_of(replace(problem, clusters=priced), journal=journal), over)
        for _ in range(2)
    ]
    one, other = (without_seconds(each.to_json()) for each in results)
    assert one["status"] == "optimal"
    assert one == other


def test_lengths_with_tied_embeddings_are_continued(tmp_path: Path) -> None:
    """Some nodes need the memory that they need as a part of all nodes."""
    text = """
model: {layers: 2, hidden: 512, heads: 8, ffn: 2048, vocab: 1000, tied: true}
clusters:
  - {name: a, accelerator: A40, nodes: 1, devices_per_node: 1, price_per_hour: 1,
     memory: 8 GB, inter_node: {bandwidth: 1 Gbps}}
  - {name: b, accelerator: H100, nodes: 1, devices_per_node: 1, price_per_hour: 1,
     memory: 8 GB, inter_node: {bandwidth: 1 Gbps}}
links: {default: {bandwidth: 5 Gbps, latency: 0.1 ms}}
training: {global_batch: 4, seq_len: 2048, lengths: {512: 0.5, 2048: 0.5},
           schedule: 1f1b}
"""
    over, journal = Over(spending=Spending(budget=1), lengths=True), tmp_path / "j"
    results = [
        found(request_of(read_problem_text(text), journal=str(journal)), over)
        for _ in range(2)
    ]
    one, other = (without_seconds(each.to_json()) for each in results)
    assert one == other
    # Its results are read, not taken for granted.
    lines = journal.read_text().replace('"closed_form_s": 0.0', '"closed_form_s": 0.1')
    journal.write_text(lines)
    with pytest.raises(InputError, match="a result in it is wrong"):
        found(request_of(read_problem_text(text), journal=str(journal)), over)


def test_nodes_without_memory_are_continued(tmp_path: Path) -> None:
    """No rented nodes have a table of their own, where no stage fits."""
    text = """
model: {layers: 2, hidden: 1024, heads: 2, ffn: 2048, vocab: 32000}
clusters:
  - {name: a, accelerator: H100, nodes: 1, devices_per_node: 1, price_per_hour: 1,
     memory: 0.3 GB, overhead: 0 GB, inter_node: {bandwidth: 100 Gbps}}
  - {name: b, accelerator: A40, nodes: 1, devices_per_node: 1, price_per_hour: 0,
     memory: 0.3 GB, overhead: 0 GB, inter_node: {bandwidth: 100 Gbps}}
links: {default: {bandwidth: 10 Gbps, latency: 1 ms}}
training: {global_batch: 4, seq_len: 2048, lengths: {2048: 0.5, 1024: 0.5}}
"""
    over = Over(spending=Spending(budget=8), lengths=True)
    for _ in range(2):
        request = request_of(read_problem_text(text), journal=str(tmp_path / "j"))
        assert found(request, over).status == "infeasible"


@pytest.mark.slow
@pytest.mark.usefixtures("workers_at_once")
def test_workers_come_to_the_same_conclusions() -> None:
    asked = NESTED[0]
    alone, workers = (searched(PROBLEM, asked, jobs=jobs).run() for jobs in (1, 2))
    one, other = alone.to_json(), workers.to_json()
    for key in ("status", "plan", "lower_bound_s", "over", "claims"):
        assert one[key] == other[key], key


@pytest.mark.parametrize("asked", NESTED, ids=str)
def test_short_searches_start_no_workers(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hetopt.solvers.pools.children.start", pytest.fail)
    assert searched(PROBLEM, asked, jobs=2).run().status == "optimal"


FOLDED = """
model: {layers: 8, hidden: 512, heads: 4, ffn: 1024, vocab: 32000}
clusters:
  - {name: red, accelerator: H100, memory: 1 GB, overhead: 0 GB, nodes: 2,
     devices_per_node: 1, inter_node: {bandwidth: 400 Gbps}}
  - {name: green, accelerator: V100-16GB, memory: 4 GB, overhead: 0 GB, nodes: 2,
     devices_per_node: 1, inter_node: {bandwidth: 10 Gbps}, uplink: 5 Gbps}
links: {default: {bandwidth: 100 Gbps, latency: 0 ms}}
training: {global_batch: 4, seq_len: 2048, precision: fp16, schedule: zb-v, zero: 1,
           recompute: none}
pin: {clusters: {red: {tp: 1}, green: {tp: 1}}}
"""


def test_a_search_that_started_elsewhere_is_continued(tmp_path: Path) -> None:
    journal = tmp_path / "journal"

    def plans(seed: int) -> list[Any]:
        problem, kept = read_problem_text(FOLDED), str(journal)
        asked = Search(problem=problem, jobs=1, top=4, journal=kept, seed=seed)
        posed = Posed.of(asked)
        result = posed.found_by(posed.tree(posed.request()))
        assert result.status == "optimal"
        return [each.plan for each in (result.best, *result.alternatives) if each]

    whole = plans(1)
    # As if it was killed before it returned; another seed improves another plan.
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:-1]))
    assert plans(3) == whole
