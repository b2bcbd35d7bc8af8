"""A Slurm job starts every rank of the plan, once, where the plan has it."""

from __future__ import annotations

import csv
import re
import subprocess
from itertools import groupby
from pathlib import Path

import pytest

from hetopt.export.bundle import bundle, write_folder
from hetopt.export.job import Job
from hetopt.export.slurm.launcher import LAUNCHER
from tests.export.jobs import draw_job

#: Stand-ins: nodes are listed by a comma, srun starts what the batch script asked for.
FAKES = {
    "scontrol": '#!/bin/bash\ntr , "\\n" <<<"$3"\n',
    "python": '#!/bin/bash\necho "$SLURMD_NODENAME $RANK $LOCAL_RANK '
    '$LOCAL_WORLD_SIZE $WORLD_SIZE $MASTER_ADDR $*" >>"$LOG"\n',
    "srun": """#!/bin/bash
echo "$*" >>"$LOG.srun"
[[ $1 == --het-group=* ]] && shift
while read -r host tasks; do
  for ((i = 0; i < tasks; i++)); do
    SLURMD_NODENAME=$host SLURM_LOCALID=$i "$@"
  done
done <"$LOG.nodes"
""",
}


def components(text: str) -> list[dict[str, str]]:
    """Return the options of each component of a batch script."""
    head = text.split("set -euo pipefail")[0]
    return [
        dict(re.findall(r"^#SBATCH --([a-z-]+)=(\S+)$", part, re.MULTILINE))
        for part in head.split("#SBATCH hetjob\n")
    ]


def run(job: Job, folder: Path) -> list[str]:
    """Run a bundle with the stand-ins; return what each rank was told."""
    write_folder(str(folder / "out"), bundle(job, LAUNCHER, allow_lossy=False))
    (folder / "bin").mkdir()
    for name, text in FAKES.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    parts = components((folder / "out" / "job.sbatch").read_text())
    left = [node.host for node in job.placement.nodes]
    environment = {
        "PATH": f"{folder / 'bin'}:/usr/bin:/bin",
        "SLURM_SUBMIT_DIR": str(folder / "out"),
        "LOG": str(folder / "log"),
    }
    nodes = []
    for number, part in enumerate(parts):
        hosts, left = left[: int(part["nodes"])], left[int(part["nodes"]) :]
        group = f"_HET_GROUP_{number}" if len(parts) > 1 else ""
        environment[f"SLURM_JOB_NODELIST{group}"] = ",".join(hosts)
        nodes += [f"{host} {part['ntasks-per-node']}\n" for host in hosts]
    assert not left
    (folder / "log.nodes").write_text("".join(nodes))
    subprocess.run(
        ["bash", str(folder / "out" / "job.sbatch"), "--lr", "1"],
        env=environment,
        check=True,
    )
    groups = ",".join(map(str, range(len(parts))))
    option = f"--het-group={groups} " if len(parts) > 1 else ""
    assert (folder / "log.srun").read_text() == f"{option}./rank.sh --lr 1\n"
    return (folder / "log").read_text().splitlines()


def some_jobs() -> list[Job]:
    """Draw a job of one component, and small ones of several."""
    jobs = [draw_job(seed) for seed in range(60)]
    small = [job for job in jobs if job.world_size <= 48]
    many = [job for job in small if len({n.cluster for n in job.placement.nodes}) > 1]
    return [next(job for job in small if len(job.placement.nodes) == 1), *many[:4]]


@pytest.mark.parametrize("job", some_jobs(), ids=lambda job: job.problem.name)
def test_every_rank_is_started_where_the_plan_has_it(job: Job, tmp_path: Path) -> None:
    told = run(job, tmp_path)
    with (tmp_path / "out" / "ranks.csv").open() as file:
        rows = list(csv.DictReader(file))
    slots = {node.host: node.slots for node in job.placement.nodes}
    assert told == [
        f"{row['host']} {row['global_rank']} {row['local_device']} "
        f"{slots[row['host']]} {job.world_size} {job.placement.nodes[0].host} "
        "train.py --plan plan.json --lr 1"
        for row in rows
    ]


@pytest.mark.parametrize("seed", range(40))
def test_components_are_runs_of_like_hosts(seed: int) -> None:
    job = draw_job(seed)
    files = bundle(job, LAUNCHER, allow_lossy=False)
    parts = components(files["job.sbatch"])
    runs = [
        list(run)
        for _, run in groupby(job.placement.nodes, key=lambda n: (n.cluster, n.slots))
    ]
    assert len(parts) == len(runs)
    assert files["job.sbatch"].count("#SBATCH hetjob") == len(runs) - 1
    for part, nodes in zip(parts, runs, strict=True):
        assert int(part["nodes"]) == len(nodes)
        assert int(part["ntasks-per-node"]) == nodes[0].slots
        assert part["gpus-per-node"] == part["ntasks-per-node"]
        # Hosts of the inventory by name, else a placeholder that is said to be one.
        if nodes[0].cluster in job.placement.invented:
            assert "constraint" in part
            assert "placeholders" in files["README.md"]
        else:
            assert part["nodelist"].split(",") == [node.host for node in nodes]
    subprocess.run(["bash", "-n"], input=files["job.sbatch"], text=True, check=True)
    assert "one Slurm cluster" in files["README.md"]


def test_too_few_nodes_stop_the_job(tmp_path: Path) -> None:
    job = some_jobs()[1]
    write_folder(str(tmp_path / "out"), bundle(job, LAUNCHER, allow_lossy=False))
    (tmp_path / "scontrol").write_text("#!/bin/bash\necho a\necho b\necho c\n" * 9)
    (tmp_path / "scontrol").chmod(0o755)
    names = {f"SLURM_JOB_NODELIST_HET_GROUP_{n}": "x" for n in range(9)}
    done = subprocess.run(
        ["bash", str(tmp_path / "out" / "job.sbatch")],
        env={
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "SLURM_SUBMIT_DIR": str(tmp_path / "out"),
            **names,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "x is 27 nodes, expected" in done.stderr
