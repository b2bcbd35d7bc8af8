"""Launchers of users: registered, named by an entry point, or refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.cli import main
from hetopt.errors import InputError
from hetopt.export import registry
from hetopt.export.bundle import bundle
from hetopt.export.launcher import Launcher
from tests.export.jobs import draw_job
from tests.own_packages import blocks, install

PAGE = "docs/how-to/write-an-exporter.md"
OWN = Launcher(
    name="own",
    title="Own",
    files=lambda job: {"run.sh": f"# {job.world_size}\n"},
    commands=lambda job: "run it",
)


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Leave no launcher of a test behind."""
    registry.OWN.forget()
    yield
    registry.OWN.forget()


def test_the_page_works_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    module, register = blocks(PAGE, "python")
    (entry,) = blocks(PAGE, "toml")
    head, entry = entry.splitlines()
    assert head == f'[project.entry-points."{registry.OWN.group}"]'
    install(
        tmp_path, "hetopt_mpirun", module, registry.OWN.group, entry.replace('"', "")
    )
    (lines,) = blocks(PAGE, "sh")
    for line in lines.splitlines():
        assert main(line.removeprefix("hetopt ").split()) == 0
    assert "rank 0=" in (tmp_path / "bundle/rankfile").read_text()
    assert main(["catalog"]) == 0
    assert "mpirun" in capsys.readouterr().out
    # The same record, registered by hand, where no package names it.
    (tmp_path / "hetopt_mpirun-1.0.dist-info/entry_points.txt").write_text("")
    registry.OWN.forget()
    assert "mpirun" not in registry.launcher_names()
    exec(f"{module}\n{register}", {})
    assert "mpirun" in registry.limited_names()


def test_a_registered_launcher_writes_bundles() -> None:
    registry.register_exporter(OWN)
    assert registry.launcher_names()[-1] == "own"
    files = bundle(draw_job(1), registry.launcher("own"), allow_lossy=False)
    assert set(files) == {"README.md", "ranks.csv", "hostfile", "run.sh"}
    with pytest.raises(InputError, match=r"'own' with limits of its own \(it starts"):
        registry.limits_of("own")


def test_names_of_hetopts_launchers_are_taken() -> None:
    with pytest.raises(InputError, match="has the name of one of hetopt's, 'slurm'"):
        registry.register_exporter(replace(OWN, name="slurm"))


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("mpirun = nowhere:LAUNCHER", "nowhere:LAUNCHER cannot be loaded"),
        ("mpirun = hetopt_mpirun:NOTHING", "hetopt_mpirun:NOTHING cannot be loaded"),
        ("mpirun = hetopt_mpirun:losses", "is not a Launcher named 'mpirun'"),
        ("other = hetopt_mpirun:LAUNCHER", "is not a Launcher named 'other'"),
        ("slurm = hetopt_mpirun:LAUNCHER", "has the name of one of hetopt's"),
        ("mpirun = hetopt_mpirun:fails", "cannot be loaded: out of order"),
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
    monkeypatch.delitem(__import__("sys").modules, "hetopt_mpirun", raising=False)
    module = blocks(PAGE, "python")[0]
    if "fails" in entry:
        module = "raise RuntimeError('out of order')\n"
    install(tmp_path, "hetopt_mpirun", module, registry.OWN.group, entry)
    name = entry.split()[0]
    told = ["export", "hetauto-exp1", "plan.json", "--to", name, "--out", "bundle"]
    if name == "slurm":
        told = ["catalog"]
    assert main(told) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
