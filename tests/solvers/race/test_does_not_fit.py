"""Models that do not fit: the ordinary programs say so."""

from __future__ import annotations

import pytest

from hetopt.cli import main
from hetopt.cost.memory import parameter_bytes
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from tests.cost.making import model_parameters


@pytest.mark.parametrize(("name", "least_gb"), [("7b", 15.2), ("13b", 29.3)])
def test_llama_does_not_fit_envb(
    name: str, least_gb: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """States alone, sharded over all 8 devices of 12 GB, are more than a device."""
    file = str(problem_files()[f"uniap-llama-{name}"])
    problem = read_problem(file)
    size = parameter_bytes(problem.training)
    states = model_parameters(problem.model)
    states *= size.weight + size.gradient + size.optimizer
    cluster = problem.clusters[0]
    assert states / cluster.devices / 1e9 == pytest.approx(least_gb, abs=0.1)
    assert states / cluster.devices > cluster.memory_bytes
    assert main(["plan", file, "--solver", "cp-sat", "--jobs", "1"]) == 1
    assert "no feasible plan: memory:" in capsys.readouterr().err
