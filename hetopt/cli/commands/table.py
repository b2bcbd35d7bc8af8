"""Write every coefficient a solver reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.words import counted
from hetopt.cli.flag import writes
from hetopt.cli.flags import BLOCKS, CHUNKS, PROBLEM, SCHEDULE
from hetopt.cli.inputs import load_problem, schedule_of
from hetopt.cli.output import emit
from hetopt.cli.paths import ensure_files

if TYPE_CHECKING:
    import argparse


#: What this command takes.
TAKES = (
    PROBLEM,
    SCHEDULE,
    BLOCKS,
    CHUNKS,
    writes("--out", "where to write it (default: standard output)"),
)


def run(options: argparse.Namespace) -> int:
    """Build the table and write it as JSON."""
    import json

    from hetopt.cost.build import build_table
    from hetopt.cost.table_file.file import table_to_json, write_table

    ensure_files(options)
    table = build_table(
        load_problem(
            options.problem, schedule_of(options), options.chunks, lengths=True
        )
    )
    if options.out is None:
        emit(json.dumps(table_to_json(table)))
        return 0
    write_table(table, options.out)
    strategies = sum(
        len(cluster.strategies) for part in table.slices for cluster in part.clusters
    )
    emit(
        f"wrote {options.out}: {counted(len(table.slices), 'micro-batch count')}, "
        f"{counted(strategies, 'strategy', 'ies')}"
    )
    return 0
