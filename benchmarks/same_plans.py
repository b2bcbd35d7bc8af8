"""Whether two versions of hetopt make the same plans.

    python -m benchmarks.same_plans make NEW.json
    python -m benchmarks.same_plans make OLD.json --tree FOLDER
    python -m benchmarks.same_plans compare OLD.json NEW.json

``make`` plans 300 random problems and all shipped ones with the hetopt of a source tree
(this one by default), in a process for each, and writes plans, times and bounds without
versions, digests and search times. It resumes an existing file. Every schedule, kind of
link and question is drawn, by this file whichever tree plans. ``compare`` names each
problem whose answers differ in any digit. Of a search that took more than a quarter of
the time limit it compares what does not depend on time: plans if both are proven, times
if they are the same, and that neither is better than the other version's bound.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.growing import Size, document
from hetopt.errors import InputError
from hetopt.problem.reading import read_problem_text
from hetopt.problem.training.choices import FOLDED
from tests.oracle.problems import draw_pins
from tests.problem.writing import problem_to_data

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
DRAWN = 300
LIMIT_S = 600.0
#: Schedules whose simulated times are searched; sequences of several lengths run under
#: the first three.
SEARCHED = ("1f1b", "eager-1f1b", "virtual-1f1b", "h-1f1b", "gpipe", "free-1f1b")
BLOCKING = ("1f1b-batched", "1f1b-blocking")
#: Those that both versions know; consecutive seeds go through them.
SCHEDULES = (*SEARCHED, *BLOCKING, "interleaved-1f1b", "zb-h1", *FOLDED)
#: Options under any schedule, without chunks, and under those of ``SEARCHED``.
ANY = ("", "--objective closed", "--objective cost", "--top 3")
SEVERAL = ("--pipelines 2",)
RELAXED = ("--relax p3", "--relax p4", "--relax p3,p4", "--relax p4-falling-tp")
SIMULATED = ("--objective simulated",) * 3
#: Values of fields, each of which is given or not.
EXPERTS = {"shared_ffn": (2048,), "dense_layers": (1, 2)}
DISPATCH = {"imbalance": (1.2,), "node_dedup": (True,), "overlap": (0.5,)}
CLUSTER = {
    "memory": ("16 GB", "24 GB", "48 GB"),
    "devices_per_node": (3, 5, 6),
    "nics_per_node": (1, 2),
    "uplink": ("5 Gbps", "10 Gbps", "40 Gbps"),
    "offload": ("optimizer",),
}
LINK = {
    "bandwidth": ("1 Gbps", "50 Gbps", "unlimited", "none"),
    "per_node": ("2 Gbps", "10 Gbps", "25 Gbps"),
    "per_connection": ("1 Gbps", "5 Gbps", "20 Gbps"),
    "per_message": ("10 us", "200 us"),
    "staged": ("host", "device"),
}
TRAINING = {
    "seq_len": (2048, 16384),
    "recompute": ("none", "full", ["none", "selective"]),
    "zero": (0, 2, 3),
    "overlap_gradients": (False,),
    "optimizer": ("sgd",),
    "reserve": (0.1,),
}
#: Keys of a result that do not depend on how it was found.
KEPT = (
    *("settled", "status", "objective", "closed_form_s", "iteration_time_s", "plan"),
    *(
        "alternatives",
        "cost",
        "claims",
        "lower_cost",
        "lower_bound_s",
        "bounds",
        "says",
    ),
)
#: Share of the time limit for the first part of a search, after which bounds may vary.
SETTLED = 0.25


def drawn(seed: int) -> tuple[dict[str, Any], list[str]]:
    """Return a small problem, as the content of its file, and options of the search."""
    draw = random.Random(seed)
    schedule = SCHEDULES[seed % len(SCHEDULES)]
    chunks = draw.choice((2, 3)) if schedule == "interleaved-1f1b" else 1
    parts = 2 if schedule in FOLDED else chunks
    asked: tuple[str, ...] = ANY if chunks > 1 else ANY + SEVERAL
    if schedule in SEARCHED:
        asked += RELAXED + SIMULATED
    option = draw.choice(asked)
    few = option in SEVERAL
    size = Size(
        clusters=draw.choice((1, 2) if few else (1, 2, 3, 3)),
        devices=16 if few else draw.choice((16, 24, 32)),
        layers=draw.randint(3, 6 if few else 8) * parts,
    )
    problem = document(size, seed) | {"name": f"drawn-{seed:03}"}
    model, training = problem["model"], problem["training"]
    training |= {"schedule": schedule, "chunks": chunks, **_some(draw, TRAINING)}
    # Where P4 is relaxed, sizes of stages have to divide each other.
    training["global_batch"] = draw.choice((8, 8, 16 if option in RELAXED else 12))
    if schedule == "h-1f1b":
        training["warmup_epsilon"] = draw.choice((0.01, 0.1))
    if few and schedule in SEARCHED[:3]:
        long = training["seq_len"]
        training["lengths"] = {str(long // 4): 0.75, str(long): 0.25}
    model["tied"] = draw.random() < 0.3
    if draw.random() < 0.25:
        model["experts"] = {"number": 8, "per_token": 2, "ffn": 1024}
        model["experts"] |= {} if chunks > 1 else _some(draw, EXPERTS)
        training["moe"] = _some(draw, DISPATCH)
    elif draw.random() < 0.1 and parts == 1:
        model["granularity"] = "block"
    for cluster in problem["clusters"]:
        cluster |= _some(draw, CLUSTER)
        if few or schedule in BLOCKING:
            cluster.pop("uplink", None)
        if option == "--objective cost":
            cluster["price_per_hour"] = draw.randint(5, 100)
        elif draw.random() < 0.2:
            devices = cluster.pop("devices_per_node")
            cluster["nodes"] = [devices - 1, devices]
    problem["links"]["default"] |= _some(draw, LINK)
    problem["links"]["pairs"] = [
        {"between": [one["name"], other["name"]], **_some(draw, LINK)}
        for one, other in combinations(problem["clusters"], 2)
        if draw.random() < 0.5
    ]
    if draw.random() < 0.4 and not few:
        _draw_pins(draw, problem, parts)
    return problem, option.split()


def _some(draw: random.Random, fields: dict[str, Any]) -> dict[str, Any]:
    return {key: draw.choice(fields[key]) for key in fields if draw.random() < 0.25}


def _draw_pins(draw: random.Random, problem: dict[str, Any], parts: int) -> None:
    """Pin what can be met; of three clusters often that all are used."""
    if len(problem["clusters"]) > 2 and draw.random() < 0.5:
        used = {each["name"]: {"stages": [1, 2]} for each in problem["clusters"]}
        problem["pin"] = {"clusters": used}
        return
    read = read_problem_text(json.dumps(problem))
    # Units are those of one chunk.
    model = replace(read.model, layers=read.model.layers // parts)
    while True:
        pins = draw_pins(draw, read.clusters, model, read.training)
        problem["pin"] = problem_to_data(replace(read, pins=pins))["pin"]
        with suppress(InputError):
            read_problem_text(json.dumps(problem))
            return


def problems(tree: Path, folder: Path) -> Iterator[tuple[str, Path, list[str]]]:
    """Yield name, file and options of random problems, then of those a tree ships."""
    for seed in range(DRAWN):
        path = folder / f"drawn-{seed:03}.yaml"
        problem, options = drawn(seed)
        # JSON is YAML, too.
        path.write_text(json.dumps(problem), "utf-8")
        yield path.stem, path, options
    for path in sorted((tree / "data" / "problems").glob("*.yaml")):
        yield path.stem, path, []


def found(
    tree: Path, problem: Path, options: list[str], limit_s: float
) -> dict[str, Any]:
    """Return the result of a tree's hetopt for a problem, or its error message."""
    command = [sys.executable, "-m", "hetopt", "plan", str(problem), *options, "--json"]
    # In one process: for a small problem workers would take longer to start.
    command += ["--jobs", "1", "--time-limit", f"{limit_s:g}"]
    done = subprocess.run(
        command,
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        result = json.loads(done.stdout, object_hook=_without_digests)
    except json.JSONDecodeError:
        return {"settled": True, "status": "failed", "says": done.stderr.strip()}
    result["bounds"] = [
        [each["stages"], each["microbatches"], each["bound_s"]]
        for each in result["settlements"]
    ]
    ended = result["status"] in ("optimal", "infeasible")
    result["settled"] = ended and result["search_time_s"] < SETTLED * limit_s
    return {key: result[key] for key in KEPT if key in result}


def _without_digests(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: fields[key] for key in fields if not key.endswith("_digest")}


def make(out: Path, tree: Path, pattern: str, limit_s: float) -> None:
    """Plan every problem, and write the file after each."""
    answers = json.loads(out.read_text("utf-8")) if out.exists() else {}
    with TemporaryDirectory() as folder:
        for name, path, options in problems(tree, Path(folder)):
            if name not in answers and fnmatch(name, pattern):
                answers[name] = found(tree, path, options, limit_s)
                out.write_text(json.dumps(answers, indent=1), "utf-8")
                print(name, answers[name]["status"], flush=True)


def compare(old: Path, new: Path) -> int:
    """Print the differences between two files; return the exit code."""
    before, after = (json.loads(path.read_text("utf-8")) for path in (old, new))
    both = {name: (before[name], after[name]) for name in before if name in after}
    differ = unsettled = 0
    for name, (one, other) in both.items():
        settled = one["settled"] and other["settled"]
        unsettled += not settled
        keys = KEPT if settled else tuple(_independent_of_time(one, other))
        different = [key for key in keys if one.get(key) != other.get(key)]
        differ += different != []
        for key in different:
            values = (json.dumps(each.get(key)) for each in (one, other))
            print(f"{name}: {key}:", *values, sep="\n  ")
    print(
        f"{len(both) - differ} of {len(both)} the same, {differ} differ; "
        f"{unsettled} not settled by both"
    )
    return 1 if differ else 0


def _independent_of_time(one: dict[str, Any], other: dict[str, Any]) -> Iterator[str]:
    """Yield what has to be the same although a search was not ended."""
    known = {one["status"], other["status"]} - {"unknown"}
    if "failed" in known or ("infeasible" in known and len(known) > 1):
        yield "status"
        return
    yield "objective"
    if one["plan"] == other["plan"] or known == {"optimal"}:
        yield from ("plan", "closed_form_s", "iteration_time_s")
    times = {"closed": "closed_form_s", "simulated": "iteration_time_s"}
    value = times.get(one["objective"], "")
    for bound, plan in ((one, other), (other, one)):
        # Rounding aside.
        if (bound["lower_bound_s"] or 0) * (1 - 1e-9) > (plan.get(value) or math.inf):
            yield "lower_bound_s"


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
