"""Solvers that read LP and MPS files, each as its own users run it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

#: Solvers' own gaps are up to 1e-4; with none, tolerances of 1e-7 and less are left.
NO_GAP = 0.0


def glpk(path: Path, out: Path, *, raw: bool = False) -> None:
    """Solve with GLPK and write what ``glpsol --output``, or ``--write``, does."""
    swiglpk: Any = pytest.importorskip("swiglpk")
    swiglpk.glp_term_out(swiglpk.GLP_OFF)
    program = swiglpk.glp_create_prob()
    if path.suffix == ".lp":
        code = swiglpk.glp_read_lp(program, None, str(path))
    else:
        code = swiglpk.glp_read_mps(program, swiglpk.GLP_MPS_FILE, None, str(path))
    assert code == 0, f"GLPK does not read {path}"
    options = swiglpk.glp_iocp()
    swiglpk.glp_init_iocp(options)
    options.presolve = swiglpk.GLP_ON
    options.mip_gap = NO_GAP
    swiglpk.glp_intopt(program, options)
    write = swiglpk.glp_write_mip if raw else swiglpk.glp_print_mip
    assert write(program, str(out)) == 0
    swiglpk.glp_delete_prob(program)


def glpk_raw(path: Path, out: Path) -> None:
    """Solve with GLPK and write what ``glpsol --write`` does."""
    glpk(path, out, raw=True)


def cbc(path: Path, out: Path, *, everything: bool = False) -> None:
    """Solve with the CBC that PuLP brings."""
    pulp: Any = pytest.importorskip("pulp.apis.coin_api")
    more = ["printingOptions", "all"] if everything else []
    command = [pulp.pulp_cbc_path, str(path), "ratioGap", "0", "allowableGap"]
    done = subprocess.run(
        [*command, "0", "solve", *more, "solution", str(out)],
        capture_output=True,
        check=True,
        text=True,
        timeout=120,
    )
    # CBC goes on after what it does not understand.
    assert "###" not in done.stdout
    assert "rror" not in done.stdout.replace("with 0 errors", "")


def cbc_with_rows(path: Path, out: Path) -> None:
    """Solve with CBC, and write rows and zeros too."""
    cbc(path, out, everything=True)


def scip(path: Path, out: Path) -> None:
    """Solve with SCIP."""
    pyscipopt: Any = pytest.importorskip("pyscipopt")
    model = pyscipopt.Model()
    model.hideOutput()
    model.setParam("numerics/feastol", 1e-7)
    model.readProblem(str(path))
    model.optimize()
    # SCIP's shell writes the status first.
    said = f"solution status: {model.getStatus()}\n"
    if model.getNSols():
        model.writeBestSol(str(out))
        out.write_text(said + out.read_text())
    else:
        out.write_text(said + "no solution available\n")


def highs(path: Path, out: Path) -> None:
    """Solve with HiGHS."""
    import highspy

    solver = highspy.Highs()
    solver.silent()
    # Presolve of this version is not to be trusted; see ``hetopt.solvers.mip.highs``.
    solver.setOptionValue("presolve", "off")
    solver.setOptionValue("mip_rel_gap", NO_GAP)
    assert solver.readModel(str(path)) == highspy.HighsStatus.kOk
    solver.run()
    assert solver.writeSolution(str(out), 0) == highspy.HighsStatus.kOk


READERS = {
    "glpk": glpk,
    "glpk-raw": glpk_raw,
    "cbc": cbc,
    "cbc-with-rows": cbc_with_rows,
    "scip": scip,
    "highs": highs,
}
