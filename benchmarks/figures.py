"""The papers' figures, with our engine.

    python -m benchmarks.figures [--quick] [--drawing] [--out DIR] [NAME...]

Makes the counterparts of HetAuto's Fig. 1, 7, 8, 11 and 12 and of H2's Fig. 11 and
Table 8: runs the searches that they need (``campaign-*.json``), one after the other,
and writes for each figure a CSV and a picture (PNG, SVG), and for all existing ones
``figures.md``, with the values of the papers' texts. ``--drawing`` runs no search and
uses the stored campaigns. ``--quick`` is a trial and writes to ``build/figures-quick``.
"""

from __future__ import annotations

import argparse
import csv
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import figure_h2, figure_hetauto
from benchmarks.figure_drawing import DRAWN
from benchmarks.figure_runs import Campaign, campaign
from benchmarks.figure_tables import Table, markdown
from hetopt.base.files import make_folder, write_bytes, write_text
from hetopt.report.drawing import plots

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Figure -> its campaign, and the function that makes a table of it.
FIGURES: Mapping[str, tuple[str, Callable[[Campaign], Table]]] = {
    "hetauto-fig7": ("hetauto-experiments", figure_hetauto.throughput),
    "hetauto-fig8": ("hetauto-experiments", figure_hetauto.search_time),
    "hetauto-fig11": ("hetauto-32k", figure_hetauto.long_sequences),
    "hetauto-fig12": ("hetauto-weights", figure_hetauto.exploration),
    "hetauto-fig1": ("hetauto-scattered", figure_hetauto.clusters),
    "h2-fig11": ("h2", figure_h2.speedup),
    "h2-table8": ("h2", figure_h2.search_overhead),
}
OUT = Path(__file__).parent / "results" / "figures"
QUICK_OUT = Path("build") / "figures-quick"
#: Seconds per search, and number of seeds for random searches.
FULL, QUICK = (120.0, 3), (5.0, 1)

_HEAD = """\
# The papers' figures, with our engine

Made by `python -m benchmarks.figures`. HetAuto and H2 print most points of these
figures as pictures only; beside our numbers stands what their texts say. Latencies are
modelled, not measured; every plan is checked; searches ran one after the other, each in
a process of its own. `dp` is the proven optimum of one strategy per cluster.

"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the requested figures and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"of {', '.join(FIGURES)}"
    )
    parser.add_argument(
        "--quick", action="store_true", help=f"{QUICK[0]:g} s per search, one seed"
    )
    parser.add_argument("--time-limit", type=float, metavar="S", help="per search")
    parser.add_argument("--drawing", action="store_true", help="run nothing")
    parser.add_argument("--out", metavar="DIR", help="default: where these are kept")
    options = parser.parse_args(arguments)
    names = options.names or [*FIGURES]
    for name in names:
        if name not in FIGURES:
            parser.error(f"there is no figure {name!r}, expected {', '.join(FIGURES)}")
    # A quick trial must not replace figures that took an hour.
    folder = make_folder(options.out or str(QUICK_OUT if options.quick else OUT))
    limit_s, seeds = QUICK if options.quick else FULL
    if not options.drawing:
        for wanted in dict.fromkeys(FIGURES[name][0] for name in names):
            made = campaign(wanted, limit_s=options.time_limit or limit_s, seeds=seeds)
            write_text(str(_path(folder, wanted)), made.to_text())
    for name in names:
        write_figure(folder, name)
    write_text(str(folder / "figures.md"), summary(folder))
    return 0


def write_figure(folder: Path, name: str) -> None:
    """Write a figure's CSV and picture from its campaign."""
    wanted, tabulate = FIGURES[name]
    made = _read(folder, wanted)
    table = tabulate(made)
    write_text(str(folder / f"{name}.csv"), table_csv(table))
    if name in DRAWN:
        figure = DRAWN[name](table, made)
        write_bytes(str(folder / f"{name}.png"), plots.png(figure))
        write_bytes(str(folder / f"{name}.svg"), plots.svg(figure))


def table_csv(table: Table) -> str:
    """Return a table with its numbers in full."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(table.columns)
    writer.writerows(table.rows)
    return stream.getvalue()


def summary(folder: Path) -> str:
    """Return a section for every figure whose campaign is there."""
    parts = [_HEAD]
    for name, (wanted, tabulate) in FIGURES.items():
        if not (folder / f"{name}.csv").exists():
            continue
        made = _read(folder, wanted)
        pictures = [f"{name}.svg"] if name in DRAWN else []
        parts.append(markdown(tabulate(made), made, pictures))
    return "\n".join(parts)


def _path(folder: Path, wanted: str) -> Path:
    return folder / f"campaign-{wanted}.json"


def _read(folder: Path, wanted: str) -> Campaign:
    path = _path(folder, wanted)
    if not path.exists():
        raise SystemExit(f"{path}: no such file; leave out --drawing")
    return Campaign.from_text(path.read_text("utf-8"))


if __name__ == "__main__":
    sys.exit(main())
