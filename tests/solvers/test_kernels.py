"""What is compiled before a search is all that the search calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hetopt
from hetopt.base import machine_code
from hetopt.solvers.kernels import KERNELS, kernels_for
from hetopt.solvers.registry import SOLVERS

#: Plans problems, and prints which functions numba compiled meanwhile.
_PROGRAM = """
import json, sys
from numba.core import event

class Listener(event.Listener):
    def on_start(self, event): pass
    def on_end(self, event): made.append(event.data["dispatcher"].py_func.__qualname__)

made = []
event.register("numba:compile", Listener())
import hetopt
from hetopt.errors import InputError
for name, options in json.loads(sys.argv[1]):
    try:
        hetopt.plan(name, jobs=1, **options)
    except InputError:
        pass
    sys.stdout.write(json.dumps(made) + "\\n")
"""
#: Of every sort: few and many clusters, priced devices, experts, one cluster.
PROBLEMS = (
    "hetauto-exp2",
    "hapt-gpt39b",
    "h2-exp-c-1",
    "deepseek-v3-h20-h800",
    "hetauto-table1-a100",
)


def _compiled_in(*runs: tuple[str, dict[str, object]]) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, json.dumps(runs)],
        capture_output=True,
        text=True,
        check=True,
    )
    made: list[str] = json.loads(done.stdout.splitlines()[-1])
    return made


def test_a_default_search_compiles_nothing_of_its_own() -> None:
    assert _compiled_in(("hetauto-exp1", {}), ("h2-exp-d", {})) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", PROBLEMS)
def test_no_search_compiles_anything_of_its_own(name: str) -> None:
    every: list[tuple[str, dict[str, object]]] = [
        (name, {"time_limit_s": 3, **options})
        for options in (
            {},
            {"objective": "closed", "top": 3},
            {"schedule": "free-1f1b"},
            {"schedule": "zb-h1"},
            {"relax": ["p3", "p4"]},
        )
    ]
    assert _compiled_in(*every) == []


def test_every_kernel_is_in_one_set() -> None:
    """A module with kernels is in a set, or compiles within a run by intent."""
    root = Path(hetopt.__file__).parent
    modules = [
        ".".join(("hetopt", *path.relative_to(root).with_suffix("").parts))
        for folder in (root, root / "solvers", root / "formulations")
        for path in folder.rglob("*.py")
    ]
    found = {name for name in modules if machine_code.kernel_names(name)}
    in_sets = [name for each in KERNELS.values() for name in each.modules]
    assert len(in_sets) == len(set(in_sets))
    # Compiling these pays off within one run, or they are not called at all.
    while_running = {"hetopt.schedule.run", "hetopt.check.plan.schedule.run"}
    assert found == {*in_sets, *while_running}


def test_solvers_name_kernels_that_there_are() -> None:
    for solver in SOLVERS:
        assert set(kernels_for(solver)) <= set(KERNELS)


def test_only_free_warm_ups_need_their_kernels() -> None:
    simulated = kernels_for("auto", objective="simulated", schedules=["1f1b"])
    assert "free warm-ups" not in simulated
    free = kernels_for("auto", objective="simulated", schedules=["1f1b", "free-1f1b"])
    assert {*free} == {*simulated, "free warm-ups"}
    assert "tree" in kernels_for("auto", limited=True)
