"""CP-SAT's searches end when somebody asks them to."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest
from ortools.sat.python import cp_model

from hetopt.solvers.cp_sat import run


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
    solver, model = endless()
    began = time.monotonic()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(solver, model)
    assert time.monotonic() - began < 10


def test_a_search_ends_when_it_is_told_to() -> None:
    began = time.monotonic()
    asked = iter([False, True])
    assert run(*endless(), stop=lambda: next(asked, True)) == "UNKNOWN"
    assert time.monotonic() - began < 10
