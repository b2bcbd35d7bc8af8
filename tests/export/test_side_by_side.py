"""Plans of several pipelines are launched where a runtime runs them, else refused."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import replace
from itertools import accumulate, permutations, product
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from hetopt.check.plan.packing import cut
from hetopt.errors import CheckError, InputError
from hetopt.export.back.importing import import_plan
from hetopt.export.bundle import bundle, write_folder
from hetopt.export.hetu.launcher import STRATEGY
from hetopt.export.hexiscale.launcher import CONFIGS
from hetopt.export.node_parts import node_parts
from hetopt.export.registry import SHIPPED, launcher, reader
from tests.export.jobs import draw_job
from tests.export.shared.test_scripts import started
from tests.runtimes.torch_plans import ONE, PAIR, Case, job_of, side_by_side

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hetopt.export.job import Job

RUN = ("hetu", "hexiscale", "torch", "torchrun")
LLAMA: dict[str, Any] = {
    "hidden": 4096,
    "heads": 32,
    "kv_heads": 32,
    "head_dim": 128,
    "ffn": 11008,
    "vocab": 32000,
}


def cases(schedule: Any, **training: Any) -> tuple[Case, ...]:
    """Return two pipelines, each on half a node, and one of another with replicas."""
    given: dict[str, Any] = {
        "schedule": schedule,
        "model": LLAMA,
        "training": {"seq_len": 4096, "precision": "bf16", "zero": 0, **training},
    }
    return (
        Case(degrees=((1, 1, 4),), layers=(4,), q=5, **given),
        Case(degrees=(PAIR, ONE), layers=(3, 1), q=2, **given),
        Case(
            degrees=((2, 1, 2), (2, 1, 1), (2, 1, 1)),
            layers=(2, 1, 1),
            halls=(1, 1, 1),
            q=3,
            **given,
        ),
    )


def job(schedule: Any = "1f1b", **training: Any) -> Job:
    half = {"hall0": (4,)}
    return side_by_side(cases(schedule, **training), (half, half, {"hall1": (8,)}))


def places(files: dict[str, str]) -> list[tuple[str, int, int]]:
    rows = csv.DictReader(files["ranks.csv"].splitlines())
    return [
        (row["host"], int(row["local_device"]), int(row["pipeline"])) for row in rows
    ]


@pytest.mark.parametrize("name", RUN)
def test_every_device_has_one_rank_and_a_shared_node_is_divided(name: str) -> None:
    own = job("gpipe" if name == "hexiscale" else "1f1b")
    files = bundle(own, launcher(name), allow_lossy=False)
    found = places(files)
    assert len(set(found)) == len(found) == own.world_size == 15
    first = {device for host, device, number in found if number == 0}
    second = {device for host, device, number in found if number == 1}
    assert (first, second) == ({0, 1, 2, 3}, {4, 5, 6})
    assert [number for *_, number in found] == [0] * 4 + [1] * 3 + [2] * 8
    assert "Pipeline 2: 6 sequences an iteration in 3 micro-batches." in " ".join(
        files["README.md"].split()
    )


@pytest.mark.parametrize("name", ["hetu", "hexiscale", "megatron", "nemo", "torch"])
def test_a_node_whose_stages_stand_apart_is_divided_and_read_back(
    name: str, tmp_path: Path
) -> None:
    own = job_of(
        Case(
            schedule="gpipe" if name == "hexiscale" else "1f1b",
            degrees=(PAIR,) * 3,
            halls=(0, 1, 0),
            layers=(2, 1, 1),
            each=2,
            model=LLAMA,
            training={"seq_len": 4096, "precision": "bf16", "zero": 0},
        )
    )
    target = launcher(name)
    files = bundle(own, target, allow_lossy=False)
    ranks = csv.DictReader(files["ranks.csv"].splitlines())
    devices = [int(row["local_device"]) for row in ranks if row["cluster"] == "hall0"]
    assert devices == [0, 1, 2, 3]
    write_folder(str(tmp_path / "out"), files)
    read_back = reader(tmp_path / "out", name).read(tmp_path / "out")
    found = import_plan(read_back, own.problem)
    stages = [replace(stage, resharding=None) for stage in own.stages]
    assert [
        replace(stage, resharding=None) for stage in found.plan.pipeline.stages
    ] == stages


def test_slurm_starts_pipelines_that_share_no_node() -> None:
    target = launcher("slurm")
    with pytest.raises(CheckError, match="ranks of hall0-node-1 that do not follow"):
        bundle(job(), target, allow_lossy=True)
    whole = side_by_side(cases("1f1b")[1:], ({"hall0": (8,)}, {"hall1": (8,)}))
    files = bundle(whole, target, allow_lossy=False)
    assert [number for *_, number in places(files)] == [0] * 3 + [1] * 8
    assert len(json.loads(files["plan.json"])["pipelines"]) == 2


@pytest.mark.parametrize("name", sorted(set(SHIPPED) - {*RUN, "slurm"}))
def test_other_launchers_refuse_by_name(name: str) -> None:
    target = launcher(name)
    message = f"hetopt's files for {target.title} run one"
    with pytest.raises(InputError, match=re.escape(message)) as told:
        bundle(job(), target, allow_lossy=True)
    assert told.value.field == "pipelines"


def test_hetus_generator_makes_the_device_groups_of_the_plan() -> None:
    own = job()
    content = yaml.safe_load(bundle(own, launcher("hetu"), allow_lossy=False)[STRATEGY])
    data = content["ds_parallel"]
    assert data["hetero_layers"] == [[4], [3, 1], [2, 1, 1], [2, 1, 1]]
    assert data["micro_batch_num_list"] == [5, 2, 3, 3]
    assert (data["dp"], data["cp_list"], data["zero"]) == (4, [1] * 4, False)
    # As its generator: each pipeline's stages after those of the pipelines before it.
    begun = [0, *accumulate(map(len, data["hetero_layers"]))]
    groups = [
        [
            [
                data["rank_to_device_mapping"][place]
                for place in range((first + stage) * 4, (first + stage + 1) * 4)
                if place not in data["unused_rank"]
            ]
            for stage in range(len(layers))
        ]
        for first, layers in zip(begun, data["hetero_layers"], strict=False)
    ]
    planned = [
        [
            [
                rank.rank
                for rank in part.placement.ranks
                if (rank.stage, rank.dp) == (stage, dp)
            ]
            for stage in range(len(part.stages))
        ]
        for part in own.parts
        for dp in range(part.stages[0].strategy.dp)
    ]
    assert groups == planned
    assert sorted(d for row in groups for held in row for d in held) == [*range(15)]


def test_hetu_has_one_size_of_microbatches_and_shards_over_all_pipelines() -> None:
    one, other, third = cases("1f1b")
    nodes = {"hall0": (4,)}
    twice = replace(other, each=2)
    mixed = side_by_side((one, twice, third), (nodes, nodes, {"hall1": (8,)}))
    with pytest.raises(CheckError, match="micro-batches of 1, 2, 1 sequences"):
        bundle(mixed, launcher("hetu"), allow_lossy=True)
    sharded = job(zero=1)
    with pytest.raises(CheckError, match="ZeRO stage 1 inside each pipeline"):
        bundle(sharded, launcher("hetu"), allow_lossy=False)
    files = bundle(sharded, launcher("hetu"), allow_lossy=True)
    assert yaml.safe_load(files[STRATEGY])["ds_parallel"]["zero"] is True


def test_hexiscale_has_a_row_for_every_replica() -> None:
    own = job("gpipe")
    files = bundle(own, launcher("hexiscale"), allow_lossy=False)
    assert json.loads(files[CONFIGS]) == {
        "hetero_configs": [[4], [2, 1], [2, 1, 1], [2, 1, 1]],
        "layer_partitions": [[4], [3, 1], [2, 1, 1], [2, 1, 1]],
    }
    scripts = [text for name, text in sorted(files.items()) if name.endswith(".sh")]
    assert "ranks=(0 1 2 3)" in scripts[0]
    assert "ranks=([4]=4 [5]=5 [6]=6)" in scripts[1]
    for text in scripts:
        assert "--global_bsz_size 5 2 3 3 \\" in text
        assert "--chunks 5 2 3 3 \\" in text
        assert "--default_dp_type ddp \\" in text


def test_torchs_pipelines_share_the_batch() -> None:
    own = job()
    files = bundle(own, launcher("torch"), allow_lossy=False)
    content = json.loads(files["job.json"])
    assert content["training"]["global_batch"] == 13
    assert [each["batch"] for each in content["pipelines"]] == [5, 2, 6]
    assert [len(each["stages"]) for each in content["pipelines"]] == [1, 2, 3]
    scripts = [text for name, text in sorted(files.items()) if name.endswith(".sh")]
    devices = [re.search(r"VISIBLE_DEVICES:-(.*?)}", text) for text in scripts]
    assert [each and each[1] for each in devices] == [
        "0,1,2,3",
        "4,5,6",
        "0,1,2,3,4,5,6,7",
    ]


@pytest.mark.parametrize("name", ["torch", "torchrun"])
def test_scripts_of_one_host_share_the_devices_that_it_sees(
    name: str, tmp_path: Path
) -> None:
    """Slurm, say, lists all of them before any script runs."""
    folder = tmp_path / "bundle"
    write_folder(str(folder), bundle(job(), launcher(name), allow_lossy=False))

    def devices(number: int, visible: str) -> str:
        says = "echo $CUDA_VISIBLE_DEVICES"
        ran = started(folder, says, number, CUDA_VISIBLE_DEVICES=visible)
        return ran.stdout.strip() if ran.returncode == 0 else ran.stderr.strip()

    every = "8,9,10,11,12,13,14,15"
    assert [devices(number, every) for number in range(3)] == [
        "8,9,10,11",
        "12,13,14",
        every,
    ]
    # A script that is given its own devices, or none, keeps them.
    assert devices(1, "3,5,6") == "3,5,6"
    assert devices(1, "-1") == "-1"
    assert devices(1, "0,1,2,3,4") == (
        "CUDA_VISIBLE_DEVICES=0,1,2,3,4 leaves too few devices from number 4 on: "
        "3 needed"
    )


def test_parts_are_cut_from_nodes_that_have_them() -> None:
    cluster = replace(
        draw_job(0).problem.clusters[0],
        nodes=3,
        devices_per_node=8,
        unequal=(8, 4, 8),
        group=None,
        hosts=None,
    )
    assert node_parts(cluster, [(8, 4), (4, 4)]) == [[(0, 0), (2, 0)], [(1, 0), (2, 4)]]
    # The fullest node that will do comes first.
    assert node_parts(cluster, [(6, 5), (3, 3)]) == [[(0, 0), (2, 0)], [(2, 5), (1, 0)]]
    assert node_parts(cluster, [(5, 5), (5,)]) is None


@pytest.mark.parametrize("seed", range(300))
def test_parts_are_placed_where_the_check_accepts_them(seed: int) -> None:
    rng = Random(seed)
    sizes = tuple(rng.choice((2, 4, 6)) for _ in range(rng.randint(1, 3)))
    cluster = replace(
        draw_job(0).problem.clusters[0],
        nodes=len(sizes),
        devices_per_node=max(sizes),
        unequal=sizes if len(set(sizes)) > 1 else None,
        max_tp=1,
        group=None,
        hosts=None,
    )
    wanted = [
        tuple(rng.choice((1, 2, 3, 4)) for _ in range(rng.randint(0, 2)))
        for _ in range(rng.randint(2, 3))
    ]
    found = node_parts(cluster, wanted)
    assert (found is not None) == cut(cluster, wanted) == has_nodes(sizes, wanted)
    held: set[tuple[int, int]] = set()
    for own, places in zip(wanted, found or [], strict=False):
        assert len({node for node, _ in places}) == len(own)
        for size, (node, first) in zip(own, places, strict=True):
            devices = {(node, first + each) for each in range(size)}
            assert not held & devices
            assert first + size <= sizes[node]
            held |= devices


def has_nodes(sizes: Sequence[int], wanted: Sequence[Sequence[int]]) -> bool:
    """Whether some choice of different nodes for each pipeline's parts has room."""
    every = [permutations(range(len(sizes)), len(own)) for own in wanted]
    for nodes in product(*every):
        left = list(sizes)
        for own, given in zip(wanted, nodes, strict=True):
            for size, node in zip(own, given, strict=True):
                left[node] -= size
        if min(left) >= 0:
            return True
    return False
