"""The report of ``hetopt forest evaluate``, as rows, lines and plain data."""

from __future__ import annotations

import csv
import io
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.cost.forests.judging import FOREST, METHODS
from hetopt.cost.sources.features import PASSES, SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from hetopt.cost.forests.judging import Score
    from hetopt.cost.profiles.file import Profile
    from hetopt.cost.sources.evaluation import Evaluation

EVALUATION_SCHEMA = "hetopt-forest-evaluation/2"

SCORE_COLUMNS = (
    "split",
    "method",
    "judged",
    "MAPE",
    "median error",
    "p95 error",
    "Spearman",
)
UNIT_COLUMNS = ("unit and pass", *SCORE_COLUMNS[2:])

PREDICTION_COLUMNS = (
    "split",
    "unit",
    "pass",
    "gated",
    "dtype",
    "hidden",
    "heads",
    "kv_heads",
    "head_dim",
    "ffn",
    "vocab",
    "cp",
    "tp",
    "microbatch",
    "seq_len",
    "measured_s",
    "spread_s",
    *(f"{name}_s" for name in METHODS),
    "low_s",
    "high_s",
)

#: Columns of a prediction that come from the profile's row.
_OF_ROW = PREDICTION_COLUMNS[3:15]


def score_rows(scores: Iterable[Score]) -> list[tuple[str, ...]]:
    """Return the table of splits and methods."""
    return [(score.split, score.method, *_figures(score)) for score in scores]


def unit_rows(scores: Iterable[Score]) -> list[tuple[str, ...]]:
    """Return the table of units and passes."""
    return [(score.method, *_figures(score)) for score in scores]


def lines(profile: Profile, evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return label and text of the lines below the tables."""
    shards = len(evaluation.rows)
    found = [
        (
            "profile",
            f"{profile.header['accelerator']}, {profile.header['kind']}, "
            f"{counted(shards, 'shard')} timed, "
            f"{len(profile.rows) - shards} out of memory",
        ),
        (
            "forest",
            f"{counted(SETTINGS.trees, 'tree')} per unit and pass, which correct a "
            "roofline",
        ),
        ("repeat noise", noise_text(evaluation)),
        ("roofline", "the one that the trees correct, fitted to the same shards"),
        ("neighbour", "the roofline with the correction of the nearest shard"),
        ("verdict", verdict(evaluation)),
    ]
    if evaluation.skipped:
        text = f"{', '.join(evaluation.skipped)}: the profile has one value only"
        found.append(("not judged", text))
    return found


def noise_text(evaluation: Evaluation) -> str:
    """Return the repeat noise in words."""
    noise = evaluation.noise
    if noise is None:
        return "unknown: the profile has no spreads"
    return (
        f"interquartile range / median: {_share(noise.median)} in the median, "
        f"{_share(noise.mean)} on average, {_share(noise.p95)} at p95"
    )


def verdict(evaluation: Evaluation) -> str:
    """Return in words how far off the forest is, and which baselines are as good.

    How far off is its mean error on the split of unseen shapes where it is largest.
    """
    worse = []
    for split in evaluation.judged:
        forest = evaluation.score(split).mape
        better = [
            f"{name} {_share(evaluation.score(split, name).mape)}"
            for name in METHODS
            if name != FOREST and evaluation.score(split, name).mape <= forest
        ]
        if better:
            worse.append(f"{split} ({_share(forest)}; {', '.join(better)})")
    off, where = max(
        (evaluation.score(split).mape, split) for split in evaluation.judged
    )
    compared = "better than both baselines on every split"
    if worse:
        compared = f"a baseline is at least as good on: {'; '.join(worse)}"
    return (
        f"{_share(off)} off on unseen shapes (the mean of {where}, the worst split): "
        f"plans closer than that are not told apart; {compared}"
    )


def evaluation_data(
    file: str, profile: Profile, evaluation: Evaluation
) -> dict[str, Any]:
    """Return everything except the single predictions, as JSON data."""
    return {
        "schema": EVALUATION_SCHEMA,
        "profile": file,
        "header": dict(profile.header),
        "settings": asdict(SETTINGS),
        "shards": len(evaluation.rows),
        "noise": None if evaluation.noise is None else asdict(evaluation.noise),
        "scores": [asdict(score) for score in evaluation.scores],
        "unit_scores": [asdict(score) for score in evaluation.unit_scores],
        "skipped": list(evaluation.skipped),
        "verdict": verdict(evaluation),
    }


def scores_csv(scores: Iterable[Score]) -> str:
    """Return scores as CSV; errors are shares."""
    rows = [asdict(score) for score in scores]
    return _csv(tuple(rows[0]), (row.values() for row in rows))


def predictions_csv(evaluation: Evaluation) -> str:
    """Return every prediction with its measurement, as CSV."""
    rows = []
    for split, judged in evaluation.judged.items():
        for number, index in enumerate(judged.index.tolist()):
            pass_, of_row = divmod(index, len(evaluation.rows))
            row = evaluation.rows[of_row]
            rows.append(
                (
                    split,
                    row.unit,
                    PASSES[pass_],
                    *(getattr(row, name) for name in _OF_ROW),
                    float(judged.measured_s[number]),
                    (row.forward_spread_s, row.backward_spread_s)[pass_],
                    *judged.predicted_s[:, number].tolist(),
                )
            )
    return _csv(PREDICTION_COLUMNS, rows)


def _figures(score: Score) -> tuple[str, ...]:
    return (
        str(score.judged),
        _share(score.mape),
        _share(score.median_error),
        _share(score.p95_error),
        "-" if score.spearman is None else f"{score.spearman:.3f}",
    )


def _share(value: float) -> str:
    return f"{value:.1%}"


def _csv(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow(int(cell) if isinstance(cell, bool) else cell for cell in row)
    return text.getvalue()
