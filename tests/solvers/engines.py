"""Engines that misbehave, for spawned workers to import."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.solvers.cp_sat import CpSatEngine
from hetopt.solvers.race.engine import Answer, EngineRun

if TYPE_CHECKING:
    from hetopt.formulations.program import ProgramData

#: Environment variable: a folder where a death leaves a mark.
MARKS = "HETOPT_TEST_MARKS"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DiesOnce(CpSatEngine):
    """Kills its process the first time it sees each number of stages."""

    def settle(self, data: ProgramData, how: EngineRun) -> Answer:
        mark = Path(os.environ[MARKS]) / f"{data.stages}-{data.part.microbatches}"
        if not mark.exists():
            mark.touch()
            die()
        return super().settle(data, how)


class DiesOnTwoStages(CpSatEngine):
    """Kills its process whenever it sees p = 2."""

    def settle(self, data: ProgramData, how: EngineRun) -> Answer:
        if data.stages == 2:
            die()
        return super().settle(data, how)


class Raises(CpSatEngine):
    """Fails on every program."""

    def settle(self, data: ProgramData, how: EngineRun) -> Answer:
        msg = "no licence"
        raise RuntimeError(msg)


class Impatient(CpSatEngine):
    """Gives up at once where it is given a time limit."""

    def settle(self, data: ProgramData, how: EngineRun) -> Answer:
        if how.deadline.limit_s is not None:
            bound = data.objective_min
            return Answer(verdict="stopped", bound=bound, decision=None)
        return super().settle(data, how)
