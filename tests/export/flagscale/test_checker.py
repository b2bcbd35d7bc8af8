"""The FlagScale checker rejects what is wrong for its reason, and nothing right."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetopt.export.bundle import bundle, write_folder
from hetopt.export.flagscale.launcher import LAUNCHER
from tests.export.flagscale.checker import ROWS, broken_rules
from tests.export.jobs import draw_job

#: Drawn jobs by default; HETOPT_EXPORTS=500 tries that many instead.
COUNT = int(os.environ.get("HETOPT_EXPORTS", "60"))

HOSTS = """\
10.0.0.1 slots=8 type=A800
10.0.0.2 slots=8 type=A800
10.1.0.1 slots=8 type=H20
"""
#: 3 stages, 8 micro-batches.
EXPERIMENT: dict[str, Any] = {
    "defaults": ["_self_", {"train": "llama"}],
    "experiment": {
        "exp_name": "llama",
        "exp_dir": "./outputs",
        "task": {
            "type": "train",
            "backend": "megatron",
            "entrypoint": "./flagscale/train/train_gpt.py",
        },
        "runner": {
            "backend": "torchrun",
            "nnodes": 3,
            "hostfile": "/shared/llama/hostfile",
            "rdzv_backend": "static",
            "master_port": 29500,
            "ssh_port": 22,
        },
        "envs": {
            "CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7",
            "CUDA_DEVICE_MAX_CONNECTIONS": 1,
        },
    },
    "action": "run",
    "hydra": {"run": {"dir": "${experiment.exp_dir}/hydra"}},
}
TRAIN: dict[str, Any] = {
    "system": {
        "tensor_model_parallel_size": 2,
        "pipeline_model_parallel_size": 3,
        "sequence_parallel": True,
        "standalone_embedding_stage": False,
        "hetero": {
            "enable_hetero": True,
            "hetero_process_meshes": [2, 1, 1, 4, 2, 4, 1, 1, 2, 1],
            "hetero_pipeline_layer_split": [10, 8, 6],
            "hetero_device_types": ["A800", "H20"],
            "hetero_current_device_type": "A800",
        },
    },
    "model": {
        "num_layers": 24,
        "num_attention_heads": 32,
        "seq_length": 4096,
        "micro_batch_size": 1,
        "global_batch_size": 32,
        "untie_embeddings_and_output_weights": True,
    },
    "data": {"vocab_size": 32000},
}

HETERO = "train.system.hetero."
MESHES, SPLIT = HETERO + "hetero_process_meshes", HETERO + "hetero_pipeline_layer_split"
TYPES = HETERO + "hetero_device_types"
RUNNER = "experiment.experiment.runner."
ABSENT = object()

Edits = dict[str, Any]


def rows(
    granularity: list[list[int]], method: list[list[int]], layers: list[list[int]]
) -> Edits:
    """Return edits that recompute as the rows say."""
    return {
        "train.system.recompute_granularity": "full",
        "train.system.recompute_method": "uniform",
        "train.system.recompute_num_layers": 1,
        **{
            f"train.system.{name}": value
            for name, value in zip(ROWS, (granularity, method, layers), strict=True)
        },
    }


ALL = [[3, 8, 1]]
GOOD_ROWS = rows(ALL, [[3, 8, 0]], ALL)


def write(folder: Path, edits: Edits) -> Path:
    """Write the base configuration with edits by dotted path."""
    files = copy.deepcopy({"experiment": EXPERIMENT, "train": TRAIN, "hosts": HOSTS})
    for path, value in edits.items():
        *parents, name = path.split(".")
        place: Any = files
        for parent in parents:
            place = place[parent]
        if value is ABSENT:
            place.pop(name, None)
        else:
            place[name] = value
    (folder / "train").mkdir()
    (folder / "llama.yaml").write_text(yaml.safe_dump(files["experiment"]))
    (folder / "train" / "llama.yaml").write_text(yaml.safe_dump(files["train"]))
    (folder / "hostfile").write_text(str(files["hosts"]))
    return folder


WRONG: dict[str, tuple[Edits, str]] = {
    "four numbers of a mesh": (
        {MESHES: [2, 1, 1, 4, 2, 4, 1, 1, 2]},
        "has 9 numbers, expected five a mesh",
    ),
    "mesh of none": ({MESHES: [2, 1, 1, 4, 2, 4, 1, 1, 0, 1]}, "whole numbers from 1"),
    "dp that does not divide": (
        {MESHES: [4, 1, 1, 2, 2, 2, 1, 1, 4, 1]}
        | {"train.system.tensor_model_parallel_size": 4},
        "= 2 is not divisible by dp 4",
    ),
    "cp of one mesh": ({MESHES: [2, 1, 1, 4, 2, 2, 2, 1, 2, 1]}, "cp differs"),
    "cp of all meshes": ({MESHES: [2, 2, 1, 2, 2, 2, 2, 1, 2, 1]}, "cp is above 1"),
    "ep of one mesh": ({MESHES: [2, 1, 1, 4, 2, 4, 1, 2, 2, 1]}, "ep is 1 on some"),
    "ep without experts": (
        {MESHES: [2, 1, 4, 4, 2, 4, 1, 2, 2, 1]},
        "ep without num_experts",
    ),
    "ep that does not divide": (
        {MESHES: [2, 1, 16, 4, 2, 4, 1, 2, 2, 1], "train.model.num_experts": 16},
        "ep 16 and expert tensor degree 2 do not divide",
    ),
    "sum of pp": (
        {"train.system.pipeline_model_parallel_size": 2},
        "pipeline_model_parallel_size is not the sum",
    ),
    "tp of the first mesh": (
        {"train.system.tensor_model_parallel_size": 4},
        "is not the first mesh's tp",
    ),
    "tied with different tp": (
        {"train.model.untie_embeddings_and_output_weights": False},
        "tied embeddings with tp 2 on the first mesh, 4",
    ),
    "tied by default": (
        {"train.model.untie_embeddings_and_output_weights": ABSENT},
        "tied embeddings",
    ),
    "virtual stages": (
        {"train.system.num_layers_per_virtual_pipeline_stage": 2},
        "virtual stages",
    ),
    "standalone embedding": (
        {"train.system.standalone_embedding_stage": True},
        "standalone_embedding_stage",
    ),
    "layers in all": ({SPLIT: [10, 8, 5]}, "sums up to 23, not to num_layers"),
    "stages of the split": ({SPLIT: [10, 14]}, "has 2 stages, not the sum of pp"),
    "stage without a layer": ({SPLIT: [16, 8, 0]}, "stage 2 has 0 layers"),
    "labels of meshes": ({TYPES: ["A800"]}, "have not as many hetero_device_types"),
    "label of nobody": (
        {HETERO + "hetero_current_device_type": "B200"},
        "'B200' is none of hetero_device_types",
    ),
    "too few devices": (
        {"hosts": HOSTS.replace("8 type=H20", "4 type=H20")},
        "other than the hostfile's 20 devices",
    ),
    "devices of a type spill into another mesh": (
        {"hosts": HOSTS.replace("0.0.2 slots=8 type=A800", "0.0.2 slots=8 type=H20")},
        "A800 has 8 devices, its meshes 16",
    ),
    "label of meshes apart": (
        {
            MESHES: [2, 1, 1, 4, 1, 4, 1, 1, 2, 1, 2, 1, 1, 4, 1],
            TYPES: ["A800", "H20", "A800"],
        },
        "label A800 is repeated for meshes apart",
    ),
    "global batch": ({"train.model.global_batch_size": 30}, "global_batch_size is no"),
    "sequence": ({"train.model.seq_length": 4094}, "is not divisible by tp 4"),
    "heads": ({"train.model.num_attention_heads": 30}, "num_attention_heads is not"),
    "groups of queries": (
        {"train.model.num_query_groups": 2},
        "num_query_groups is not divisible by tp 4",
    ),
    "null": ({"train.data.tokenizer_path": None}, "data.tokenizer_path is null"),
    "null in the experiment": (
        {RUNNER + "ssh_port": None},
        "experiment.runner.ssh_port is null",
    ),
    "null in a list": ({"train.data.data_path": ["a", None]}, "data_path.1 is null"),
    "type on some lines": (
        {"hosts": HOSTS.replace(" type=H20", "")},
        "type is on some lines",
    ),
    "no types, two labels": (
        {"hosts": HOSTS.replace(" type=H20", "").replace(" type=A800", "")},
        "H20 has 0 devices, its meshes 8",
    ),
    "type that no mesh has": (
        {"hosts": HOSTS.replace("H20", "H20-96GB")},
        "type H20-96GB of the hostfile is none",
    ),
    "host twice": (
        {"hosts": HOSTS.replace("10.0.0.2", "10.0.0.1")},
        "host 10.0.0.1 is listed twice",
    ),
    "host without slots": (
        {"hosts": HOSTS.replace("10.1.0.1 slots=8", "10.1.0.1")},
        "hostfile line 3 is not HOST slots=N",
    ),
    "label with a space": (
        {"hosts": HOSTS.replace("H20", "NVIDIA H20")},
        "hostfile line 3 is not HOST slots=N",
    ),
    "nodes": ({RUNNER + "nnodes": 2}, "nnodes is 2, the hosts are 3"),
    "rendezvous": ({RUNNER + "rdzv_backend": "c10d"}, "rdzv_backend is 'c10d'"),
    "task": ({"experiment.experiment.task.type": "serve"}, "task.type is 'serve'"),
    "hidden devices": (
        {"experiment.experiment.envs.CUDA_VISIBLE_DEVICES": "0,1,2,3"},
        "4 devices are visible, 10.0.0.1 has 8 slots",
    ),
    "hidden devices of a type": (
        {
            "experiment.experiment.envs.device_type_specific": {
                "H20": {"CUDA_VISIBLE_DEVICES": "0,1"}
            }
        },
        "2 devices are visible, 10.1.0.1 has 8 slots",
    ),
    "setting in two places": (
        {"train.data.seq_length": 2048},
        "seq_length is given 2 times",
    ),
    "connections": (
        {"experiment.experiment.envs.CUDA_DEVICE_MAX_CONNECTIONS": ABSENT},
        "CUDA_DEVICE_MAX_CONNECTIONS is not 1",
    ),
    "train file": (
        {"experiment.defaults": ["_self_", {"train": "gpt"}]},
        "defaults names train/gpt.yaml",
    ),
    "rows without full": (
        GOOD_ROWS | {"train.system.recompute_granularity": ABSENT},
        "need recompute_granularity full",
    ),
    "full without a method": (
        GOOD_ROWS | {"train.system.recompute_method": ABSENT},
        "needs a recompute_method",
    ),
    "rows of an even length": (
        rows([[3, 8]], [[3, 8, 0]], ALL),
        f"{ROWS[0]} is no list of rows",
    ),
    "rows of too few stages": (
        rows([[2, 8, 1]], [[3, 8, 0]], ALL),
        f"{ROWS[0]} is of 2 stages, not of 3",
    ),
    "rows of too few micro-batches": (
        rows(ALL, [[1, 8, 0], [2, 4, 0, 3, 1]], ALL),
        f"{ROWS[1]} has a row of other than 8 micro-batches",
    ),
    "flag that is none": (
        rows(ALL, [[3, 8, 2]], ALL),
        f"{ROWS[1]} has a value other than 0 and 1",
    ),
    "recomputes no layer": (
        rows([[1, 8, 0], [2, 8, 1]], [[3, 8, 0]], [[2, 8, 1], [1, 8, 0]]),
        "recomputes no layer where recomputation is on",
    ),
    "rows of one kind": (
        GOOD_ROWS | {f"train.system.{ROWS[2]}": ABSENT},
        "rows per stage need all of",
    ),
    "text for a number": (
        {"train.model.num_layers": "24"},
        "num_layers is '24', expected a whole number",
    ),
}

RIGHT: dict[str, Edits] = {
    "the base": {},
    "one mesh": {
        MESHES: [2, 1, 1, 4, 3],
        TYPES: ["A800"],
        "hosts": HOSTS.replace("H20", "A800"),
    },
    "one mesh, no types": {
        MESHES: [2, 1, 1, 4, 3],
        TYPES: ["A800"],
        "hosts": "a slots=8\nb slots=8\n\n# spare\nc slots=8\n",
    },
    "neighbours with one label": {
        MESHES: [2, 1, 1, 4, 1, 4, 1, 1, 2, 1, 4, 1, 1, 2, 1],
        TYPES: ["A800", "A800", "H20"],
    },
    "tied with equal tp": {
        MESHES: [2, 1, 1, 4, 2, 2, 1, 1, 4, 1],
        "train.model.untie_embeddings_and_output_weights": ABSENT,
    },
    "larger dp later, larger micro-batch": {
        MESHES: [4, 1, 1, 2, 2, 2, 1, 1, 4, 1],
        "train.system.tensor_model_parallel_size": 4,
        "train.model.micro_batch_size": 2,
    },
    "gloo between meshes": {HETERO + "hetero_use_cpu_communication": True},
    "full everywhere": GOOD_ROWS,
    "some stages, some micro-batches": rows(
        [[1, 8, 0], [2, 6, 1, 2, 0]],
        [[1, 8, 0], [1, 8, 0], [1, 8, 1]],
        [[1, 8, 0], [1, 6, 1, 2, 0], [1, 8, 2]],
    ),
    "selective": {"train.system.recompute_granularity": "selective"},
    "full for all stages alike": {
        "train.system.recompute_granularity": "full",
        "train.system.recompute_method": "block",
        "train.system.recompute_num_layers": 4,
    },
    "settings in mappings of their own": {
        "train.system.recompute": {
            name.rsplit(".", 1)[1]: value for name, value in GOOD_ROWS.items()
        }
    },
    "hosts in another order": {"hosts": "".join(reversed(HOSTS.splitlines(True)))},
    "groups of queries": {"train.model.num_query_groups": 8},
    "uneven layers": {SPLIT: [1, 22, 1]},
    "dry run": {"experiment.action": "dryrun"},
    "one sequence a replica and iteration": {"train.model.global_batch_size": 4},
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_rejected_for_its_reason(name: str, tmp_path: Path) -> None:
    edits, reason = WRONG[name]
    found = list(broken_rules(write(tmp_path, edits)))
    assert any(reason in rule for rule in found), found


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_accepted(name: str, tmp_path: Path) -> None:
    assert list(broken_rules(write(tmp_path, RIGHT[name]))) == []


def test_there_are_enough_of_both() -> None:
    assert len(WRONG) >= 25
    assert len(RIGHT) >= 10


@pytest.mark.parametrize("seed", range(COUNT))
def test_what_is_exported_without_losses_is_accepted(seed: int, tmp_path: Path) -> None:
    job = next(
        job
        for job in (
            draw_job(
                seed + 1000 * again,
                cp=False,
                recompute=("none", "full") if seed % 4 else ("selective",),
                schedules=("1f1b",),
                granularity="layer" if seed % 3 else "block",
            )
            for again in range(100)
        )
        if not list(LAUNCHER.losses(job))
    )
    write_folder(str(tmp_path / "out"), bundle(job, LAUNCHER, allow_lossy=False))
    assert list(broken_rules(tmp_path / "out")) == []


@pytest.mark.parametrize("seed", range(COUNT // 3))
def test_what_is_exported_with_losses_is_accepted(seed: int, tmp_path: Path) -> None:
    job = next(
        job
        for job in (draw_job(seed + 1000 * again) for again in range(100))
        if all(loss.instead is not None for loss in LAUNCHER.losses(job))
    )
    write_folder(str(tmp_path / "out"), bundle(job, LAUNCHER, allow_lossy=True))
    assert list(broken_rules(tmp_path / "out")) == []
