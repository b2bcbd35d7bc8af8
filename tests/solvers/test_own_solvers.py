"""Solvers of users: registered, named by an entry point, or refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hetopt.cli import main
from hetopt.errors import InputError
from hetopt.solvers import refusals, registry
from hetopt.solvers.loading import load
from hetopt.solvers.params import RaceParams
from hetopt.solvers.race.solve import racing
from hetopt.solvers.registry import Solver
from hetopt.solvers.request import Request
from tests.oracle.instances import make_instance
from tests.own_packages import blocks, install

if TYPE_CHECKING:
    from hetopt.results.result import Result

PAGE = "docs/how-to/write-a-solver.md"


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Leave no solver of a test behind."""
    registry.OWN.forget()
    yield
    registry.OWN.forget()


@pytest.mark.slow
def test_the_page_works_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module, register = blocks(PAGE, "python")
    assert module.partition("\n")[0].startswith('"""draw')
    assert module.count("\n") <= 55
    (entry,) = blocks(PAGE, "toml")
    head, entry = entry.splitlines()
    assert head == f'[project.entry-points."{registry.OWN.group}"]'
    install(tmp_path, "hetopt_draw", module, registry.OWN.group, entry.replace('"', ""))
    (lines,) = blocks(PAGE, "sh")
    for line in lines.splitlines():
        assert main(line.removeprefix("hetopt ").split()) == 0
    assert "| draw |" in (tmp_path / "compared" / "compare.md").read_text()
    assert main(["catalog"]) == 0
    assert "\ndraw" in capsys.readouterr().out
    # The same record, registered by hand, where no package names it.
    (tmp_path / "hetopt_draw-1.0.dist-info/entry_points.txt").write_text("")
    registry.OWN.forget()
    assert "draw" not in registry.solver_names()
    exec(f"{module}\n{register}", {})
    assert "draw" in registry.solver_names()


def test_a_registered_solver_is_asked() -> None:
    instance = make_instance(3, pinned=False)

    def solve(request: Request) -> Result:
        best = load("dp")(request)
        return replace(best, solver="own", status="feasible")

    registry.register_solver(Solver(name="own", home=solve))
    result = load("own")(
        Request(
            problem=instance.problem, table=instance.table, params=RaceParams(jobs=0)
        )
    )
    assert (result.solver, result.status) == ("own", "feasible")
    with pytest.raises(InputError, match="does not race"):
        refusals.ensure_races("own", "--certificate")


def test_an_engine_of_the_program_itself_is_refused() -> None:
    with pytest.raises(InputError, match="__main__:Engine: workers do not import"):
        racing("own", "__main__:Engine")


def test_names_of_hetopts_solvers_are_taken() -> None:
    with pytest.raises(InputError, match="has the name of one of hetopt's, 'dp'"):
        registry.register_solver(Solver(name="dp", home="nowhere:solve"))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("draw = nowhere:SOLVER", "nowhere:SOLVER cannot be loaded"),
        ("draw = hetopt_draw:search", "is not a Solver named 'draw'"),
        ("other = hetopt_draw:SOLVER", "is not a Solver named 'other'"),
    ],
)
def test_what_is_wrong_with_a_package_is_one_line(
    entry: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "hetopt_draw", raising=False)
    module = blocks(PAGE, "python")[0]
    install(tmp_path, "hetopt_draw", module, registry.OWN.group, entry)
    assert main(["plan", "hetauto-exp1", "--solver", entry.split()[0]]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
