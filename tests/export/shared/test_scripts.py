"""Start scripts look at the runtime's version before they start anything."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hetopt.export.bundle import bundle, write_folder
from hetopt.export.registry import launcher
from hetopt.problem.reading import read_problem_text
from tests.export.jobs import draw_job, untied

#: A release that bundles were tested with, and its module, by launcher.
RELEASES = {
    "megatron": ("megatron.core", "0.16.1"),
    "nemo": ("megatron.bridge", "0.3.1"),
    "torchtitan": ("torchtitan", "0.3.0"),
}


def started(
    folder: Path, says: str = "echo started", number: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run one of a bundle's scripts with a torchrun that says that it was called."""
    programs = folder.parent / "bin"
    programs.mkdir(exist_ok=True)
    torchrun = programs / "torchrun"
    torchrun.write_text(f"#!/bin/sh\n{says}\n")
    torchrun.chmod(0o755)
    python = programs / "python"
    python.unlink(missing_ok=True)
    python.symlink_to(sys.executable)
    path = f"{programs}:{os.environ['PATH']}"
    script = sorted(folder.glob("nodes/*.sh"))[number]
    return subprocess.run(
        [str(script)],
        env={"PATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", RELEASES)
def test_another_version_ends_the_script_in_one_line(name: str, tmp_path: Path) -> None:
    job = untied(draw_job(4, alike=True, cp=False, recompute=("none",)))
    folder = tmp_path / "checkout" / "bundle"
    folder.parent.mkdir()
    write_folder(str(folder), bundle(job, launcher(name), allow_lossy=True))
    module, release = RELEASES[name]
    none = started(folder)
    assert (none.returncode, none.stdout) == (1, "")
    assert f"{module} cannot be imported" in none.stderr
    # As in a checkout: the folder above has the runtime.
    package = folder.parent.joinpath(*module.split("."))
    package.mkdir(parents=True)
    for version, code in ((release, 0), ("0.99.0", 1)):
        (package / "__init__.py").write_text(f'__version__ = "{version}"\n')
        ran = started(folder)
        assert ran.returncode == code, ran.stderr
        assert ran.stdout == ("" if code else "started\n")
    assert ran.stderr.startswith(f"tested with {module} 0.")
    assert "found 0.99.0; set ANY_VERSION=1 in" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert started(folder, ANY_VERSION="1").stdout == "started\n"
    assert f"`{module}` {release[: release.rindex('.')]}" in (
        folder / "README.md"
    ).read_text("utf-8")


@pytest.mark.parametrize("name", ["torch", "torchrun"])
def test_ranks_have_one_thread_unless_the_environment_says(
    name: str, tmp_path: Path
) -> None:
    """Also where torchrun starts a single process, and so would not limit it."""
    job = draw_job(4, alike=True, cp=False, recompute=("none",))
    folder = tmp_path / "bundle"
    write_folder(str(folder), bundle(job, launcher(name), allow_lossy=True))
    says = "echo threads $OMP_NUM_THREADS"
    assert started(folder, says).stdout == "threads 1\n"
    assert started(folder, says, OMP_NUM_THREADS="3").stdout == "threads 3\n"


def test_what_is_tested_is_what_the_marked_suite_installs() -> None:
    makefile = Path(__file__).parents[3].joinpath("Makefile").read_text("utf-8")
    for name, (module, release) in RELEASES.items():
        tested = launcher(name).tested
        assert tested is not None
        assert tested.module == module
        assert release.startswith(f"{tested.what}.")
        assert f"{module.replace('.', '-')}=={release}" in makefile


@pytest.mark.parametrize(
    ("device", "variable"),
    [
        ("{preset: MI300X, name: H100}", "HIP_VISIBLE_DEVICES"),
        ("{preset: Ascend-A2-64GB, name: mine}", "ASCEND_RT_VISIBLE_DEVICES"),
        ("{like: MI300X, name: mine}", "HIP_VISIBLE_DEVICES"),
        ("{preset: H100, name: Ascend}", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_a_node_script_sets_the_variable_of_the_device(
    device: str, variable: str
) -> None:
    """Whatever it is called."""
    text = (
        "model: {preset: llama-7b}\n"
        f"clusters: [{{name: a, accelerator: {device}, nodes: 1, "
        "devices_per_node: 2}]\n"
        "training: {global_batch: 4, seq_len: 1024}\n"
    )
    used = read_problem_text(text).clusters[0].accelerator
    drawn = draw_job(4, alike=True, cp=False, recompute=("none",))
    clusters = tuple(replace(c, accelerator=used) for c in drawn.problem.clusters)
    job = replace(drawn, problem=replace(drawn.problem, clusters=clusters))
    files = bundle(job, launcher("torchrun"), allow_lossy=True)
    scripts = [text for name, text in files.items() if name.startswith("nodes/")]
    assert scripts
    assert all(f"export {variable}=" in text for text in scripts)
