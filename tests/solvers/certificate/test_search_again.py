"""Searching again what a certificate claims, and being told to stop meanwhile."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check.verify.findings import Doubt
from hetopt.plans.strategy import Strategy
from hetopt.solvers.certificate.search_again import resolve
from hetopt.solvers.race.engine import Answer, Engine, EngineRun
from tests.oracle import plain

if TYPE_CHECKING:
    from collections.abc import Iterator


class Busy(Engine):
    """Searches until it is told to stop, where no signal reaches it."""

    def __init__(self) -> None:
        self.told = False

    def settle(self, data: Any, how: EngineRun) -> Answer:
        assert threading.current_thread() is not threading.main_thread()
        while not how.stop():
            time.sleep(0.01)
        self.told = True
        return Answer(verdict="stopped", bound=0, decision=None)

    def settle_tie(self, *_: Any) -> None:
        raise NotImplementedError


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Have Ctrl-C raise, however the tests were started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_a_search_that_minds_no_signals() -> None:
    problem = plain.problem()
    table = plain.table(problem, [Strategy(dp=2, cp=1, tp=1)])
    doubt = Doubt(
        field="programs.0",
        stages=1,
        microbatches=table.slices[0].microbatches,
        bound_ps=None,
        ranges=None,
        always=True,
    )
    engine = Busy()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        list(resolve(problem, table, [doubt], engine, deadline=Deadline()))
    timer.join()
    assert engine.told
