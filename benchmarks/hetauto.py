"""Plan HetAuto's three experiments, and its published plan of the third.

Run with ``python -m benchmarks.hetauto``; every search runs in a process of its own,
as a user would start it. Search times depend on the machine, all other values do not.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, NamedTuple

PROBLEMS = ("hetauto-exp1", "hetauto-exp2", "hetauto-exp3", "hetauto-exp3-published")
TIME_LIMIT_S = 900

HEADER = (
    "| problem | status | closed form s | simulated s | tokens/s | MFU | gap "
    "| (p, q) | refuted by bound | search s |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


class Outcome(NamedTuple):
    """One problem's result file."""

    problem: str
    result: dict[str, Any]

    def row(self) -> str:
        """Return the outcome as a row of the table."""
        found = self.result
        settled = found["settled"]
        if found["plan"] is None:
            return f"| {self.problem} | {found['status']} |" + " |" * 8
        cells = (
            self.problem,
            found["status"],
            f"{found['closed_form_s']:.4f}",
            f"{found['iteration_time_s']:.4f}",
            f"{found['tokens_per_s']:,.0f}",
            f"{found['mfu']:.1%}",
            f"{found['gap']:.1e}",
            str(sum(settled.values())),
            str(settled.get("refuted-by-bound", 0)),
            f"{found['search_time_s']:.1f}",
        )
        return f"| {' | '.join(cells)} |"


def plan(problem: str) -> Outcome:
    """Plan one problem with the command line."""
    command = [sys.executable, "-m", "hetopt", "plan", problem, "--json"]
    command += ["--objective", "closed"]
    done = subprocess.run(
        [*command, "--time-limit", str(TIME_LIMIT_S)],
        stdout=subprocess.PIPE,
        check=False,
        text=True,
    )
    return Outcome(problem=problem, result=json.loads(done.stdout))


def main() -> None:
    """Plan every problem and print one table."""
    print(f"{os.cpu_count()} cores, all times modelled\n\n{HEADER}", flush=True)
    for problem in PROBLEMS:
        print(plan(problem).row(), flush=True)


if __name__ == "__main__":
    main()
