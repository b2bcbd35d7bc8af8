"""End ``hetopt plan`` by signals at random moments, and check the outcome.

    python -m benchmarks.interrupts --count 100

Every trial starts ``plan`` on a terminal of its own, waits for a random moment, and
sends INT, TERM or HUP to the process or to its whole group, once or several times.
Half of the moments count from when hetopt handles signals (before that, Python itself
starts), the others from when the progress line shows a first plan. Checked is that

- standard error has only lines of hetopt's own;
- the exit code is 0 with a plan and 3 without one, and there is a plan if the progress
  line showed one before the signal;
- the plan that was written passes the check, and its bound is valid;
- no process, no temporary file and no shared memory is left.

A trial whose process ended before its moment is repeated with an earlier moment.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetopt.check import check_result
from hetopt.cost.build import build_table
from hetopt.problem.catalogue import problem_files
from hetopt.problem.reading import read_problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table.table import CostTable
    from hetopt.problem.problem import Problem

SOLVERS = ("dp", "cp-sat", "milp", "mcts")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Seconds within which a process must end after a signal, even on a busy machine.
GRACE_S = 300.0
#: Seconds within which its children, and the files they leave, must disappear.
SETTLE_S = 10.0
#: Lines of hetopt's own on standard error, with all states of the progress line.
OWN_WORDS = (
    r"",
    r"stopped: interrupted",
    r"stopped before a plan was found(; none takes less than .* s)?",
    r"warning: cluster '.*",
    r"compiling the searches, once; this takes about a minute",
    r"(searching|compiling), \d+ s: .*",
    r"[━╸╺ ]*\S+ (reading the table|\d+ of \d+ programs settled, ).*",
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\r\n]")
_OWN = re.compile("|".join(f"(?:{words})" for words in OWN_WORDS))
#: Names of files and shared memory of Python's multiprocessing and hetopt.
_TRACES = re.compile(r"(pym|pymp|psm|sem|hetopt|\.hetopt).*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One interrupted search.

    Attributes
    ----------
    late
        Whether its clock starts with the first plan, instead of when hetopt begins to
        handle signals.
    moment_s
        Seconds from then to the first signal.
    group
        Whether the whole process group gets it.
    times
        How often it is sent, a tenth of a second apart.
    """

    solver: str
    number: signal.Signals
    late: bool
    moment_s: float
    group: bool
    times: int

    def __str__(self) -> str:
        to = "group" if self.group else "process"
        return (
            f"{self.solver:6} {self.number.name:7} to the {to:7} x{self.times} "
            f"{self.moment_s:6.3f} s after {'a plan' if self.late else 'its start'}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of a trial; ``wrong`` has one line for every failed check."""

    code: int
    known: bool
    ended_s: float
    wrong: tuple[str, ...]


class Lab:
    """A problem, its table and its optimum, to judge plans by."""

    def __init__(self, name: str) -> None:
        self.name = name
        path = str(problem_files().get(name, name))
        self.problem: Problem = read_problem(path)
        self.table: CostTable = build_table(self.problem)
        done = subprocess.run(
            [*_command(name, "dp"), "--json"],
            env=_environment(),
            stdout=subprocess.PIPE,
            check=True,
        )
        self.optimum_s: float = json.loads(done.stdout)["closed_form_s"]

    def findings(self, data: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with a result."""
        yield from check_result(self.problem, self.table, data)
        if data["closed_form_s"] < self.optimum_s * (1 - 1e-9):
            yield f"a plan of {data['closed_form_s']} s, below the optimum"
        if data["lower_bound_s"] > self.optimum_s * (1 + 1e-9):
            yield f"a bound of {data['lower_bound_s']} s, above the optimum"


def trials(count: int, seed: int, longest_s: float) -> list[Trial]:
    """Draw trials: solvers in turn, half of them with a plan."""
    chance = random.Random(seed)
    drawn = []
    for number in range(count):
        late = chance.random() < 0.5
        drawn.append(
            Trial(
                solver=SOLVERS[number % len(SOLVERS)],
                number=chance.choice(SIGNALS),
                late=late,
                moment_s=chance.uniform(0.0, longest_s),
                group=chance.random() < 0.5,
                times=chance.choice((1, 1, 2, 3)),
            )
        )
    return drawn


def attempt(lab: Lab, trial: Trial) -> Outcome | None:
    """Carry out a trial; None if the process ended before its moment."""
    with tempfile.TemporaryDirectory(prefix="interrupts-") as name:
        folder = Path(name)
        for part in ("out", "tmp"):
            (folder / part).mkdir()
        out = folder / "out" / "plan.json"
        before = _shared_memory()
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        with (folder / "printed").open("wb") as printed:
            process = subprocess.Popen(
                [*_command(lab.name, trial.solver), "--out", str(out)],
                env=_environment(TMPDIR=str(folder / "tmp"), TERM="xterm"),
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=slave,
                start_new_session=True,
                preexec_fn=_heed,
            )
        os.close(slave)
        screen = _Screen(master)
        try:
            if not _interrupt(process, trial, screen):
                return None
            known = screen.names_a_plan
            began = time.monotonic()
            _signal(process, trial)
            for _ in range(trial.times - 1):
                screen.watch(0.1, process)
                _signal(process, trial)
            screen.watch(GRACE_S, process)
            ended_s = time.monotonic() - began
            wrong = []
            if process.poll() is None:
                wrong.append(f"did not end within {GRACE_S:g} s")
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            screen.close()
        wrong += [f"said: {line}" for line in screen.foreign()]
        text = (folder / "printed").read_text("utf-8")
        wrong += _judge(lab, out, text, code, known=known)
        wrong += _left_behind(process.pid, folder, before)
    return Outcome(code=code, known=known, ended_s=ended_s, wrong=tuple(wrong))


class _Screen:
    """The output of a process on its terminal."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._said = b""

    @property
    def names_a_plan(self) -> bool:
        """Whether the progress line showed a plan."""
        return b" best " in self._said

    def watch(self, seconds: float, process: subprocess.Popen[bytes]) -> None:
        """Read for ``seconds``, or until the process ends."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._master], [], [], min(left, 0.02))
            if not (ready and self._read()) and process.poll() is not None:
                return

    def close(self) -> None:
        """Read the rest."""
        while select.select([self._master], [], [], 0.0)[0] and self._read():
            pass
        os.close(self._master)

    def foreign(self) -> list[str]:
        """Return every line that is not hetopt's own."""
        text = _COLOUR.sub("", self._said.decode("utf-8", "replace"))
        lines = dict.fromkeys(line.strip() for line in _CONTROL.split(text))
        return [line for line in lines if not _OWN.fullmatch(line)]

    def _read(self) -> bool:
        try:
            said = os.read(self._master, 65536)
        except OSError:
            time.sleep(0.01)
            said = b""
        self._said += said
        return bool(said)


def _interrupt(process: subprocess.Popen[bytes], trial: Trial, screen: _Screen) -> bool:
    """Wait for the moment; return whether the process still runs."""
    while not _listens(process.pid):
        if process.poll() is not None:
            return False
        time.sleep(0.001)
    while trial.late and not screen.names_a_plan:
        if process.poll() is not None:
            return False
        screen.watch(0.02, process)
    screen.watch(trial.moment_s, process)
    return process.poll() is None


def _listens(pid: int) -> bool:
    """Whether a process handles SIGTERM: hetopt's first step."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("ascii").splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def _signal(process: subprocess.Popen[bytes], trial: Trial) -> None:
    with suppress(ProcessLookupError):
        if trial.group:
            os.killpg(process.pid, trial.number)
        else:
            process.send_signal(trial.number)


def _judge(
    lab: Lab, out: Path, printed: str, code: int, *, known: bool
) -> Iterator[str]:
    """Yield what is wrong with the exit code, the report and the plan."""
    if code not in (0, 3):
        yield f"exit code {code}"
    if known and code != 0:
        yield f"a plan was known, but the exit code is {code}"
    if (code == 0) != bool(printed):
        yield f"exit code {code}, printed {len(printed)} characters"
    if not out.exists():
        if code == 0:
            yield "a plan was printed and not written"
        return
    data = json.loads(out.read_text("utf-8"))
    if (code == 0) != (data["plan"] is not None):
        yield f"exit code {code}, status {data['status']}"
    elif code == 0:
        yield from lab.findings(data)


def _left_behind(session: int, folder: Path, before: set[str]) -> Iterator[str]:
    """Yield processes and files that remain."""
    until = time.monotonic() + SETTLE_S
    while left := [
        *(f"process {line}" for line in _processes(session)),
        *(f"/dev/shm/{name}" for name in _nobodys(_shared_memory() - before)),
    ]:
        if time.monotonic() > until:
            yield from (f"left behind: {what}" for what in left)
            break
        time.sleep(0.05)
    files = {path.name for path in (folder / "out").iterdir()} - {"plan.json"}
    files |= {path.name for path in (folder / "tmp").iterdir()}
    yield from (f"left behind: {name}" for name in sorted(files))


def _processes(session: int) -> Iterator[str]:
    """Yield the processes of a session that still run."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, rest = path.read_text("utf-8").rpartition(")")
            state, _, _, own = rest.split()[:4]
            if int(own) == session and state != "Z":
                yield name


def _shared_memory() -> set[str]:
    with suppress(OSError):
        return {name for name in os.listdir("/dev/shm") if _TRACES.fullmatch(name)}
    return set()


def _nobodys(names: set[str]) -> set[str]:
    """Return those that no process uses, as other programs may run beside the trial."""
    if not names:
        return names
    used = set()
    for path in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            used |= set(re.findall(r"/dev/shm/(\S+)", path.read_text("utf-8")))
    return names - used


def _heed() -> None:
    """Restore the default handling of signals, which a shell or nohup may change."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _command(problem: str, solver: str) -> list[str]:
    return [sys.executable, "-m", "hetopt", "plan", problem, "--solver", solver]


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), **more}


def run(lab: Lab, drawn: Sequence[Trial]) -> list[tuple[Trial, Outcome]]:
    """Carry out all trials; print a line for each."""
    done = []
    for number, first in enumerate(drawn, start=1):
        trial = first
        while (outcome := attempt(lab, trial)) is None:
            trial = replace(trial, moment_s=trial.moment_s / 2, late=False)
        done.append((trial, outcome))
        known = "plan known" if outcome.known else "no plan known"
        print(
            f"{number:3} {trial}: {known}, exit code {outcome.code} after "
            f"{outcome.ended_s:.2f} s",
            flush=True,
        )
        for line in outcome.wrong:
            print(f"    WRONG: {line}", flush=True)
    return done


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=2.0, metavar="S")
    parser.add_argument("--problem", default="hetauto-exp3")
    options = parser.parse_args(arguments)
    lab = Lab(options.problem)
    done = run(lab, trials(options.count, options.seed, options.longest))
    wrong = sum(bool(outcome.wrong) for _, outcome in done)
    codes = Counter(outcome.code for _, outcome in done)
    known = sum(outcome.known for _, outcome in done)
    slowest_s = max(outcome.ended_s for _, outcome in done)
    print(
        f"{len(done)} interruptions of {options.problem}, seed {options.seed}: "
        f"{wrong} wrong; {codes[0]} ended with a plan, {codes[3]} without; a plan was "
        f"known in {known}; the slowest ended {slowest_s:.2f} s after the signal"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
