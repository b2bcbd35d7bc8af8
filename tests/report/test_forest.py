"""Words, tables and pictures of an evaluation."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

import numpy as np
import pytest

from hetopt.cost.forests.judging import Judged
from hetopt.cost.profiles.file import Profile
from hetopt.cost.sources.evaluation import Evaluation, evaluate
from hetopt.report.drawing import plots
from hetopt.report.forest import (
    PREDICTION_COLUMNS,
    noise_text,
    predictions_csv,
    score_rows,
    verdict,
)
from tests.cost.profiling import make_profile

TIMED = make_profile(("layer",), microbatch=(1,))
NO_TIMES = dict.fromkeys(
    ("forward_s", "backward_s", "forward_spread_s", "backward_spread_s")
)
#: The first row ran out of memory.
PROFILE = Profile(
    header=TIMED.header,
    rows=(
        replace(TIMED.rows[0], **NO_TIMES, status="oom"),  # type: ignore[arg-type]
        *TIMED.rows,
    ),
)


@pytest.fixture(scope="module")
def evaluation() -> Evaluation:
    return evaluate(PROFILE)


def test_a_skipped_split_has_no_row(evaluation: Evaluation) -> None:
    assert evaluation.skipped == ("larger batch",)
    assert len(score_rows(evaluation.scores)) == 4 * 3


def off(forest: float, roofline: float, neighbour: float) -> Judged:
    """Return what was judged of one sample, by the errors of each method."""
    times = [[1 + error] for error in (forest, roofline, neighbour, 0, 0)]
    return Judged(
        index=np.array([0]),
        names=np.array(["layer forward"]),
        measured_s=np.ones(1),
        predicted_s=np.array(times),
    )


def test_the_verdict_names_what_a_baseline_does_better(evaluation: Evaluation) -> None:
    found = verdict(replace(evaluation, judged={"80/20": off(0.1, 0.0, 0.2)}))
    assert found.endswith(
        "; a baseline is at least as good on: 80/20 (10.0%; roofline 0.0%)"
    )


def test_the_verdict_says_how_far_off_the_forest_is(evaluation: Evaluation) -> None:
    """By the split of unseen shapes where its mean error is largest."""
    judged = {"80/20": off(0.05, 0.9, 0.9), "unseen hidden": off(0.214, 0.9, 0.9)}
    assert verdict(replace(evaluation, judged=judged)) == (
        "21.4% off on unseen shapes (the mean of unseen hidden, the worst split): "
        "plans closer than that are not told apart; better than both baselines on "
        "every split"
    )


def test_unknown_noise(evaluation: Evaluation) -> None:
    assert "2.7% in the median" in noise_text(evaluation)
    assert noise_text(replace(evaluation, noise=None)).startswith("unknown")


def test_predictions_name_the_rows_they_are_for(evaluation: Evaluation) -> None:
    rows = list(csv.DictReader(io.StringIO(predictions_csv(evaluation))))
    assert tuple(rows[0]) == PREDICTION_COLUMNS
    times = {
        (row.hidden, row.seq_len, row.cp, row.tp): row.forward_s for row in TIMED.rows
    }
    for row in rows:
        if row["pass"] == "forward":
            key = tuple(int(row[name]) for name in ("hidden", "seq_len", "cp", "tp"))
            assert float(row["measured_s"]) == times[key]  # type: ignore[index]


@pytest.mark.slow
def test_pictures_are_the_same_every_time(evaluation: Evaluation) -> None:
    pictures = []
    for _ in range(2):
        figure = plots.predicted_versus_measured(evaluation, "a made-up device")
        pictures.append((plots.png(figure), plots.svg(figure)))
    assert pictures[0] == pictures[1]
    png, svg = pictures[0]
    assert png.startswith(b"\x89PNG")
    for text in (b"unseen hidden", b"measured, ms", b"a made-up device"):
        assert text in svg
