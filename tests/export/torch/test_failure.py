"""A rank that ends leaves no thread behind that could abort it."""

from __future__ import annotations

import threading
import time
from typing import Self

from hetopt.export.torch.program.failure import Watch


class SlowStore:
    """A store that nobody has failed in, and that takes its time to say so."""

    def __init__(self) -> None:
        self.asked = threading.Event()

    def clone(self) -> Self:
        return self

    def check(self, keys: list[str]) -> bool:
        self.asked.set()
        time.sleep(0.3)
        return not keys


def test_no_thread_outlives_a_rank_that_succeeds() -> None:
    before = threading.active_count()
    store = SlowStore()
    with Watch(store, "rank 0"):
        assert store.asked.wait(10)
    assert threading.active_count() == before
