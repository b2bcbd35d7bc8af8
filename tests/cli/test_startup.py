"""hetopt starts without loading what it does not need yet."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module, metadata

import pytest

import hetopt
from hetopt.cli import entry

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
    """Return the modules that a new interpreter has loaded after ``code``."""
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
    return set(done.stderr.rpartition("|")[2].split())


@pytest.mark.parametrize(
    "code",
    [
        "import hetopt",
        "import hetopt.solvers.registry",
        *(
            f"from hetopt.cli import main\ntry: main({arguments})\n"
            "except SystemExit: pass"
            for arguments in (
                ["--help"],
                *([each, "--help"] for each in entry.COMMANDS),
            )
        ),
    ],
)
def test_nothing_heavy_is_loaded(code: str, environment: dict[str, str]) -> None:
    names = {name.partition(".")[0] for name in loaded(code, environment)}
    assert "hetopt" in names
    assert not names & HEAVY


def test_records_load_what_checks_them_alone(environment: dict[str, str]) -> None:
    code = "import hetopt.problem.problem, hetopt.plans.plan, hetopt.results.result"
    names = {name.partition(".")[0] for name in loaded(code, environment)}
    assert names & HEAVY == {"pydantic"}


@pytest.mark.parametrize(
    ("arguments", "own"), [(["--help"], set()), (["check", "--help"], {"check"})]
)
def test_help_loads_no_other_command(
    arguments: list[str], own: set[str], environment: dict[str, str]
) -> None:
    code = (
        f"from hetopt.cli import main\ntry: main({arguments})\nexcept SystemExit: pass"
    )
    modules = {entry.module_name(name) for name in entry.COMMANDS}
    expected = {entry.module_name(name) for name in own}
    assert loaded(code, environment) & modules == expected


@pytest.mark.parametrize("name", entry.COMMANDS)
def test_a_command_is_said_to_do_what_its_module_does(name: str) -> None:
    module = import_module(entry.module_name(name))
    summary = (module.__doc__ or "").partition("\n")[0].rstrip(".")
    assert entry.COMMANDS[name] == summary[0].lower() + summary[1:]


def test_every_command_has_its_options_by_default() -> None:
    (commands,) = (
        action.choices
        for action in entry.parser()._actions
        if isinstance(action.choices, dict)
    )
    assert list(commands) == list(entry.COMMANDS)
    for command in commands.values():
        assert command.get_default("run") is not None


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
