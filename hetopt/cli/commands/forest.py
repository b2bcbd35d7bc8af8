"""Judge how a forest predicts a latency profile."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.words import suggest
from hetopt.cli.flag import Action, Flag, as_json
from hetopt.cli.output import emit, json_text
from hetopt.cli.paths import ensure_outputs
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse

    from hetopt.cost.profiles.file import Profile
    from hetopt.cost.sources.evaluation import Evaluation
    from hetopt.report.drawing.sheet import Part

#: Files in the folder ``--out``.
TEXT, SCORES, PREDICTIONS = "evaluation.txt", "scores.csv", "predictions.csv"
DATA, PLOT = "evaluation.json", "predicted-versus-measured"
FILES = (TEXT, SCORES, PREDICTIONS, DATA, f"{PLOT}.png", f"{PLOT}.svg")


#: What this command takes.
TAKES = (
    Action(
        "evaluate",
        "judge a forest on shards of a profile that it has not seen",
        (
            Flag(
                "profile",
                "a CSV file, or the name of a profile that ships with hetopt",
                "PROFILE",
            ),
            Flag(
                "--out",
                f"write {TEXT}, {SCORES}, {PREDICTIONS}, {DATA} and {PLOT}.png and "
                ".svg",
                "DIR",
            ),
            as_json("scores"),
        ),
    ),
)


def run(options: argparse.Namespace) -> int:
    """Evaluate, print the tables, and write the files."""
    from hetopt.base.files import make_folder
    from hetopt.cost.sources.evaluation import evaluate
    from hetopt.report.forest import evaluation_data
    from hetopt.report.progress import StepBar

    file, profile = _read(options.profile)
    folder = None if options.out is None else make_folder(options.out)
    if folder is not None:
        ensure_outputs((str(folder / each) for each in FILES), (options.profile,))
    with StepBar(sys.stderr, "judging forests") as bar:
        evaluation = evaluate(profile, file=file, told=bar.update)
    data = evaluation_data(Path(file).name, profile, evaluation)
    text = json_text(data)
    if options.json:
        emit(text)
    else:
        emit(_report(profile, evaluation, for_file=False))
    if folder is not None:
        _write(folder, profile, evaluation, text)
    if folder is not None and not options.json:
        emit(
            f"wrote {folder}/{TEXT}, {SCORES}, {PREDICTIONS}, {DATA}, {PLOT}.png, .svg"
        )
    return 0


def _read(name: str) -> tuple[str, Profile]:
    """Read a profile by path, or by the name of one that ships with hetopt."""
    from hetopt.cost.profiles.file import parse_profile, read_profile
    from hetopt.problem.catalogue import profile_files

    shipped = profile_files()
    if Path(name).exists():
        return name, read_profile(name)
    if name not in shipped:
        hint = suggest(name, shipped) or " (see `hetopt catalog`)"
        msg = f"no such file, and no profile of this name ships with hetopt{hint}"
        raise InputError(msg, file=name)
    return name, parse_profile(shipped[name].read_text("utf-8-sig"), name)


def _report(profile: Profile, evaluation: Evaluation, *, for_file: bool) -> str:
    from hetopt.report import forest
    from hetopt.report.drawing.console import draw
    from hetopt.report.drawing.sheet import labelled, sheet

    parts: list[Part] = [
        sheet(
            forest.SCORE_COLUMNS,
            forest.score_rows(evaluation.scores),
            left=forest.SCORE_COLUMNS[:2],
        ),
        "",
        sheet(
            forest.UNIT_COLUMNS,
            forest.unit_rows(evaluation.unit_scores),
            left=forest.UNIT_COLUMNS[:1],
        ),
        "",
    ]
    parts.append(labelled(forest.lines(profile, evaluation)))
    return draw(parts, None if for_file else sys.stdout)


def _write(folder: Path, profile: Profile, evaluation: Evaluation, data: str) -> None:
    from hetopt.base.files import write_bytes, write_text
    from hetopt.report import forest
    from hetopt.report.drawing import plots

    text = _report(profile, evaluation, for_file=True)
    write_text(str(folder / TEXT), text)
    write_text(str(folder / DATA), data + "\n")
    scores = (*evaluation.scores, *evaluation.unit_scores)
    write_text(str(folder / SCORES), forest.scores_csv(scores))
    write_text(str(folder / PREDICTIONS), forest.predictions_csv(evaluation))
    title = f"{profile.header['accelerator']} ({profile.header['kind']})"
    figure = plots.predicted_versus_measured(evaluation, title)
    write_bytes(str(folder / f"{PLOT}.png"), plots.png(figure))
    write_bytes(str(folder / f"{PLOT}.svg"), plots.svg(figure))
