"""CP-SAT's searches end when somebody asks them to."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from ortools.sat.python import cp_model

from hetopt.solvers.cp_sat import run
from tests.processes import heed


def endless() -> tuple[cp_model.CpSolver, cp_model.CpModel]:
    """Return a solver, and a model that it would search for hours."""
    model = cp_model.CpModel()
    sits = [[model.new_bool_var("") for _ in range(15)] for _ in range(16)]
    for row in sits:
        model.add_bool_or(row)
    for hole in zip(*sits, strict=True):
        for i, one in enumerate(hole):
            for other in hole[:i]:
                model.add_bool_or(~one, ~other)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.catch_sigint_signal = False
    solver.parameters.cp_model_presolve = False
    solver.parameters.symmetry_level = 0
    solver.parameters.linearization_level = 0
    solver.parameters.max_time_in_seconds = 60
    return solver, model


def test_a_signal_ends_a_search_at_once() -> None:
    # In a process of its own: signals are of the main thread, where tests may not be.
    program = (
        "import os, signal, threading\n"
        "from tests.solvers.test_cp_sat import endless, run\n"
        "stop = (os.getpid(), signal.SIGINT)\n"
        "threading.Timer(0.3, os.kill, stop).start()\n"
        "try: run(*endless())\n"
        "except KeyboardInterrupt: print('stopped')\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parents[2],
        preexec_fn=heed,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert ended.stdout == "stopped\n"


def test_a_search_ends_when_it_is_told_to() -> None:
    began = time.monotonic()
    asked = iter([False, True])
    assert run(*endless(), stop=lambda: next(asked, True)) == "UNKNOWN"
    assert time.monotonic() - began < 10
