"""The papers' figures: campaigns survive, tables say what runs said, all is drawn."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import figures
from benchmarks.figure_drawing import DRAWN
from benchmarks.figure_h2 import CHIPS
from benchmarks.figure_runs import CAMPAIGNS, Campaign, Order, Shot, scattered
from benchmarks.figure_tables import Table
from benchmarks.figures import FIGURES
from benchmarks.rivals import Chase
from hetopt.base.deadline import Deadline
from hetopt.cost.build import build_table
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem
from hetopt.solvers.dp.solver import solve
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request


def _made(name: str) -> Campaign:
    """Return a campaign whose runs found something worse each time."""
    shots = []
    for number, order in enumerate(CAMPAIGNS[name](60.0, 2)):
        shots.append(_shot(order, 10.0 + number))
    return Campaign(name=name, machine="a machine", limit_s=60.0, shots=tuple(shots))


def _shot(order: Order, value: float) -> Shot:
    entry = order.entry
    return Shot(
        setting=order.setting,
        solver=entry.solver,
        every_cluster=entry.every_cluster,
        seed=entry.seed,
        exploration=entry.exploration,
        limit_s=entry.time_limit_s,
        status="optimal" if entry.solver == "dp" else "feasible",
        closed_form_s=value,
        iteration_time_s=value,
        tokens=1000,
        devices=10,
        lower_bound_s=value / 2,
        search_time_s=2.0,
        process_time_s=3.0,
        layout="p=1 q=1: a 1x(1,1,1)",
        trace=((0.5, value * 1.1), (1.0, value)),
        failure=None,
    )


@pytest.fixture(scope="module")
def made() -> dict[str, Campaign]:
    return {name: _made(name) for name in CAMPAIGNS}


def _table(made: dict[str, Campaign], name: str) -> Table:
    wanted, tabulate = FIGURES[name]
    return tabulate(made[wanted])


def test_campaigns_survive(made: dict[str, Campaign]) -> None:
    for campaign in made.values():
        assert Campaign.from_text(campaign.to_text()) == campaign


def test_throughput_is_over_uniform(made: dict[str, Campaign]) -> None:
    table = _table(made, "hetauto-fig7")
    over = table.columns.index("over uniform")
    by_solver = {row[1]: row[over] for row in table.rows if row[0] == "hetauto-exp1"}
    assert by_solver["uniform"] == 1
    assert by_solver["uniform, every cluster"] == pytest.approx(10 / 11)
    assert by_solver["amp"] == pytest.approx(10 / 12)
    every = table.columns.index("over uniform, every cluster")
    published = table.columns.index("published over uniform")
    rows = {row[1]: row for row in table.rows if row[0] == "hetauto-exp1"}
    assert rows["uniform, every cluster"][every] == 1
    assert rows["dp, every cluster"][every] == pytest.approx(11 / 18)
    assert rows["amp, every cluster"][published] == "about 1.1"
    assert rows["amp"][published] is None


def test_the_ratio_of_h2(made: dict[str, Campaign]) -> None:
    table = _table(made, "h2-fig11")
    row = dict(zip(table.columns, table.rows[0], strict=True))
    shot = made["h2"].of("h2-exp-a-1, c = 1", "dfs")
    assert shot is not None
    assert shot.tokens_per_s == 100
    assert row["ratio (Table 6's published throughput)"] == pytest.approx(
        100 / (256 * (CHIPS["chip-a"] + CHIPS["chip-b"] + CHIPS["chip-c"]))
    )
    assert row["published ratio"] == 0.8956


def test_a_run_without_a_plan_leaves_cells_empty(made: dict[str, Campaign]) -> None:
    for name, (wanted, tabulate) in FIGURES.items():
        campaign = made[wanted]
        shots = tuple(
            replace(
                shot,
                status="unknown",
                closed_form_s=None,
                iteration_time_s=None,
                trace=(),
            )
            if shot.solver != "dp"
            else shot
            for shot in campaign.shots
        )
        table = tabulate(replace(campaign, shots=shots))
        assert table.rows
        if name in DRAWN:
            DRAWN[name](table, replace(campaign, shots=shots))


@pytest.mark.slow
def test_files_from_kept_campaigns(made: dict[str, Campaign], tmp_path: Path) -> None:
    for name, campaign in made.items():
        (tmp_path / f"campaign-{name}.json").write_text(campaign.to_text())
    assert figures.main(["--drawing", "--out", str(tmp_path)]) == 0
    text = (tmp_path / "figures.md").read_text("utf-8")
    for name in FIGURES:
        table = _table(made, name)
        assert table.title in text
        lines = (tmp_path / f"{name}.csv").read_text("utf-8").splitlines()
        assert len(lines) == 1 + len(table.rows)
        assert (tmp_path / f"{name}.svg").exists() == (name in DRAWN)
    assert "mcts, λ = 0.1" in (tmp_path / "hetauto-fig12.svg").read_text("utf-8")


@pytest.mark.slow
def test_scattered_clusters_keep_the_published_strategy() -> None:
    base = read_problem(str(problem_files()["hetauto-table1-a100"]))
    times = []
    for count in (1, 4):
        problem = scattered(base, count, "1f1b")
        assert sum(cluster.devices for cluster in problem.clusters) == 32
        result = solve(
            Request(
                problem=problem,
                table=build_table(problem),
                params=RaceParams(jobs=0),
                deadline=Deadline.after(60),
            )
        )
        assert result.best is not None
        stages = result.best.plan.pipeline.stages
        assert {
            (stage.strategy.dp, stage.strategy.cp, stage.strategy.tp)
            for stage in stages
        } == {(2, 2, 2)}
        assert len({stage.cluster for stage in stages}) == count
        times.append(result.best.closed_form_s)
    assert times[1] > 1.1 * times[0]


def test_seeds_that_miss_count_as_the_limit() -> None:
    chase = Chase(
        problem="p",
        optimum_s=10,
        proof_s=2,
        solver="mcts",
        times_s=(1, None, 4),
        limit_s=60,
    )
    assert chase.median_s == 4
    assert chase.row().split(" | ")[4:] == ["2 of 3", "4.00", "1.00", "-", "2.00 |"]
    missed = replace(chase, times_s=(1, None, None))
    assert missed.median_s is None
    assert missed.row().endswith("| > 30.00 |")
