"""Models of several kinds of layers in the ordinary programs, against brute force."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

import pytest

from hetopt.base.deadline import Deadline
from hetopt.check import check_result
from hetopt.cli import main
from hetopt.cost.build import build_table
from hetopt.cost.memory import parameter_bytes
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem, read_problem_text
from hetopt.solvers.cp_sat import solve as solve_cp_sat
from hetopt.solvers.mip.milp import solve as solve_milp
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.cost.making import model_parameters
from tests.oracle import brute_force

if TYPE_CHECKING:
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem
    from tests.oracle.brute_force import Found

T5 = """\
model:
  hidden: 512
  heads: 8
  gated: false
  norm: rms
  tied: true
  blocks:
    - {name: encoder, layers: 4, attention: bidirectional}
    - {name: decoder, layers: 3, context: encoder}
training: {global_batch: 8, seq_len: 512, recompute: none, schedule: SCHEDULE}
"""

SWIN = """\
model:
  gated: false
  attention: bidirectional
  patch: 48
  classes: 1000
  blocks:
    - {name: stage-1, layers: 1, hidden: 128, heads: 4, window: 49}
    - {name: stage-2, layers: 2, hidden: 256, heads: 8, window: 49, merge: 4}
    - {name: stage-3, layers: 4, hidden: 512, heads: 16, window: 49, merge: 4}
training: {global_batch: 16, seq_len: 3136, recompute: none, schedule: SCHEDULE}
"""

CLUSTERS = """\
clusters:
  - name: fast
    accelerator: A40
    nodes: 1
    devices_per_node: 2
    memory: 2 GB
    overhead: 0 GB
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
  - name: slow
    accelerator: A40
    intra_node: {bandwidth: 4 GB/s}
    nodes: 1
    devices_per_node: 2
    memory: 1 GB
    overhead: 0 GB
    inter_node: {bandwidth: 100 Gbps, latency: 5 us}
links:
  default: {bandwidth: 10 Gbps, latency: 50 us}
pin: {forbid: {stages: 1, clusters: {fast: {stages: 0}, slow: {stages: 0}}}}
"""

MODELS = {"t5": T5, "swin": SWIN}


@cache
def made(model: str, schedule: str) -> tuple[Problem, CostTable]:
    text = MODELS[model].replace("SCHEDULE", schedule) + CLUSTERS
    problem = read_problem_text(text, "p.yaml")
    return problem, build_table(problem)


@cache
def best_of(model: str, schedule: str) -> Found:
    best = brute_force.solve(*made(model, schedule)).best
    assert best is not None
    return best


@pytest.mark.parametrize("schedule", ["virtual-1f1b", "gpipe"])
@pytest.mark.parametrize("model", MODELS)
def test_programs_find_what_brute_force_finds(model: str, schedule: str) -> None:
    problem, table = made(model, schedule)
    best = best_of(model, schedule)
    exact = float(best.closed_form_ns * Fraction(1, 10**9))
    for result in (
        solve_cp_sat(
            Request(
                problem=problem,
                table=table,
                params=RaceParams(jobs=0),
                deadline=Deadline.after(60),
            )
        ),
        solve_milp(
            Request(
                problem=problem,
                table=table,
                params=RaceParams(jobs=0),
                deadline=Deadline.after(60),
            )
        ),
    ):
        assert result.status == "optimal"
        assert result.best is not None
        assert result.best.closed_form_s == pytest.approx(exact, rel=1e-12)
        assert result.best.plan == brute_force.to_plan(problem, table, best)
        data = json.loads(json.dumps(result.to_json()))
        assert check_result(problem, table, data) == []


@pytest.mark.parametrize("model", MODELS)
def test_these_plans_cut_between_kinds(model: str) -> None:
    """Otherwise nothing is tested here: a chain has several kinds and several cuts."""
    _, table = made(model, "gpipe")
    assert len(best_of(model, "gpipe").units) > 1
    assert sum(table.body) > 2
    assert len({table.cuts[unit] for unit in range(1, len(table.cuts) - 1)}) > 1


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
