"""What a worker that verifies certificates does about the end of its time."""

from __future__ import annotations

import time

import pytest

from hetopt.check.verify.tasks import BoundsTask, Verified, make
from tests.check.verify.descending import verified
from tests.oracle.instances import make_instance


@pytest.mark.parametrize(("left_s", "runs"), [(None, 1), (60.0, 1), (0.0, 0)])
def test_no_task_begins_after_the_end(
    left_s: float | None, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    def run(task: BoundsTask, _of: Verified) -> dict[int, tuple[()]]:
        begun.append(task.microbatches)
        return {}

    monkeypatch.setattr(BoundsTask, "run", run)
    end = None if left_s is None else time.monotonic() + left_s
    of = verified(make_instance(0), end)
    found = make([of], None, print)((0, BoundsTask(2, {1: 1})))
    assert found == ({} if runs else None)
    assert len(begun) == runs
