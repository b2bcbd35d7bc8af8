"""The first rank to fail prints why; then all ranks exit."""

from __future__ import annotations

import os
import sys
import threading
import time
import traceback
from types import TracebackType
from typing import Any, Self


class Refused(Exception):
    """Why a rank cannot start; its one line says all, without a traceback."""


#: Where the first rank to fail stores its message.
KEY = "hetopt/failed"

#: Seconds between two looks for it.
POLL_S = 0.5


class Watch:
    """Ends this rank if it or another fails; only the first to fail prints its error.

    A rank that dies breaks the connections of its peers, whose errors would hide the
    first one. So a failing rank writes its message to the store that all ranks share
    before it exits; ranks that fail later find it there, and ranks that wait for a dead
    peer look for it every half second.

    Parameters
    ----------
    store
        The ranks' key-value store.
    name
        This rank's name in messages.
    """

    def __init__(self, store: Any, name: str) -> None:
        self.store, self.name = store, name
        self.over = threading.Event()

    def __enter__(self) -> Self:
        self.looker = threading.Thread(target=self._look, daemon=True)
        self.looker.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over.set()
        if error is None or isinstance(error, SystemExit):
            # A thread that comes back from PyTorch's C++ while the interpreter ends
            # aborts the rank.
            self.looker.join()
            return
        if isinstance(error, KeyboardInterrupt):
            os._exit(130)
        known = isinstance(error, Refused)
        reason = str(error) if known else f"{type(error).__name__}: {error}"
        message = f"{self.name}: {reason}"
        if self._is_first(message):
            print(message, file=sys.stderr, flush=True)
            if not known:
                traceback.print_exception(kind, error, trace)
            # Let the message through before torchrun ends the other ranks.
            sys.stderr.flush()
            time.sleep(2 * POLL_S)
        os._exit(1)

    def _is_first(self, message: str) -> bool:
        """Store a message; return whether no other rank had stored one."""
        try:
            found = self.store.compare_set(KEY, "", message).decode()
        except Exception:
            # Without a store this rank cannot know of another, so it prints.
            return True
        return bool(found == message)

    def _look(self) -> None:
        store = self.store.clone()
        while not self.over.wait(POLL_S):
            try:
                failed = store.check([KEY])
            except Exception:
                return
            if failed and not self.over.is_set():
                first = store.get(KEY).decode().partition(":")[0]
                print(f"{self.name} ends: {first} failed", file=sys.stderr, flush=True)
                os._exit(1)
