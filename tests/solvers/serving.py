"""A task runner for the pool's tests, importable by spawned workers."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def make(payload: Any, shared: Any, say: Callable[[Any], None]) -> Callable[[Any], Any]:
    locks = []

    def run(task: tuple[str, Any]) -> Any:
        verb, content = task
        if verb == "double":
            say("working")
            return 2 * content
        if verb == "payload":
            return payload
        if verb == "wait for shared":
            while shared.value != content:
                time.sleep(0.01)
            return shared.value
        if verb == "lock and sleep":
            locks.append(multiprocessing.Lock())
            say("locked")
            time.sleep(60)
        if verb == "speak and die":
            say("last words")
            time.sleep(0.2)
            os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError(verb)

    return run
