"""README's mixed fleet: a picture of its best plan, and what each launcher costs.

    python -m benchmarks.mixed_fleet [--out FOLDER]

The commands of README make the problem, as they stand there. It is planned without a
launcher's limits, and that plan is simulated and drawn (``mixed_fleet.svg``); then with
``hetopt plan --for`` each launcher that has limits, with the problem's schedule or the
launcher's own and with the best of its schedules (``mixed_fleet.md``).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hetopt
from hetopt.base.files import write_text
from hetopt.export.registry import SHIPPED
from tests.docs.pages import blocks_of

RESULTS = Path(__file__).parent / "results"
HEADER = """\
# README's mixed fleet (`python -m benchmarks.mixed_fleet`)

The best plan of each launcher, proven in simulated time, with its closed form: under
the problem's schedule, or the launcher's own if it does not run that, and with the best
of all schedules that the launcher runs. Prices are over the best plan of any launcher,
likewise. All times are sums of measured operators; nothing was launched.

| launcher | schedules | the plan's | closed form | price | simulated | price |
| --- | --- | --- | --: | --: | --: | --: |
"""


def main(arguments: list[str] | None = None) -> int:
    """Write the picture and the table, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", metavar="FOLDER", type=Path, default=RESULTS)
    out = parser.parse_args(arguments).out.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _run_readme(folder)
        _hetopt(folder, "plan", "problem.yaml", "--out", "best.json")
        picture = str(out / "mixed_fleet.svg")
        _hetopt(folder, "simulate", "problem.yaml", "best.json", "--svg", picture)
        rows = [
            _row(folder, launcher, schedules)
            for launcher, limited in SHIPPED.items()
            if limited
            for schedules in ("own", "best")
        ]
    text = HEADER + "".join(rows)
    print(text, end="")
    write_text(str(out / "mixed_fleet.md"), text)
    return 0


def _run_readme(folder: Path) -> None:
    """Write README's files, and run its commands up to the plan."""
    for block in blocks_of("README.md"):
        if block.file is not None:
            (folder / block.file).write_text(block.text)
        elif "> problem.yaml" in block.text:
            making, _, _ = block.text.partition("hetopt plan ")
            command = f'hetopt() {{ "{sys.executable}" -m hetopt "$@"; }}\n'
            _succeed(folder, ["sh", "-euc", command + making])


def _row(folder: Path, launcher: str, schedules: str) -> str:
    options = ["--schedule", "auto"] if schedules == "best" else []
    _hetopt(
        folder, "plan", "problem.yaml", "--for", launcher, *options, "--out", "for.json"
    )
    answer = json.loads((folder / "for.json").read_text())
    if answer["status"] != "optimal":
        raise RuntimeError(f"{launcher}: {answer['status']}, expected optimal")
    cells = [launcher, schedules, answer["plan"]["schedule"]]
    for time in ("closed_form_s", "iteration_time_s"):
        price = answer[time] / answer["launch"][time] - 1
        cells += [f"{answer[time]:.3f} s", f"{price:+.1%}"]
    return f"| {' | '.join(cells)} |\n"


def _hetopt(folder: Path, *arguments: str) -> None:
    _succeed(folder, [sys.executable, "-m", "hetopt", *arguments])


def _succeed(folder: Path, command: list[str]) -> None:
    assert hetopt.__file__ is not None
    package = str(Path(hetopt.__file__).parents[1])
    subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": package},
        stdout=subprocess.DEVNULL,
        check=True,
    )


if __name__ == "__main__":
    sys.exit(main())
