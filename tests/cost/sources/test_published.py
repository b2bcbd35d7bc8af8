"""The roofline against published iterations: benchmarks/published.py holds them."""

from __future__ import annotations

import sys
from dataclasses import replace
from statistics import mean

import pytest

from benchmarks.published import (
    HETAUTO,
    LIMITS,
    MEAN_LIMITS,
    STRATEGY_LIMIT,
    Figure,
    best_single_stage,
    calibrated,
    figures,
    main,
)
from hetopt.cost.sources.roofline import Roofline
from hetopt.problem.catalogue import accelerators

FIGURES = figures()


def by_source() -> dict[str, list[float]]:
    errors: dict[str, list[float]] = {}
    for figure in FIGURES:
        errors.setdefault(figure.source, []).append(abs(figure.error()))
    return errors


def test_every_figure_is_within_its_limit() -> None:
    errors = by_source()
    assert {source: len(sizes) for source, sizes in errors.items()} == {
        "HetAuto, Table 1": 3,
        "Korthikanti et al., Table 5": 4,
        "H2, Table 6": 3,
    }
    for source, sizes in errors.items():
        assert max(sizes) <= LIMITS[source]
        assert mean(sizes) <= MEAN_LIMITS.get(source, LIMITS[source])


@pytest.mark.parametrize(
    "figure",
    [figure for figure in FIGURES if figure.source == HETAUTO],
    ids=lambda figure: figure.name,
)
def test_published_strategies_are_near_our_best(figure: Figure) -> None:
    best, strategy, _ = best_single_stage(figure.problem)
    assert best <= figure.seconds(Roofline()) <= (1 + STRATEGY_LIMIT) * best
    assert strategy.devices == 16


def test_what_ships_is_what_the_figures_give() -> None:
    fitted = calibrated(FIGURES)
    for efficiency in {figure.efficiency for figure in FIGURES}:
        assert efficiency == fitted[efficiency]


def test_unseen_devices_take_the_mean_of_the_seen() -> None:
    h20, ascend, a100 = (
        accelerators()[name].roofline
        for name in ("H20-141GB", "Ascend-A2-64GB", "A100-80GB")
    )
    fitted = calibrated([each for each in FIGURES if each.efficiency in (h20, ascend)])
    expected = (fitted[h20].sustained + fitted[ascend].sustained) / 2
    assert fitted[a100].sustained == pytest.approx(expected)


def test_interleaving_shortens_what_is_filled_and_drained() -> None:
    figure = next(figure for figure in FIGURES if figure.chunks == 3)
    plain, two = replace(figure, chunks=1), replace(figure, chunks=2)
    assert plain.seconds() > two.seconds() > figure.seconds()


def test_embedding_and_loss_count_as_layers_where_layers_do_not_divide() -> None:
    figure = next(figure for figure in FIGURES if figure.chunks == 3)
    layers = len(figure.problem.model.units) - 2
    parts = figure.stages * 3
    assert not layers % parts
    assert figure.ends[0] == 1 + layers // parts
    uneven = replace(figure, chunks=layers // figure.stages + 1)
    parts = uneven.stages * uneven.chunks
    assert uneven.remainder == (layers + 2) % parts
    assert uneven.ends[-1] == layers + 2


def test_slower_devices_take_longer() -> None:
    for figure in FIGURES:
        efficiency = figure.efficiency
        slower = replace(efficiency, sustained=efficiency.sustained / 2)
        assert figure.error(slower) > figure.error()


@pytest.mark.slow
def test_prints_the_comparison_and_both_halves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["published"])
    main()
    text = capsys.readouterr().out
    assert "| 530B | 49.05 |" in text
    assert "missed" not in text
    monkeypatch.setattr(sys, "argv", ["published", "--half"])
    main()
    assert capsys.readouterr().out.count("Calibrated on") == 2
