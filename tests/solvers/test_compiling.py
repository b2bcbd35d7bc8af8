"""What is compiled in the background is there for later runs."""

from __future__ import annotations

import time
from subprocess import Popen
from typing import TYPE_CHECKING

import pytest

from hetopt.base.deadline import Deadline
from hetopt.base.machine_code import kept_folder
from hetopt.solvers import auto, compiling
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from hetopt.solvers.simulated.solver import solve_simulated
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_is_started_where_nothing_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert not compiling.compile_later()


def test_dp_is_compiled_by_one_process_however_many_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine it has no time to run; plans that follow start no other."""
    started = []

    def start(what: str, *how: str, held: tuple[int, ...] = ()) -> Popen[bytes]:
        started.append(Popen(("sleep", "60"), pass_fds=held))
        return started[-1]

    monkeypatch.setattr(compiling, "kept_folder", lambda: tmp_path)
    monkeypatch.setattr(compiling, "_start", start)
    assert compiling.compile_later()
    assert compiling.compile_later()
    assert len(started) == 1
    started[0].returncode = None
    started[0].kill()
    started[0].wait()
    assert compiling.compile_later()
    assert len(started) == 2
    started[1].returncode = None
    started[1].kill()
    started[1].wait()


@pytest.mark.parametrize("kept", [True, False])
def test_the_very_first_run_has_half_compiled_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    started = []

    def start(what: str) -> Popen[bytes]:
        started.append(what)
        return Popen("true")

    monkeypatch.setattr(compiling, "kept_folder", lambda: tmp_path)
    monkeypatch.setattr(compiling, "are_kept", lambda module: kept)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr(compiling, "_start", start)
    compiling.compile_beside()
    assert started == ([] if kept else ["sums"])


@pytest.mark.parametrize("able", [True, False])
def test_the_report_says_that_dp_is_being_compiled(
    monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    instance = make_instance(3, pinned=False)
    monkeypatch.setattr(compiling, "compile_later", lambda: able)
    monkeypatch.setattr("hetopt.base.machine_code.are_kept", lambda module: False)
    result = auto.solve(
        Request(
            problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
        )
    )
    assert result.solver == "cp-sat"
    assert result.choice is not None
    assert ("in the background" in result.choice) == able


def test_a_search_that_is_not_compiled_in_time_leaves_the_plan_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = make_instance(3, pinned=False)
    monkeypatch.setattr(compiling, "are_kept", lambda module: False)
    monkeypatch.setattr(compiling, "kept_folder", lambda: tmp_path)
    monkeypatch.setattr(compiling, "_start", lambda *what: Popen(("sleep", "60")))
    deadline = Deadline.after(1)
    result = solve_simulated(
        Request(
            problem=instance.problem,
            table=instance.table,
            params=RaceParams(jobs=0),
            deadline=deadline,
        ),
        solver="cp-sat",
    )
    assert result.best is not None
    assert result.status == "feasible"
    assert result.choice is not None
    assert "goes on in the background" in result.choice
    assert deadline.elapsed_s() < 2


@pytest.mark.slow
@pytest.mark.parametrize("free", [False, True])
def test_a_search_of_simulated_times_is_compiled_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: bool
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(compiling, "are_kept", lambda module: False)
    assert compiling.is_simulated_compiled(Deadline.after(300), free=free)
    names = ("bounds", "fills", "walk", *(("warmups",) if free else ()))
    for name in names:
        pattern = f"hetopt.solvers.simulated.{name}-*/**/*.nbi"
        assert any(kept_folder().glob(pattern)), name


@pytest.mark.slow
def test_a_later_run_finds_dp_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert compiling.compile_later()
    end = time.monotonic() + 300
    for module in ("dp.labels", "bounds.box_sums", "bounds.ordering_loop"):
        while not any(kept_folder().glob(f"hetopt.solvers.{module}-*/**/*.nbi")):
            assert time.monotonic() < end, f"{module} was not compiled"
            time.sleep(0.5)


@pytest.mark.parametrize("kept", [True, False])
def test_bounds_that_dp_did_without_are_compiled_later(
    monkeypatch: pytest.MonkeyPatch, kept: bool
) -> None:
    instance = make_instance(3, pinned=False)
    begun: list[bool] = []

    def compile_later() -> bool:
        begun.append(True)
        return True

    monkeypatch.setattr(compiling, "compile_later", compile_later)
    monkeypatch.setattr("hetopt.base.machine_code.are_kept", lambda module: True)
    monkeypatch.setattr(auto, "bounds_are_kept", lambda: kept)
    result = auto.solve(
        Request(
            problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
        )
    )
    assert result.solver == "dp"
    assert begun == ([] if kept else [True])
    assert result.choice is not None
    assert "in the background" not in result.choice
