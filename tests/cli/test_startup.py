"""hetopt starts without loading what it does not need yet."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest

import hetopt

HEAVY = {
    "google",
    "highspy",
    "numpy",
    "ortools",
    "pydantic",
    "pyomo",
    "rich",
    "scipy",
    "sklearn",
    "yaml",
}


def loaded(code: str, environment: dict[str, str]) -> set[str]:
    """Return the top-level modules that a new interpreter has loaded after ``code``."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"{code}\nimport sys\nprint('|', *sys.modules, file=sys.stderr)",
        ],
        capture_output=True,
        check=True,
        env=environment,
        text=True,
    )
    return {name.partition(".")[0] for name in done.stderr.rpartition("|")[2].split()}


@pytest.mark.parametrize(
    "code",
    [
        "import hetopt",
        "import hetopt.errors, hetopt.plans, hetopt.result, hetopt.solvers.registry",
        "import hetopt.problem.problem, hetopt.cost.table",
        "from hetopt.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass",
        "from hetopt.cli import main\n"
        "try: main(['plan', '--help'])\nexcept SystemExit: pass",
    ],
)
def test_nothing_heavy_is_loaded(code: str, environment: dict[str, str]) -> None:
    names = loaded(code, environment)
    assert "hetopt" in names
    assert not names & HEAVY


def test_every_public_name_loads() -> None:
    for name in hetopt.__all__:
        assert getattr(hetopt, name) is not None
    assert set(hetopt.__all__) <= set(dir(hetopt))


def test_unknown_names_are_refused() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        hetopt.nonsense  # noqa: B018


def test_one_version() -> None:
    try:
        installed = metadata.version("hetopt")
    except metadata.PackageNotFoundError:
        pytest.skip("hetopt is not installed")
    assert installed == hetopt.__version__
