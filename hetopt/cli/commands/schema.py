"""Print JSON Schemas of what hetopt reads and writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hetopt.cli.flag import Flag
from hetopt.cli.output import emit

if TYPE_CHECKING:
    import argparse

NAMES = (
    "problem",
    "table",
    "plan",
    "result",
    "certificate",
    "certificate-tree",
    "comparison",
    "explanation",
    "simulation",
    "measured",
    "whatif",
    "front",
    "reasons",
    "replan",
)


#: What this command takes.
TAKES = (
    Flag(
        "name",
        f"one of {', '.join(NAMES)} (default: an object with all of them)",
        "NAME",
        nargs="?",
        choices=NAMES,
    ),
)


def run(options: argparse.Namespace) -> int:
    """Print one schema, or all of them by name."""
    names = NAMES if options.name is None else (options.name,)
    schemas = {name: _schema(name) for name in names}
    chosen = schemas if options.name is None else schemas[options.name]
    emit(json.dumps(chosen, indent=2))
    return 0


def _schema(name: str) -> object:
    if name == "problem":
        from hetopt.problem.schema.json_schema import problem_json_schema

        return problem_json_schema()
    from hetopt.report.schemas import SCHEMAS

    return SCHEMAS[name]
