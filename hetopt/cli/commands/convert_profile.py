"""Turn a profile of Metis or Sailor into one of hetopt's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.cli.inputs import load_problem
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_outputs
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse

SOURCES = ("metis", "sailor")


def add_arguments(command: argparse.ArgumentParser) -> None:
    """Add this command's options."""
    command.add_argument(
        "source", metavar="SRC", help="Metis's directory, or Sailor's JSON file"
    )
    command.add_argument(
        "--from",
        dest="form",
        required=True,
        choices=SOURCES,
        help="whose profile it is",
    )
    command.add_argument(
        "--problem",
        required=True,
        metavar="PROBLEM",
        help="a problem whose model, sequence length and precision were measured",
    )
    command.add_argument(
        "--accelerator",
        required=True,
        metavar="NAME",
        help="what was measured: a name from `hetopt catalog`, or free text",
    )
    command.add_argument(
        "--device",
        metavar="NAME",
        help="what SRC calls it; needed where SRC has several",
    )
    command.add_argument(
        "--model",
        metavar="NAME",
        help="what Sailor's file calls the model; needed where it has several",
    )
    command.add_argument(
        "--communication",
        choices=("included", "excluded"),
        help="whether times at tp > 1 include tensor-parallel communication, or hetopt "
        "is to add it (default: included for metis; sailor's have to be told)",
    )
    command.add_argument(
        "--out", required=True, metavar="FILE", help="the profile to write"
    )


def run(options: argparse.Namespace) -> int:
    """Convert, write, and say what was assumed."""
    from hetopt.cost.profiles.file import write_profile
    from hetopt.cost.profiles.foreign import Target
    from hetopt.cost.profiles.metis import read_metis
    from hetopt.cost.profiles.sailor import read_sailor

    if not options.accelerator.strip():
        msg = "is empty, expected the name of what was measured"
        raise InputError(msg, field="--accelerator")
    if options.form == "metis" and options.model is not None:
        msg = "is for Sailor's files: Metis's do not name their model"
        raise InputError(msg, field="--model")
    ensure_outputs((options.out,), (options.source,), problems=(options.problem,))
    problem = load_problem(options.problem)
    target = Target(
        model=problem.model,
        training=problem.training,
        accelerator=options.accelerator,
        communication=options.communication,
    )
    if options.form == "metis":
        profile = read_metis(options.source, target, options.device)
    else:
        profile = read_sailor(options.source, target, options.model, options.device)
    write_profile(options.out, profile)
    emit(f"wrote {options.out}: {len(profile.rows)} rows")
    emit(f"assumed: {profile.header['notes']}")
    return 0
