"""A pool that works alone before it starts workers."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.cost.build import build_table
from hetopt.problem.reading import read_problem_text
from hetopt.solvers.params import RaceParams
from hetopt.solvers.pools import growing, opening
from hetopt.solvers.pools.growing import GrowingPool
from hetopt.solvers.pools.process import Done, Note
from hetopt.solvers.race.messages import SettleTask
from hetopt.solvers.race.race import race
from hetopt.solvers.request import Request

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest


def make(payload: str, shared: Any, say: Callable[[Any], None]) -> Callable[[Any], Any]:
    """Return a task that tells what it sees, and where it runs."""

    def run(content: int) -> tuple[int, int, int]:
        say(payload)
        return content, shared.value, os.getpid()

    return run


def _answer(pool: GrowingPool, task: int) -> tuple[int, int, int]:
    pool.submit(task, 10 * task)
    events: list[Any] = []
    while not any(isinstance(event, Done) for event in events):
        events += pool.collect(1.0)
    assert Note(task, "payload") in events
    (done,) = (event for event in events if isinstance(event, Done))
    value: tuple[int, int, int] = done.value
    return value


def test_little_work_is_done_in_this_process() -> None:
    pool = GrowingPool(2, make, "payload", alone_s=60.0)
    pool.shared.value = 7
    assert pool.idle == 1
    assert pool.patience_s == 60.0
    assert [_answer(pool, task) for task in (1, 2)] == [
        (10, 7, os.getpid()),
        (20, 7, os.getpid()),
    ]
    pool.close()


def test_much_work_is_handed_to_workers_that_know_what_was_known() -> None:
    pool = GrowingPool(1, make, "payload", alone_s=0.0)
    pool.shared.value = 7
    task, process = 0, os.getpid()
    # Until the worker is ready, this process works on.
    while process == os.getpid():
        task += 1
        content, value, process = _answer(pool, task)
        assert (content, value) == (10 * task, 7)
        time.sleep(0.05)
    assert task > 1
    assert pool.patience_s is None
    pool.shared.value = 5
    assert _answer(pool, task + 1)[:2] == (10 * (task + 1), 5)
    pool.close()


def test_workers_that_are_not_needed_any_more_are_not_waited_for() -> None:
    pool = GrowingPool(2, make, "payload", alone_s=0.0)
    assert _answer(pool, 1) == (10, 0, os.getpid())
    assert pool.patience_s == growing._STARTING_S
    assert pool._coming is not None
    workers = [worker.process for worker in pool._coming._workers]
    pool.close()
    assert not any(process.is_alive() for process in workers)
    assert all(process.exitcode in (0, -signal.SIGTERM) for process in workers)


@pytest.mark.slow
def test_what_was_stopped_alone_is_settled_by_workers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also if another worker has found nothing left to do meanwhile."""
    submit = GrowingPool.submit

    def grow_late(self: GrowingPool, task: int, content: Any) -> None:
        if isinstance(content, SettleTask):
            self._alone_s = 0.0
        submit(self, task, content)

    monkeypatch.setattr(GrowingPool, "submit", grow_late)
    monkeypatch.setattr(opening, "cores", lambda: 2)
    problem = read_problem_text(
        "model: {layers: 4, hidden: 1024, heads: 8, ffn: 4096, vocab: 32000}\n"
        "clusters: [{name: a, accelerator: A40, nodes: 1, devices_per_node: 2}]\n"
        "training: {global_batch: 2, seq_len: 1024}\n"
        "pin: {stages: 2, microbatches: 2}\n"
    )
    result = race(
        Request(
            problem=problem, table=build_table(problem), params=RaceParams(jobs=None)
        ),
        solver="dp",
        engine="tests.solvers.engines:Impatient",
        quick=True,
    )
    assert result.status == "optimal"
    assert "unsettled" not in result.settled
