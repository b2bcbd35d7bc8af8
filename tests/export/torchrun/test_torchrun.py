"""torchrun starts any plan; the program finds the plan beside it."""

import json
import subprocess
from pathlib import Path

import pytest

from hetopt.export.bundle import bundle, write_folder
from hetopt.export.torchrun.launcher import LAUNCHER
from tests.export.jobs import draw_job


@pytest.mark.parametrize("seed", range(8))
def test_every_node_starts_its_ranks_of_any_plan(seed: int, tmp_path: Path) -> None:
    job = draw_job(seed)
    files = bundle(job, LAUNCHER, allow_lossy=False)
    assert json.loads(files["plan.json"]) == json.loads(json.dumps(job.plan.to_json()))
    scripts = [text for name, text in sorted(files.items()) if name.endswith(".sh")]
    for node, text in zip(job.placement.nodes, scripts, strict=True):
        assert f"--nproc_per_node={node.slots}" in text
        assert "train.py --plan plan.json" in " ".join(text.replace("\\\n", "").split())
    write_folder(str(tmp_path / "out"), files)
    for path in (tmp_path / "out/nodes").glob("*.sh"):
        subprocess.run(["bash", "-n", str(path)], check=True)
