"""Scripts of a bundle are started together and ended together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hetopt.errors import HetoptError, InputError
from hetopt.running import launching
from hetopt.running.launching import launch, scripts_of
from tests.processes import ended, heed, ignored


@pytest.fixture(autouse=True)
def no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "devices_of", lambda slots: [{} for _ in slots])
    monkeypatch.setattr(launching, "_PATIENCE_S", 1.0)


def bundle(folder: Path, *scripts: str) -> Path:
    """Write a bundle whose scripts do as they are told."""
    (folder / "nodes").mkdir(parents=True)
    (folder / "job.json").write_text("{}")
    for number, text in enumerate(scripts):
        path = folder / "nodes" / f"{number}-here.sh"
        path.write_text(f"#!/usr/bin/env bash\n# --nproc_per_node=1 \n{text}\n")
        path.chmod(0o755)
    return folder


def test_all_scripts_run_with_the_arguments(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "out", *['echo "$0" "$@" $MASTER_ADDR'] * 2)
    launch(folder, ["--steps=3"], tmp_path)
    for number in range(2):
        text = (tmp_path / f"{number}-here.log").read_text()
        assert f"{number}-here.sh --steps=3 127.0.0.1" in text


def test_the_load_is_sampled_all_the_time(tmp_path: Path) -> None:
    begin = time.perf_counter()
    loads = launch(bundle(tmp_path / "out", "sleep 0.6"), [], tmp_path)
    assert len(loads) >= 5
    times = [at for at, _ in loads]
    assert begin < times[0] <= times[-1] < time.perf_counter()
    assert times[-1] - times[0] > 0.3


def test_a_place_to_meet_of_the_users_own_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.9")
    launch(bundle(tmp_path / "out", "echo $MASTER_ADDR"), [], tmp_path)
    assert (tmp_path / "0-here.log").read_text() == "10.0.0.9\n"


def test_the_first_message_comes_first(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    failing = "echo noise; echo 'rank 3: ValueError: no shard 2' >&2; exit 1"
    folder = bundle(tmp_path / "out", "sleep 60", failing)
    start = time.monotonic()
    with pytest.raises(HetoptError, match="rank 3 failed, and all ended"):
        launch(folder, [], tmp_path)
    assert time.monotonic() - start < 20
    assert capfd.readouterr().err.startswith("rank 3: ValueError: no shard 2\n")


def test_a_script_that_ends_without_a_message(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = bundle(tmp_path / "out", "echo no torchrun here; exit 127")
    with pytest.raises(HetoptError, match="0-here ended with code 127"):
        launch(folder, [], tmp_path)
    assert "no torchrun here" in capfd.readouterr().err


def test_what_does_not_listen_is_killed_with_its_children(tmp_path: Path) -> None:
    """Also children in sessions of their own, as torchrun's are."""
    pids = tmp_path / "pids"
    deaf = f"trap '' TERM; setsid sleep 300 & echo $! $$ > {pids}; wait; sleep 300"
    folder = bundle(
        tmp_path / "out", deaf, f"while [ ! -s {pids} ]; do :; done; exit 1"
    )
    with pytest.raises(HetoptError):
        launch(folder, [], tmp_path)
    for pid in map(int, pids.read_text().split()):
        ended(pid)


PROGRAM = """
import sys
from pathlib import Path
from hetopt.base import interruption
from hetopt.running import launching
launching.devices_of = lambda slots: [{} for _ in slots]
interruption.install()
with interruption.released():
    launching.launch(Path(sys.argv[1]), [], Path(sys.argv[2]))
"""


def test_a_script_does_not_go_on_when_its_children_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would start more of them, which nobody ends."""
    at_once = launching._signal

    def slowly(pid: int, number: signal.Signals) -> None:
        at_once(pid, number)
        time.sleep(0.2)

    monkeypatch.setattr(launching, "_signal", slowly)
    pids = tmp_path / "pids"
    deaf = f"trap '' TERM; while :; do sleep 300 & echo $! >> {pids}; wait; done"
    failing = f"while [ ! -s {pids} ]; do :; done; exit 1"
    with pytest.raises(HetoptError):
        launch(bundle(tmp_path / "out", deaf, failing), [], tmp_path)
    for pid in map(int, pids.read_text().split()):
        ended(pid)


def test_what_a_script_starts_as_it_ends_does_not_go_on(tmp_path: Path) -> None:
    """It was no child yet when the script's children were listed."""
    pids, ready = tmp_path / "pids", tmp_path / "ready"
    starting = f"trap 'sleep 300 & echo $! > {pids}; exit' TERM; touch {ready}"
    failing = f"while [ ! -e {ready} ]; do :; done; exit 1"
    folder = bundle(tmp_path / "out", f"{starting}; while :; do :; done", failing)
    with pytest.raises(HetoptError):
        launch(folder, [], tmp_path)
    ended(int(pids.read_text()))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interruption_ends_all(tmp_path: Path, number: int) -> None:
    """Also where the tests themselves run in the background, or under nohup."""
    pids = tmp_path / "pids"
    folder = bundle(tmp_path / "out", *[f"echo $$ >> {pids}; sleep 300"] * 2)
    with ignored(number):
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), str(tmp_path)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            preexec_fn=heed,
            stderr=subprocess.PIPE,
            text=True,
        )
    deadline = time.monotonic() + 30
    while not pids.exists() or len(pids.read_text().split()) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in said
    for pid in map(int, pids.read_text().split()):
        ended(pid)


def test_what_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="is no bundle that `hetopt export --to torch`"
    ):
        scripts_of(tmp_path)
    (tmp_path / "job.json").write_text("{}")
    with pytest.raises(InputError, match="is no bundle"):
        scripts_of(tmp_path)
    assert len(scripts_of(bundle(tmp_path / "out", "true"))) == 1


def test_a_script_that_does_not_say_its_ranks(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "out", "true")
    (folder / "nodes" / "0-here.sh").write_text("true")
    with pytest.raises(InputError, match="does not say --nproc_per_node"):
        launch(folder, [], tmp_path)


def test_a_script_that_cannot_be_started(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "out", "true")
    (folder / "nodes" / "0-here.sh").chmod(0o644)
    with pytest.raises(InputError, match="cannot be started"):
        launch(folder, [], tmp_path)
