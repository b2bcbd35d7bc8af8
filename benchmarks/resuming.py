"""A race that is killed at random moments, its parent too, and resumed.

Run with ``python -m benchmarks.resuming [PROBLEM] [--kills 20] [--solver cp-sat]``.
Plans PROBLEM (default hetauto-exp3) once undisturbed. Then, for each kill, starts it
with a journal, kills the parent with SIGKILL at a random moment, resumes, and compares
plan and certificate with the undisturbed ones. The exit code is 1 if any differs.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def main() -> int:
    """Run the experiment; print one line per kill."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("problem", nargs="?", default="hetauto-exp3")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--solver", default="cp-sat")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    differing = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        began = time.monotonic()
        _start(folder, "whole", options, journal=False).wait()
        whole_s = time.monotonic() - began
        expected = _answer(folder, "whole")
        print(f"undisturbed: {whole_s:.1f} s")
        for kill in range(1, options.kills + 1):
            after_s = chance.uniform(0.0, whole_s)
            journal = folder / "run.jsonl"
            journal.unlink(missing_ok=True)
            process = _start(folder, "cut", options, journal=True)
            time.sleep(after_s)
            process.send_signal(signal.SIGKILL)
            process.wait()
            known = len(journal.read_text().splitlines()) if journal.exists() else 0
            began = time.monotonic()
            code = _start(folder, "resumed", options, journal=True).wait()
            again_s = time.monotonic() - began
            same = code == 0 and _answer(folder, "resumed") == expected
            differing += not same
            print(
                f"kill {kill}: after {after_s:.1f} s, {known} lines in the journal, "
                f"resumed in {again_s:.1f} s: "
                f"{'same plan and certificate' if same else 'DIFFERENT'}",
                flush=True,
            )
    return int(differing > 0)


def _start(
    folder: Path, name: str, options: argparse.Namespace, *, journal: bool
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "hetopt", "plan", options.problem]
    command += ["--solver", options.solver]
    command += ["--out", str(folder / f"{name}.json")]
    command += ["--certificate", str(folder / f"{name}.cert")]
    if journal:
        command += ["--journal", str(folder / "run.jsonl")]
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _answer(folder: Path, name: str) -> tuple[object, str]:
    plan = json.loads((folder / f"{name}.json").read_text())["plan"]
    return plan, (folder / f"{name}.cert").read_text()


if __name__ == "__main__":
    raise SystemExit(main())
