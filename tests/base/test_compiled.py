"""Machine code that is kept must never outlive what it was made from."""

from __future__ import annotations

import ast
import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hetopt
from hetopt.base import machine_code
from hetopt.schedule import orders

ROOT = Path(hetopt.__file__).parent
#: A kernel that freezes a constant of another package, called through a step.
_KERNEL = """
import sys
from hetopt.base.compiled import kernel, step
from hetopt.formulations.scale import PERIOD_SCALE


@step
def scaled(value: int) -> int:
    return value * PERIOD_SCALE


@kernel
def tripled(value: int) -> int:
    return 3 * scaled(value)


if __name__ != "__main__":
    print(tripled(7), tripled._cache.cache_path, sum(tripled.stats.cache_hits.values()))
"""


def _modules() -> dict[str, Path]:
    """Return every module of the package by its name."""
    return {
        ".".join(("hetopt", *path.relative_to(ROOT).with_suffix("").parts)): path
        for folder in (ROOT, *(each for each in ROOT.iterdir() if each.is_dir()))
        for path in folder.rglob("*.py")
    }


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a copy of the package's sources with a small kernel."""
    shutil.copytree(
        ROOT, tmp_path / "hetopt", ignore=shutil.ignore_patterns("__pycache__", "data")
    )
    (tmp_path / "hetopt" / "solvers" / "tripling.py").write_text(_KERNEL)
    return tmp_path


def _run(tree: Path, cache: str = "XDG_CACHE_HOME") -> tuple[int, str, int]:
    """Call the kernel in a new process: its value, its folder, if it was kept."""
    environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", "import hetopt.solvers.tripling"],
        env={
            **environment,
            "PYTHONPATH": str(tree),
            "HOME": str(tree / "home"),
            cache: str(tree / "cache"),
        },
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    value, folder, hits = done.stdout.split()
    return int(value), folder, int(hits)


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize("cache", ["XDG_CACHE_HOME", "NUMBA_CACHE_DIR"])
def test_constants_of_other_packages_count(copied: Path, cache: str) -> None:
    program = copied / "hetopt" / "formulations" / "scale.py"
    value, folder, hits = _run(copied, cache)
    assert (value % 21, hits) == (0, 0)
    assert _run(copied, cache) == (value, folder, 1)
    program.write_text(program.read_text() + f"\nPERIOD_SCALE = {value // 21 + 4}\n")
    again, other, hits = _run(copied, cache)
    assert (again, hits) == (value + 84, 0)
    assert other != folder


def test_version_and_only_what_kernels_depend_on_counts(copied: Path) -> None:
    package = copied / "hetopt"
    value, folder, _ = _run(copied)
    summary = package / "report" / "summary.py"
    summary.write_text(summary.read_text() + "\nOTHER = 1\n")
    assert _run(copied) == (value, folder, 1)
    version = f'"{hetopt.__version__}"'
    _edit(package / "version.py", f"__version__ = {version}", '__version__ = "9.9"')
    again, other, hits = _run(copied)
    assert (again, hits) == (value, 0)
    assert other != folder


#: It moves into bundles as a package of its own, and has no kernels.
_PROGRAM = "hetopt.export.torch.program"


def test_imports_are_those_that_python_sees() -> None:
    """The cheap scan of a file agrees with its syntax tree."""
    modules = _modules()
    for name, path in modules.items():
        if name.startswith(_PROGRAM):
            continue
        seen = set()
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{path} imports relatively"
                module = node.module or ""
                seen |= {module, *(f"{module}.{item.name}" for item in node.names)}
            elif isinstance(node, ast.Import):
                seen |= {item.name for item in node.names}
        ours = {each.removesuffix(".__init__") for each in modules}
        assert machine_code._imports(name) == seen & ours, name


def test_the_program_of_bundles_stands_alone() -> None:
    for name, path in _modules().items():
        if name.startswith(_PROGRAM):
            if name == f"{_PROGRAM}.orders":
                # A bundle has this file in its place.
                name, path = "hetopt.schedule.orders", Path(orders.__file__)
            source = path.read_text()
            assert "hetopt.base.compiled" not in source, name
            assert machine_code._imports(name) == set(), name


def test_code_that_nobody_uses_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    kept = tmp_path / "hetopt"
    unused, used = (
        kept / "hetopt.solvers.dp.labels-0",
        kept / "hetopt.solvers.bounds.sums-0",
    )
    for folder in (unused, used):
        folder.mkdir(parents=True)
        (folder / "code.code").touch()
    long_ago = time.time() - 2 * machine_code._UNUSED_S
    os.utime(unused, (long_ago, long_ago))
    assert machine_code.folder_of("hetopt.solvers.dp.labels").parent == kept
    assert not unused.exists()
    assert used.exists()


def test_kernels_that_were_compiled_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    module = "hetopt.solvers.dp.label_pool"
    assert machine_code.kernel_names(module) == ["copy_buckets"]
    missing = [f"{module}.copy_buckets"]
    assert machine_code.kept_of([module]) == (missing, [], 1)
    path = machine_code.code_path(module, "copy_buckets", "some types")
    assert machine_code.write_code(path, b"code")
    assert machine_code.read_code(path) == b"code"
    assert machine_code.kept_of([module]) == ([], [], 1)
    path.write_bytes(path.read_bytes()[:-1])
    assert machine_code.kept_of([module]) == (missing, [path], 1)


def test_machine_code_that_cannot_be_kept_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    assert not machine_code.write_code(tmp_path / "file" / "below", b"code")

    def full(path: str, content: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(machine_code, "write_bytes", full)
    assert not machine_code.write_code(tmp_path / "code", b"code")


def test_a_copy_of_the_package_finds_the_same_code(
    copied: Path, tmp_path: Path
) -> None:
    value, folder, hits = _run(copied)
    assert hits == 0
    other = tmp_path / "other"
    other.mkdir()
    shutil.copytree(copied / "hetopt", other / "hetopt")
    shutil.copytree(copied / "cache", other / "cache")
    again, other_folder, hits = _run(other)
    assert (again, Path(other_folder).name, hits) == (value, Path(folder).name, 1)
