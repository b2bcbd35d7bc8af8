"""Work shared with helpers: everything is done once, whatever becomes of them."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.errors import SolverError
from hetopt.solvers.pools.work_sharing import WorkSharing

if TYPE_CHECKING:
    from collections.abc import Callable


def make(
    payload: int, shared: Any, say: Callable[[Any], None]
) -> Callable[[Any], tuple[int, int]]:
    """Return what squares, takes its time, and dies of 13 in a helper."""

    def run(task: int) -> tuple[int, int]:
        time.sleep(0.1)
        if os.getpid() != payload:
            if task == 13:
                os._exit(1)
            if task == 17:
                msg = "17"
                raise ValueError(msg)
        return task**2, os.getpid()

    return run


def test_helpers_do_some_of_the_tasks() -> None:
    with closing(WorkSharing(1, make, os.getpid(), alone_s=0.0)) as work:
        done = dict(work.perform(range(40)))
        assert {task: value for task, (value, _) in done.items()} == {
            task: task**2 for task in range(40)
        }
        assert len({process for _, process in done.values()}) == 2


def test_nobody_helps_with_what_is_quick() -> None:
    with closing(WorkSharing(1, make, os.getpid())) as work:
        done = list(work.perform(range(4)))
    assert {process for _, (_, process) in done} == {os.getpid()}


def test_the_task_of_a_dead_helper_is_done_here() -> None:
    with closing(WorkSharing(1, make, os.getpid(), alone_s=0.0)) as work:
        done = dict(work.perform([1, *range(13, 0, -1), 13]))
    assert done[13] == (169, os.getpid())


def test_what_a_helper_raises_is_an_error() -> None:
    with (
        closing(WorkSharing(1, make, os.getpid(), alone_s=0.0)) as work,
        pytest.raises(SolverError, match="17 failed:"),
    ):
        list(work.perform([1, *range(30), 17]))
