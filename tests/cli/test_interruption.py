"""Ctrl-C, SIGTERM and SIGHUP: hetopt's own words, whatever the process is doing."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FunctionType

import pytest

from hetopt.base import interruption
from hetopt.cli import main
from hetopt.solvers.progress import Progress
from hetopt.solvers.request import Request
from tests.processes import heed

pytestmark = pytest.mark.skipif(os.name == "nt", reason="no signals")

#: A search that a signal meets at its first plan, and hetopt's answer to more of them.
SIGNALLED = """
import os, signal, sys
from hetopt.cli import main
from hetopt.report.progress import ProgressBar

number, rest = int(sys.argv[1]), sys.argv[2:]

def update(self, progress):
    if progress.incumbent_s is not None:
        os.killpg(0, number)

ProgressBar.update = update
ended = ProgressBar.__exit__

def leave(self, *error):
    # While the answer is made.
    os.kill(os.getpid(), number)
    return ended(self, *error)

ProgressBar.__exit__ = leave
sys.exit(main(rest, last=True))
"""


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_search_with_its_plan(
    small: Path, tmp_path: Path, environment: dict[str, str], name: str
) -> None:
    out = tmp_path / "plan.json"
    done = subprocess.run(
        [
            *(sys.executable, "-c", SIGNALLED, str(int(getattr(signal, name)))),
            # It starts its workers at once.
            *("plan", "problem.yaml", "--solver", "milp", "--jobs", "2"),
            *("--out", str(out)),
        ],
        capture_output=True,
        check=False,
        cwd=small,
        env=environment,
        start_new_session=True,
        preexec_fn=heed,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "from the best possible" in done.stdout
    assert json.loads(out.read_text())["plan"] is not None
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    assert main(["check", str(small / "problem.yaml"), str(out)]) == 0


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
@pytest.mark.parametrize("delay_s", [0.0, 0.05, 0.3])
def test_a_signal_during_the_imports(
    small: Path, environment: dict[str, str], name: str, delay_s: float
) -> None:
    command = [sys.executable, "-m", "hetopt", "plan", "hetauto-exp3"]
    with subprocess.Popen(
        command,
        cwd=small,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=heed,
        text=True,
    ) as process:
        listening = Path(f"/proc/{process.pid}/status")
        if not listening.exists():
            pytest.skip("this system does not say who listens to signals")
        bit = 1 << (signal.SIGTERM - 1)
        while not int(listening.read_text().split("SigCgt:")[1].split()[0], 16) & bit:
            time.sleep(0.001)
        time.sleep(delay_s)
        for _ in range(3):
            os.killpg(process.pid, getattr(signal, name))
        out, err = process.communicate(timeout=300)
    assert (process.returncode, out) == (3, "")
    late = "stopped before a plan was found; none takes less than [0-9.]+ s"
    assert re.fullmatch(f"(stopped: interrupted|{late})\n", err)


def test_a_closed_terminal_loses_no_file(
    small: Path, tmp_path: Path, environment: dict[str, str]
) -> None:
    """It sends SIGHUP, and nothing can be printed any more."""
    out = tmp_path / "plan.json"
    ours, theirs = os.openpty()
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", SIGNALLED, str(int(signal.SIGHUP))),
            *("plan", "problem.yaml", "--solver", "cp-sat", "--jobs", "1"),
            *("--out", str(out)),
        ],
        cwd=small,
        env=environment,
        start_new_session=True,
        preexec_fn=heed,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.close(ours)
    assert process.wait(timeout=300) == 0
    assert json.loads(out.read_text())["plan"] is not None


class TestState:
    """What raises when; the signals are this process's own."""

    @pytest.fixture(autouse=True)
    def installed(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in interruption.SIGNALS}
        heed()
        interruption.install()
        yield
        interruption.remove()
        for number, handler in before.items():
            signal.signal(number, handler)

    def test_held_signals_raise_when_released(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interruption.requested() == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt), interruption.released():
            pytest.fail("this is not to be begun")
        # And again, for whoever asks.
        with pytest.raises(KeyboardInterrupt):
            interruption.check()

    def test_one_request_raises_once(self) -> None:
        with pytest.raises(KeyboardInterrupt), interruption.released():
            os.kill(os.getpid(), signal.SIGHUP)
        for number in interruption.SIGNALS:
            os.kill(os.getpid(), number)

    def test_ctrl_c_may_insist(self, monkeypatch: pytest.MonkeyPatch) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        monkeypatch.setattr(interruption, "INSIST_S", 0.0)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)

    def test_what_must_be_whole_is_left_before_it_raises(self) -> None:
        done = []

        def work() -> None:
            with interruption.released(), interruption.held():
                os.kill(os.getpid(), signal.SIGTERM)
                done.append(True)

        with pytest.raises(KeyboardInterrupt):
            work()
        assert done

    def test_an_import_is_not_torn(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "slow_to_load.py").write_text(
            "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhole = True\n"
        )
        monkeypatch.syspath_prepend(tmp_path)
        whole = []

        def load() -> None:
            with interruption.released():
                whole.append(import_module("slow_to_load").whole)
                time.sleep(30)

        with pytest.raises(KeyboardInterrupt):
            load()
        assert whole

    def test_llvm_is_not_torn(self) -> None:
        whole = []

        def compiled() -> None:
            os.kill(os.getpid(), signal.SIGINT)
            whole.append(True)

        path = Path("site-packages", "llvmlite", "binding", "ffi.py")
        code = compiled.__code__.replace(co_filename=str(path))
        bind = FunctionType(code, globals(), closure=compiled.__closure__)

        def load() -> None:
            with interruption.released():
                bind()
                time.sleep(30)

        with pytest.raises(KeyboardInterrupt):
            load()
        assert whole

    def test_a_destructor_does_not_swallow_it(self) -> None:
        class Signalled:
            def __del__(self) -> None:
                os.kill(os.getpid(), signal.SIGINT)

        def drop() -> None:
            with interruption.released():
                Signalled()
                gc.collect()
                time.sleep(30)
                pytest.fail("the signal was lost")

        with pytest.raises(KeyboardInterrupt):
            drop()


def test_signals_that_were_ignored_stay_ignored(
    small: Path, environment: dict[str, str]
) -> None:
    """As under ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        interruption.install()
        os.kill(os.getpid(), signal.SIGHUP)
        assert interruption.requested() is None
    finally:
        interruption.remove()
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_given_back() -> None:
    before = [signal.getsignal(number) for number in interruption.SIGNALS]
    assert main(["schema", "plan"]) == 0
    assert [signal.getsignal(number) for number in interruption.SIGNALS] == before
    assert interruption.requested() is None


def test_a_request_ends_with_its_command() -> None:
    """The next command or search of this process is not stopped for it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interruption.install()
        os.kill(os.getpid(), signal.SIGINT)
        assert interruption.requested() == signal.SIGINT
        interruption.remove()
        assert interruption.requested() is None
        assert not interruption.is_held()
        with interruption.held():
            pass
    finally:
        signal.signal(signal.SIGINT, before)


def test_solvers_stop_without_it_as_ever(small: Path) -> None:
    """As a library: KeyboardInterrupt, from wherever, ends the search with its plan."""
    from hetopt.cost.build import build_table
    from hetopt.problem.reading import read_problem
    from hetopt.solvers.cp_sat import solve
    from hetopt.solvers.params import RaceParams

    def stop(progress: Progress) -> None:
        if progress.incumbent_s is not None:
            raise KeyboardInterrupt

    problem = read_problem(small / "problem.yaml")
    result = solve(
        Request(
            problem=problem,
            table=build_table(problem),
            params=RaceParams(jobs=0, on_progress=stop),
        )
    )
    assert result.interrupted
    assert result.best is not None
