"""Convert another planner's measurements.

Metis and Sailor measured layers, which become a profile of layers; vidur and SimuMax
single kernels, which become operators. A problem's ``latency:`` names either.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cli.flag import Flag, writes
from hetopt.cli.inputs import load_problem
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_files
from hetopt.errors import InputError

if TYPE_CHECKING:
    import argparse

LAYERS = ("metis", "sailor")
OPERATORS = ("vidur", "simumax")

#: Options that only some source formats take.
_ONLY_FOR = {
    "problem": LAYERS,
    "device": LAYERS,
    "communication": LAYERS,
    "model": ("sailor", "vidur"),
    "licence": OPERATORS,
    "peak_flops": ("vidur",),
    "memory_bandwidth": ("vidur",),
}
#: The header's licence unless the user gives one.
_NO_LICENCE = "not stated: the source's licence applies"


def _rate(name: str, what: str) -> Flag:
    text = f"{what}; needed for vidur's operators of a device that is not in `hetopt "
    return Flag(name, f"{text}catalog`", "RATE")


#: What this command takes.
TAKES = (
    Flag(
        "source",
        "Metis's directory, Sailor's or SimuMax's JSON file, or vidur's directory of a "
        "device (data/profiling/compute/a100)",
        "SRC",
        role="reads",
    ),
    Flag(
        "--from",
        f"whose profile it is: {', '.join((*LAYERS, *OPERATORS))}",
        "PLANNER",
        dest="form",
        required=True,
        choices=(*LAYERS, *OPERATORS),
    ),
    Flag(
        "--problem",
        "a problem whose model, sequence length and precision were measured; needed "
        "for layers (metis, sailor)",
        "PROBLEM",
        role="problem",
    ),
    Flag(
        "--accelerator",
        "what was measured: a name from `hetopt catalog`, or free text",
        "NAME",
        required=True,
    ),
    Flag("--device", "what SRC calls it; needed where SRC has several", "NAME"),
    Flag(
        "--model",
        "what Sailor's file calls the model, needed where it has several; of vidur the "
        "models to convert, between commas (default: all)",
        "NAME",
    ),
    Flag(
        "--communication",
        "whether times at tp > 1 include tensor-parallel communication, or hetopt is "
        "to add it (default: included for metis; sailor's have to be told)",
        choices=("included", "excluded"),
    ),
    Flag(
        "--licence",
        "under which the operators may be used, for the file's header",
        "TEXT",
    ),
    _rate("--peak-flops", "dense 16-bit rate, such as '312 TFLOPS'"),
    _rate("--memory-bandwidth", "such as '1600 GB/s'"),
    writes("--out", "the profile to write", required=True),
)


def run(options: argparse.Namespace) -> int:
    """Convert, write, and print what was assumed."""
    if not options.accelerator.strip():
        msg = "is empty, expected the name of what was measured"
        raise InputError(msg, field="--accelerator")
    for name, forms in _ONLY_FOR.items():
        if getattr(options, name) is not None and options.form not in forms:
            option = f"--{name.replace('_', '-')}"
            msg = f"is for --from {' or '.join(forms)}, not for {options.form}"
            raise InputError(msg, field=option)
    ensure_files(options)
    convert = _convert_operators if options.form in OPERATORS else _convert_layers
    rows, notes = convert(options)
    emit(f"wrote {options.out}: {counted(rows, 'row')}")
    emit(f"assumed: {notes}")
    return 0


def _convert_layers(options: argparse.Namespace) -> tuple[int, str]:
    """Write a profile of layers; return its number of rows and its notes."""
    from hetopt.cost.profiles.file import write_profile
    from hetopt.cost.profiles.foreign import Target
    from hetopt.cost.profiles.metis import read_metis
    from hetopt.cost.profiles.sailor import read_sailor

    if options.problem is None:
        msg = f"is needed: the file of {options.form} does not say what was measured"
        raise InputError(msg, field="--problem")
    problem = load_problem(options.problem, divided=False)
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
    return len(profile.rows), profile.header["notes"]


def _convert_operators(options: argparse.Namespace) -> tuple[int, str]:
    """Write operators; return their number and the notes."""
    from hetopt.cost.operators.file import OPERATORS_SCHEMA, write_operators
    from hetopt.cost.operators.simumax import NOTES as SIMUMAX_NOTES
    from hetopt.cost.operators.simumax import read_simumax
    from hetopt.cost.operators.vidur import NOTES as VIDUR_NOTES
    from hetopt.cost.operators.vidur import read_vidur
    from hetopt.problem.catalogue import accelerators

    name = Path(options.source).name
    if options.form == "vidur":
        models = None if options.model is None else options.model.split(",")
        rates = _rates(options, known=options.accelerator in accelerators())
        rows = read_vidur(options.source, models)
        source, notes = f"vidur, {name}: medians", VIDUR_NOTES
    else:
        rows, rates = read_simumax(options.source)
        if options.accelerator in accelerators():
            rates = {}
        source, notes = f"SimuMax, {name}", SIMUMAX_NOTES
    header = {
        "schema": OPERATORS_SCHEMA,
        "accelerator": options.accelerator,
        "kind": "measured",
        "source": source,
        "licence": options.licence or _NO_LICENCE,
        **rates,
        "notes": notes,
    }
    write_operators(options.out, header, rows)
    return len(rows), notes


def _rates(options: argparse.Namespace, *, known: bool) -> dict[str, str]:
    """Return the header's rates, which a device that is not known needs."""
    from hetopt.problem.quantity import parse_bandwidth, parse_flops

    found = {}
    for name, parse in (
        ("peak_flops", parse_flops),
        ("memory_bandwidth", parse_bandwidth),
    ):
        field, text = f"--{name.replace('_', '-')}", getattr(options, name)
        if known == (text is not None):
            why, is_ = ("has no effect", "is") if known else ("is needed", "is not")
            msg = f"{why}: {options.accelerator!r} {is_} in `hetopt catalog`"
            raise InputError(msg, field=field)
        if text is None:
            continue
        try:
            parse(text)
        except ValueError as error:
            raise InputError(str(error), field=field) from error
        found[name] = text
    return found
