"""Whether two versions of hetopt make the same plans.

    python -m benchmarks.same_plans make NEW.json
    python -m benchmarks.same_plans make OLD.json --tree FOLDER
    python -m benchmarks.same_plans compare OLD.json NEW.json

``make`` plans all shipped problems and 200 random ones with the hetopt of a source tree
(this one by default), using only its command line, and writes the results without
versions, digests and search times. It resumes an existing file. ``compare`` names each
problem whose plans differ in any byte; problems that one version did not settle in time
are not compared, only counted.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.growing import Size, document

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
DRAWN = 200
#: All random problems are settled in far less time.
LIMIT_S = 600.0
SCHEDULES = ("1f1b", "eager-1f1b", "virtual-1f1b", "h-1f1b", "gpipe")
#: Keys of a result that do not depend on how it was found.
KEPT = ("status", "closed_form_s", "iteration_time_s", "plan")
#: Statuses of a search that ran out of time.
UNSETTLED = ("feasible", "unknown")


def drawn(seed: int) -> dict[str, Any]:
    """Return a small problem as the content of its YAML file."""
    draw = random.Random(seed)
    size = Size(
        clusters=draw.randint(1, 3),
        devices=draw.choice((16, 24, 32)),
        layers=draw.randint(3, 12),
    )
    problem = document(size, seed)
    problem["name"] = f"drawn-{seed:03}"
    problem["model"]["tied"] = draw.random() < 0.3
    problem["training"] |= {
        "global_batch": draw.choice((8, 12, 16, 32)),
        "seq_len": draw.choice((2048, 4096, 16384)),
        "schedule": draw.choice(SCHEDULES),
        "recompute": draw.choice(("auto", "none", "full")),
    }
    if draw.random() < 0.3:
        problem["pin"] = {"stages": draw.randint(1, 4)}
    return problem


def problems(tree: Path, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield name and file of the random problems, then of those that a tree ships."""
    for seed in range(DRAWN):
        path = folder / f"drawn-{seed:03}.yaml"
        # JSON is YAML, too.
        path.write_text(json.dumps(drawn(seed)), "utf-8")
        yield path.stem, path
    for path in sorted((tree / "data" / "problems").glob("*.yaml")):
        yield path.stem, path


def found(tree: Path, problem: Path, limit_s: float) -> dict[str, Any]:
    """Return the result of a tree's hetopt for a problem, or its error message."""
    command = [sys.executable, "-m", "hetopt", "plan", str(problem), "--json"]
    # In one process: for a small problem workers would take longer to start.
    command += ["--jobs", "1", "--time-limit", f"{limit_s:g}"]
    done = subprocess.run(
        command, cwd=tree, capture_output=True, text=True, check=False
    )
    try:
        result = json.loads(done.stdout)
    except json.JSONDecodeError:
        return {"status": "failed", "says": done.stderr.strip()}
    return {key: _without_digests(result.get(key)) for key in KEPT}


def _without_digests(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_digests(each)
            for key, each in value.items()
            if not key.endswith("_digest")
        }
    if isinstance(value, list):
        return [_without_digests(each) for each in value]
    return value


def make(out: Path, tree: Path, pattern: str, limit_s: float) -> None:
    """Plan every problem, and write the file after each."""
    answers = json.loads(out.read_text("utf-8")) if out.exists() else {}
    with TemporaryDirectory() as folder:
        for name, path in problems(tree, Path(folder)):
            if name not in answers and fnmatch(name, pattern):
                answers[name] = found(tree, path, limit_s)
                out.write_text(json.dumps(answers, indent=1), "utf-8")
                print(name, answers[name]["status"], flush=True)


def compare(old: Path, new: Path) -> int:
    """Print the differences between two files; return the exit code."""
    before, after = (json.loads(path.read_text("utf-8")) for path in (old, new))
    both = [name for name in before if name in after]
    settled = [
        name
        for name in both
        if before[name]["status"] not in UNSETTLED
        and after[name]["status"] not in UNSETTLED
    ]
    differ = [name for name in settled if before[name] != after[name]]
    for name in differ:
        for key in KEPT:
            if before[name].get(key) != after[name].get(key):
                print(f"{name}: {key}:")
                print(f"  {json.dumps(before[name].get(key))}")
                print(f"  {json.dumps(after[name].get(key))}")
    print(
        f"{len(settled) - len(differ)} of {len(both)} the same, {len(differ)} differ, "
        f"{len(both) - len(settled)} not settled by both"
    )
    return 1 if differ else 0


def main(arguments: list[str] | None = None) -> int:
    """Run one of the two commands; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    making = commands.add_parser("make", help="plan, and write what is found")
    making.add_argument("out", type=Path, metavar="FILE")
    making.add_argument("--tree", type=Path, default=ROOT, metavar="FOLDER")
    making.add_argument(
        "--only", default="*", metavar="PATTERN", help="names, as in hetauto-*"
    )
    making.add_argument("--time-limit", type=float, default=LIMIT_S, metavar="S")
    comparing = commands.add_parser("compare", help="compare two such files")
    comparing.add_argument("old", type=Path, metavar="OLD")
    comparing.add_argument("new", type=Path, metavar="NEW")
    given = parser.parse_args(arguments)
    if given.command == "compare":
        return compare(given.old, given.new)
    make(given.out, given.tree.resolve(), given.only, given.time_limit)
    return 0


if __name__ == "__main__":
    sys.exit(main())
