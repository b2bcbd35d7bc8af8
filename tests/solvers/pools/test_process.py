"""The pool: notes, answers, failures, and deaths charged to the right task."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hetopt.solvers.pools.process import (
    Died,
    Done,
    Event,
    Failed,
    InlinePool,
    Note,
    Pool,
)
from tests.solvers import serving

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    made = Pool(2, serving.make, "payload")
    yield made
    made.close()


def gather(pool: Pool | InlinePool, answers: int) -> list[Event]:
    events: list[Event] = []
    while sum(not isinstance(event, Note) for event in events) < answers:
        events += pool.collect(30.0)
    return events


def test_answers_and_notes_carry_their_task(pool: Pool) -> None:
    pool.submit(1, ("double", 21))
    pool.submit(2, ("payload", None))
    assert pool.idle == 0
    with pytest.raises(RuntimeError, match="no worker is idle"):
        pool.submit(3, ("double", 1))
    events = gather(pool, 2)
    assert {Note(1, "working"), Done(1, 42), Done(2, "payload")} == set(events)
    assert pool.idle == 2


def test_a_running_task_sees_the_shared_number(pool: Pool) -> None:
    pool.submit(1, ("wait for shared", 7))
    assert pool.collect(0.2) == []
    pool.shared.value = 7
    assert gather(pool, 1) == [Done(1, 7)]


def test_what_a_task_raises_comes_back(pool: Pool) -> None:
    pool.submit(1, ("nonsense", None))
    (event,) = gather(pool, 1)
    assert isinstance(event, Failed)
    assert "ValueError: nonsense" in event.trace


def test_a_death_is_charged_to_its_task_and_the_worker_replaced() -> None:
    with closing(Pool(2, serving.make, "payload")) as pool:
        ensure_replaced(pool)


def ensure_replaced(pool: Pool) -> None:
    pool.submit(1, ("speak and die", None))
    pool.submit(2, ("double", 4))
    events = gather(pool, 2)
    assert [event for event in events if event.task == 1] == [
        Note(1, "last words"),
        Died(1),
    ]
    assert Done(2, 8) in events
    pool.submit(3, ("double", 5))
    pool.submit(4, ("double", 6))
    assert {Done(3, 10), Done(4, 12)} <= set(gather(pool, 2))


#: Ends while its worker holds a lock, as Pyomo makes one when it is imported.
LEAVES = """
from hetopt.solvers.pools.process import Pool
from tests.solvers import serving
pool = Pool(1, serving.make, "payload")
pool.submit(1, ("lock and sleep", None))
assert pool.collect(30.0)
pool.close()
"""


def test_no_locks_of_a_terminated_worker_are_left() -> None:
    """The resource tracker would complain of them on standard error."""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", LEAVES],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_inline_pool_has_the_same_face() -> None:
    pool = InlinePool(serving.make, "payload")
    assert pool.idle == 1
    pool.submit(1, ("double", 21))
    assert pool.idle == 0
    with pytest.raises(RuntimeError, match="no worker is idle"):
        pool.submit(2, ("double", 21))
    assert pool.collect(1.0) == [Note(1, "working"), Done(1, 42)]
    pool.submit(3, ("nonsense", None))
    (event,) = pool.collect(1.0)
    assert isinstance(event, Failed)
    assert "ValueError: nonsense" in event.trace
    assert pool.collect(1.0) == []
    pool.close()
