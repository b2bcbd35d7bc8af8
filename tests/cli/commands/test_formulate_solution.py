"""``hetopt formulate --solution`` makes a checked plan of what a solver answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ortools.sat.python import cp_model

from hetopt.cli import main
from hetopt.problem.digest import problem_digest
from hetopt.problem.reading import read_problem
from tests.formulations import readers


def arguments(folder: Path, p: int = 2, q: int = 4) -> list[str]:
    named = ["--p", str(p), "--q", str(q), "--formulation", "intervals"]
    return ["formulate", str(folder / "problem.yaml"), *named]


@pytest.fixture(scope="module")
def solutions(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with HiGHS's and SCIP's solution of one program."""
    folder = tmp_path_factory.mktemp("solutions")
    model = folder / "model.mps"
    assert main([*arguments(small), "--out", str(model)]) == 0
    readers.highs(model, folder / "highs.sol")
    return folder


@pytest.fixture(scope="module")
def optimum_s(small: Path, tmp_path_factory: pytest.TempPathFactory) -> float:
    """Return CP-SAT's optimum of the same (p, q)."""
    path = tmp_path_factory.mktemp("cp-sat") / "model.proto"
    own = ["formulate", str(small / "problem.yaml"), "--p", "2", "--q", "4"]
    assert main([*own, "--out", str(path)]) == 0
    model = cp_model.CpModel()
    model.Proto().ParseFromString(path.read_bytes())
    assert "formulation cp-sat: p = 2 stages" in model.Proto().name
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.linearization_level = 2
    solver.solve(model)
    assert solver.status_name() == "OPTIMAL"
    return solver.objective_value * 1e-12


@pytest.mark.parametrize("form", ["lp", "mps"])
@pytest.mark.parametrize("reader", readers.READERS)
def test_a_plan_of_every_solver(
    small: Path,
    optimum_s: float,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    reader: str,
    form: str,
) -> None:
    own = arguments(small)
    model, solution = tmp_path / f"model.{form}", tmp_path / "model.sol"
    plan = tmp_path / "plan.json"
    assert main([*own, "--out", str(model)]) == 0
    head = model.read_text().splitlines()[:6]
    assert "p = 2 stages, q = 4 micro-batches" in head[0]
    digest = problem_digest(read_problem(str(small / "problem.yaml")))
    assert head[1].endswith(f"'problem', digest {digest}")
    assert "units of 10000 nanoseconds" in head[3]
    readers.READERS[reader](model, solution)
    capsys.readouterr()
    assert main([*own, "--solution", str(solution), "--out", str(plan)]) == 0
    said = capsys.readouterr().out
    assert f"{optimum_s:.6g} s in closed form" in said
    stages = json.loads(plan.read_text())["pipelines"][0]["stages"]
    assert len(stages) == 2
    assert main(["check", str(small / "problem.yaml"), str(plan)]) == 0


@pytest.mark.parametrize("form", ["lp", "mps"])
def test_a_plan_of_the_miqp(
    small: Path,
    optimum_s: float,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: str,
) -> None:
    pytest.importorskip("pyscipopt")
    own = [*arguments(small)[:-1], "miqp"]
    model, solution = tmp_path / f"model.{form}", tmp_path / "model.sol"
    plan = tmp_path / "plan.json"
    assert main([*own, "--out", str(model)]) == 0
    assert "not GLPK, CBC, HiGHS" in model.read_text()
    readers.scip(model, solution)
    capsys.readouterr()
    assert main([*own, "--solution", str(solution), "--out", str(plan)]) == 0
    assert f"{optimum_s:.6g} s in closed form" in capsys.readouterr().out
    lines = solution.read_text().splitlines()
    without = [line for line in lines if not line.startswith("N(")]
    solution.write_text("\n".join(without))
    assert main([*own, "--solution", str(solution), "--out", str(plan)]) == 2
    assert "model.sol: violates row or column '" in capsys.readouterr().err


def test_a_plan_of_uniap(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["formulate", "uniap-bert-huge", "--p", "1", "--q", "4"]
    own += ["--formulation", "uniap"]
    model, solution = tmp_path / "model.lp", tmp_path / "model.sol"
    plan = tmp_path / "plan.json"
    assert main([*own, "--out", str(model)]) == 0
    readers.glpk(model, solution)
    assert main([*own, "--solution", str(solution), "--out", str(plan)]) == 0
    assert "UniAP's objective" in capsys.readouterr().out
    assert main(["check", "uniap-bert-huge", str(plan)]) == 0


def changed(name: str, value: str, text: str) -> str:
    """Give every column whose name begins so another value."""
    lines = [
        f"{line.split()[0]} {value}" if line.startswith(name) else line
        for line in text.splitlines()
    ]
    return "\n".join(lines)


def without_sync(text: str) -> str:
    """Leave one column out."""
    lines = [line for line in text.splitlines() if not line.startswith("sync ")]
    return "\n".join(lines).replace("# Columns 43", "# Columns 42")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: changed("units(0)", "2.5", text), "is 2.5, expected a whole"),
        (lambda text: changed("hosts(", "1", text), "violates row or column '"),
        (lambda text: changed("tau(0)", "0.001", text), "violates row or column '"),
        (lambda text: changed("hosts(", "-1", text), "expected 0 to 1"),
        (lambda text: changed("period", "nan", text), "period is nan"),
        (lambda text: text.replace("intervals_p2_q4", "intervals_p2_q8"), "_p2_q8_"),
        (lambda text: text.replace("sync ", "sink "), "has column 'sink'"),
        (lambda text: text[: text.index("tau(0)")], "but the file ends early"),
        (without_sync, "lacks column 'sync'"),
        (lambda _: "nothing", "is no solution file of GLPK, CBC"),
        (lambda _: "", "is no solution file"),
        (
            lambda _: "Model status\nInfeasible\n\n# Primal solution values\nNone\n",
            "HiGHS found no solution (it says: Infeasible)",
        ),
        (lambda _: "Infeasible - objective value 3\n", "CBC found no solution"),
        (lambda _: "Optimal - objective value 3\n 0 x\n", "is cut off or malformed"),
        (lambda _: "Problem: x\nStatus: INTEGER OPTIMAL\n", "no line starts with"),
        (lambda _: "s bas 1 1 f f 0\n", "of the relaxation"),
        (lambda _: "s mip 1 1 o 3\nj 1 1\ne o f\n", "lacks column '2'"),
        (lambda _: "solution status: infeasible\nno solution available\n", "no sol"),
    ],
)
def test_refuses_what_is_no_solution(
    small: Path,
    solutions: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: object,
    message: str,
) -> None:
    assert callable(change)
    broken, plan = tmp_path / "broken.sol", tmp_path / "plan.json"
    broken.write_text(change((solutions / "highs.sol").read_text()))
    own = [*arguments(small), "--solution", str(broken), "--out", str(plan)]
    assert main(own) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"{broken}: ")
    assert said.count("\n") == 1
    assert message in said
    assert not plan.exists()


@pytest.mark.parametrize("numbers", [(2, 2), (1, 4)])
def test_refuses_a_solution_of_another_program(
    small: Path,
    solutions: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    numbers: tuple[int, int],
) -> None:
    plan, solution = tmp_path / "plan.json", str(solutions / "highs.sol")
    own = [*arguments(small, *numbers), "--solution", solution, "--out", str(plan)]
    assert main(own) == 2
    assert "is a solution of intervals_p2_q4_" in capsys.readouterr().err
    # Another problem with the same columns.
    other = (
        (small / "problem.yaml").read_text().replace("seq_len: 1024", "seq_len: 512")
    )
    (tmp_path / "problem.yaml").write_text(other)
    own = [*arguments(tmp_path), "--solution", solution, "--out", str(plan)]
    assert main(own) == 2
    assert "expected one of intervals_p2_q4_" in capsys.readouterr().err
    assert not plan.exists()


def test_refuses_files_that_are_none(
    small: Path, solutions: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = str(tmp_path / "plan.json")
    for path, message in (
        ("/dev/zero", "is a device"),
        (str(tmp_path), "is a directory"),
        (str(tmp_path / "none.sol"), "no such file"),
    ):
        own = [*arguments(small), "--solution", path, "--out", plan]
        assert main(own) == 2
        assert message in capsys.readouterr().err
    solution = str(solutions / "highs.sol")
    before = Path(solution).read_text()
    for path in (solution, str(small / "problem.yaml")):
        own = [*arguments(small), "--solution", solution, "--out", path]
        assert main(own) == 2
        assert "name another file" in capsys.readouterr().err
    assert Path(solution).read_text() == before
    own = [*arguments(small), "--solution", str(tmp_path / "none"), "--out", solution]
    assert main(own) == 2
    assert "no such file" in capsys.readouterr().err
    own = ["formulate", str(small / "problem.yaml"), "--p", "2", "--q", "4"]
    assert main([*own, "--solution", solution, "--out", plan]) == 2
    assert "expected intervals, miqp, uniap" in capsys.readouterr().err
