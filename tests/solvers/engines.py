"""Engines that misbehave, for spawned workers to import."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.solvers.cp_sat import CpSatEngine
from hetopt.solvers.engine import Answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hetopt.formulations.decision import Decision
    from hetopt.formulations.program import ProgramData

#: Environment variable: a folder where a death leaves a mark.
MARKS = "HETOPT_TEST_MARKS"


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class DiesOnce(CpSatEngine):
    """Kills its process the first time it sees each number of stages."""

    def settle(
        self,
        data: ProgramData,
        *,
        excluded: Sequence[Decision],
        found: Callable[[Decision], None],
        stop: Callable[[], bool],
        time_limit_s: float | None,
    ) -> Answer:
        mark = Path(os.environ[MARKS]) / f"{data.stages}-{data.part.microbatches}"
        if not mark.exists():
            mark.touch()
            die()
        return super().settle(
            data,
            excluded=excluded,
            found=found,
            stop=stop,
            time_limit_s=time_limit_s,
        )


class DiesOnTwoStages(CpSatEngine):
    """Kills its process whenever it sees p = 2."""

    def settle(
        self,
        data: ProgramData,
        *,
        excluded: Sequence[Decision],
        found: Callable[[Decision], None],
        stop: Callable[[], bool],
        time_limit_s: float | None,
    ) -> Answer:
        if data.stages == 2:
            die()
        return super().settle(
            data,
            excluded=excluded,
            found=found,
            stop=stop,
            time_limit_s=time_limit_s,
        )


class Raises(CpSatEngine):
    """Fails on every program."""

    def settle(
        self,
        data: ProgramData,
        *,
        excluded: Sequence[Decision],
        found: Callable[[Decision], None],
        stop: Callable[[], bool],
        time_limit_s: float | None,
    ) -> Answer:
        msg = "no licence"
        raise RuntimeError(msg)
