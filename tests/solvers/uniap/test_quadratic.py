"""UniAP's program with its products against brute force over P and S."""

from __future__ import annotations

from importlib.util import find_spec
from random import Random

import pytest

from hetopt.base.deadline import Deadline
from hetopt.formulations.uniap.choice import price
from hetopt.solvers.mip.backends import Backend, HighsBackend, RunOptions, ScipBackend
from tests.solvers.graphs import SHAPES, brute_force, generated
from tests.solvers.uniap.quadratic import UniapQuadratic

BACKENDS = [
    pytest.param(HighsBackend, id="linearised"),
    pytest.param(
        ScipBackend,
        id="scip",
        marks=pytest.mark.skipif(
            find_spec("pyscipopt") is None, reason="PySCIPOpt is not installed"
        ),
    ),
]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_agrees_with_brute_force(backend: type[Backend], shape: str) -> None:
    random = Random(f"quadratic {shape}")
    for _ in range(10):
        program = generated(random, shape)
        expected = brute_force(program)
        form = UniapQuadratic(program)
        how = RunOptions(
            seed=0,
            found=lambda: None,
            stop=lambda: False,
            deadline=Deadline(),
        )
        outcome = backend().solve(form.model, how)
        if expected is None:
            assert outcome.verdict == "infeasible"
            continue
        assert outcome.verdict == "optimal"
        assert outcome.objective == pytest.approx(expected / form.time_unit_ns)
        choice = form.extract()
        assert price(program, choice).total_ns == expected
