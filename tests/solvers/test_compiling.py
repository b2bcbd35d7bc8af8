"""What is compiled in the background is there for later runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from hetopt.compiled import kept_folder
from hetopt.solvers import auto, compiling
from hetopt.solvers.params import RaceParams
from hetopt.solvers.request import Request
from tests.oracle.instances import make_instance

if TYPE_CHECKING:
    from pathlib import Path


def test_nothing_is_started_where_nothing_can_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert not compiling.compile_later()


@pytest.mark.parametrize("able", [True, False])
def test_the_report_says_that_dp_is_being_compiled(
    monkeypatch: pytest.MonkeyPatch, able: bool
) -> None:
    instance = make_instance(3, pinned=False)
    monkeypatch.setattr(compiling, "compile_later", lambda: able)
    monkeypatch.setattr("hetopt.compiled.are_kept", lambda module: False)
    result = auto.solve(
        Request(
            problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
        )
    )
    assert result.solver == "cp-sat"
    assert result.choice is not None
    assert ("in the background" in result.choice) == able


@pytest.mark.slow
def test_a_later_run_finds_dp_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert compiling.compile_later()
    end = time.monotonic() + 300
    while not any(kept_folder().glob("hetopt.solvers.dp.labels-*/**/*.nbi")):
        assert time.monotonic() < end, "nothing was compiled"
        time.sleep(0.5)
