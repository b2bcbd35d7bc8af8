"""Send fuzzed problems through plan, check, verify, simulate and export.

    python -m tests.fuzz.run --count 1000 --seed 0 --out fuzz.json

``plan`` runs as users run it, in a process of its own. The commands that read its
plan run in forks of this one, which has everything imported already. A case is
*wrong* when a command prints a traceback or a warning, ends with an exit code that is
not its answer's, takes longer than its limit or more memory than permitted, or when
a plan that was printed is refused.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.fuzz.generator import Case, make_case

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Seconds that ``plan`` and ``verify`` may search.
LIMIT_S = 5
#: Seconds beyond it that any command may take, on a machine that does nothing else.
SLACK_S = 2.0
#: Memory of all processes of a command together.
MOST_BYTES = 4 * 2**30
#: A command that takes so many times its limit is ended.
_PATIENCE = 6
_POLL_S = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ROOT = Path(__file__).resolve().parents[2]

#: Imported before commands are forked off.
_NEEDED = (
    "hetopt.check.verify.certificate",
    "hetopt.cli",
    "hetopt.cost.build",
    "hetopt.export.planning.runnable",
    "hetopt.solvers.certificate.search_again",
)

#: What no user may see.
_FORBIDDEN = ("Traceback", "Warning", "MODEL_INVALID", "resource_tracker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a command may take."""

    limit_s: int = LIMIT_S
    slack_s: float = SLACK_S
    most_bytes: int = MOST_BYTES


@dataclass(slots=True, kw_only=True)
class Ran:
    """One command of a case."""

    command: str
    code: int | None
    wall_s: float
    peak_bytes: int
    error: str
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True, kw_only=True)
class Outcome:
    """A case, and what was wrong with it."""

    seed: int
    runs: list[Ran]

    @property
    def wrong(self) -> list[str]:
        """Everything that was wrong, each with its command."""
        return [f"{ran.command}: {what}" for ran in self.runs for what in ran.wrong]


def run_case(seed: int, limits: Limits) -> Outcome:
    """Run all commands of one case in a folder of its own."""
    case = make_case(seed)
    with tempfile.TemporaryDirectory(prefix="hetopt-fuzz-") as name:
        folder = Path(name)
        text = yaml.safe_dump(case.problem, sort_keys=False)
        (folder / "problem.yaml").write_text(text, encoding="utf-8")
        return Outcome(seed=seed, runs=list(_commands(case, folder, limits)))


def _commands(case: Case, folder: Path, limits: Limits) -> Iterator[Ran]:
    problem, plan = str(folder / "problem.yaml"), str(folder / "plan.json")
    certificate = str(folder / "certificate.json")
    arguments = [
        *("plan", problem, *case.options, "--time-limit", str(limits.limit_s)),
        *("--out", plan, "--certificate", certificate),
    ]
    ran = _watched(arguments, partial(_start, arguments), folder, limits)
    ran.wrong += _plan_faults(ran, folder)
    yield ran
    if ran.code != 0 or not os.path.exists(plan):
        return
    for arguments in (
        ["check", problem, plan],
        ["verify", problem, plan, certificate, "--time-limit", str(limits.limit_s)],
        ["simulate", problem, plan],
        [
            *("export", problem, plan, "--to", case.launcher),
            *("--allow-lossy", "--out", str(folder / "job")),
        ],
    ):
        ran = _watched(arguments, partial(_fork, arguments), folder, limits)
        if ran.code != 0 and ran.command in ("check", "simulate"):
            ran.wrong.append(f"exit code {ran.code} of a plan that was printed")
        if ran.code != 0 and ran.command == "verify" and not _undecided(ran):
            ran.wrong.append(f"exit code {ran.code} of a genuine certificate")
        if ran.command == "export" and ran.code not in (0, 1, 2):
            ran.wrong.append(f"exit code {ran.code}")
        yield ran


def _undecided(ran: Ran) -> bool:
    """Whether ``verify`` only had not enough time."""
    return ran.code in (1, 3) and "within" in ran.error


def _plan_faults(ran: Ran, folder: Path) -> Iterator[str]:
    """Yield where exit code, file and message of ``plan`` contradict each other."""
    try:
        text = (folder / "plan.json").read_text(encoding="utf-8")
        status = json.loads(text)["status"]
    except FileNotFoundError:
        status = None
    expected = {
        0: ("optimal", "feasible"),
        1: ("infeasible", None),
        2: (None,),
        3: ("unknown", None),
    }
    if ran.code not in expected:
        yield f"exit code {ran.code}"
    elif status not in expected[ran.code]:
        yield f"exit code {ran.code} with status {status}"
    lines = [line for line in ran.error.splitlines() if line.strip()]
    if ran.code in (1, 2, 3) and len(lines) != 1:
        yield f"{len(lines)} lines on standard error, expected one"


# --- processes ----------------------------------------------------------------------


def _watched(
    arguments: list[str],
    start: Callable[[Path], int],
    folder: Path,
    limits: Limits,
) -> Ran:
    """Start a command, wait for it and measure what it took."""
    began = time.monotonic()
    pid = start(folder)
    peak, code = 0, None
    end = began + _PATIENCE * (limits.limit_s + limits.slack_s)
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        peak = max(peak, _tree_bytes(pid, limits.most_bytes))
        if time.monotonic() > end or peak > limits.most_bytes:
            for member in reversed(_tree(pid)):
                _end(member)
            os.waitpid(pid, 0)
            break
        time.sleep(_POLL_S)
    error = (folder / "stderr").read_text(encoding="utf-8", errors="replace")
    ran = Ran(
        command=arguments[0],
        code=code,
        wall_s=round(time.monotonic() - began, 2),
        peak_bytes=peak,
        error=error[-2000:],
    )
    if ran.wall_s > limits.limit_s + limits.slack_s:
        ran.wrong.append(f"took {ran.wall_s} s")
    if peak > limits.most_bytes:
        ran.wrong.append(f"took {peak / 2**30:.1f} GiB")
    output = (folder / "stdout").read_text(encoding="utf-8", errors="replace")
    said = error + output
    ran.wrong += [f"says {word}: {said}" for word in _FORBIDDEN if word in said]
    return ran


def _start(arguments: list[str], folder: Path) -> int:
    """Start a command as users do."""
    with (
        (folder / "stdout").open("wb") as output,
        (folder / "stderr").open("wb") as error,
    ):
        return subprocess.Popen(
            [sys.executable, "-m", "hetopt", *arguments],
            cwd=_ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=error,
            start_new_session=True,
        ).pid


def _fork(arguments: list[str], folder: Path) -> int:
    """Run a command in a fork of this process, where all is imported."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        for number, name in ((1, "stdout"), (2, "stderr")):
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
            os.dup2(os.open(folder / name, flags), number)
        from hetopt.cli import main

        code = main(arguments)
        sys.stdout.flush()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 70
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _preload() -> None:
    """Import what the commands after ``plan`` need."""
    for name in _NEEDED:
        import_module(name)


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _tree(pid: int) -> list[int]:
    """Return a process and all that it started, parents first."""
    found = [pid]
    for parent in found:
        try:
            text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
        except OSError:
            continue
        found += [int(child) for child in text.split()]
    return found


def _tree_bytes(pid: int, most: int) -> int:
    """Return the memory of a process and all that it started.

    Shared pages are told apart only where it could matter: that takes long.
    """
    members = _tree(pid)
    resident = sum(_statm_bytes(member) for member in members)
    return resident if resident < most else sum(map(_pss_bytes, members))


def _statm_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError):
        return 0


def _pss_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


# --- the command line ---------------------------------------------------------------


def summary(outcomes: list[Outcome]) -> dict[str, Any]:
    """Return counts of exit codes by command, the extremes, and all that was wrong."""
    codes: dict[str, dict[str, int]] = {}
    worst: dict[str, dict[str, float]] = {}
    for outcome in outcomes:
        for ran in outcome.runs:
            own = codes.setdefault(ran.command, {})
            own[str(ran.code)] = own.get(str(ran.code), 0) + 1
            most = worst.setdefault(ran.command, {"wall_s": 0.0, "peak_gib": 0.0})
            most["wall_s"] = max(most["wall_s"], ran.wall_s)
            most["peak_gib"] = max(most["peak_gib"], round(ran.peak_bytes / 2**30, 2))
    wrong = {outcome.seed: outcome.wrong for outcome in outcomes if outcome.wrong}
    return {
        "problems": len(outcomes),
        "exit_codes": codes,
        "most": worst,
        "wrong": wrong,
    }


def main() -> int:
    """Run some seeds; 1 if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument(
        "--only", type=int, nargs="+", metavar="SEED", help="these, and no others"
    )
    parser.add_argument("--parallel", type=int, default=1, help="cases at once")
    parser.add_argument(
        "--slack", type=float, default=SLACK_S, help="seconds beyond a time limit"
    )
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="of the searches")
    parser.add_argument("--out", help="a JSON file with every run")
    options = parser.parse_args()
    _preload()
    limits = Limits(limit_s=options.limit, slack_s=options.slack)
    seeds = options.only or range(options.seed, options.seed + options.count)
    outcomes = []
    # Processes of one thread, which may fork, and are no daemons, so may have children.
    fork = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(options.parallel, mp_context=fork) as pool:
        for done in as_completed(pool.submit(run_case, seed, limits) for seed in seeds):
            outcome = done.result()
            outcomes.append(outcome)
            shown = "; ".join(outcome.wrong) or "ok"
            codes = " ".join(f"{ran.command} {ran.code}" for ran in outcome.runs)
            print(f"seed {outcome.seed}: {codes}: {shown}", flush=True)
    outcomes.sort(key=lambda outcome: outcome.seed)
    found = summary(outcomes)
    if options.out:
        data = {**found, "runs": [asdict(outcome) for outcome in outcomes]}
        Path(options.out).write_text(json.dumps(data, indent=1) + "\n")
    print(json.dumps(found, indent=1))
    return 1 if found["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
