"""FlagScale folders made by hand: read as they would run, or refused in one line."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from hetopt.errors import InputError
from hetopt.export.flagscale.reading import read_flagscale
from hetopt.export.pipeline import PipelineReadBack
from hetopt.export.registry import readers, recognises
from hetopt.plans.strategy import Strategy

Data = dict[str, Any]

TRAIN: Data = {
    "system": {
        "tensor_model_parallel_size": 4,
        "pipeline_model_parallel_size": 3,
        "sequence_parallel": True,
        "use_distributed_optimizer": True,
        "precision": {"bf16": True},
        "hetero": {
            "enable_hetero": True,
            "hetero_process_meshes": [4, 1, 1, 2, 1, 2, 1, 1, 4, 2],
            "hetero_pipeline_layer_split": [6, 3, 3],
            "hetero_device_types": ["A800", "H20"],
            "hetero_current_device_type": "A800",
            "standalone_embedding_stage": False,
        },
        "recompute": {
            "recompute_granularity": "full",
            "recompute_method": "uniform",
            "recompute_num_layers": 1,
        },
    },
    "model": {
        "num_layers": 12,
        "hidden_size": 512,
        "num_attention_heads": 8,
        "seq_length": 1024,
        "swiglu": True,
        "untie_embeddings_and_output_weights": True,
        "micro_batch_size": 2,
        "global_batch_size": 32,
        "optimizer": {"lr": "2e-4"},
    },
    "data": {"data_path": "${data_path:??}", "tokenizer": {"vocab_size": 100008}},
}
EXPERIMENT: Data = {
    "defaults": ["_self_", {"train": "mine"}],
    "experiment": {
        "exp_name": "mine",
        "runner": {"backend": "torchrun", "nnodes": 3, "hostfile": "hostfile"},
        "envs": {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7"},
    },
    "action": "run",
}
HOSTS = """\
# ours
10.0.0.1 slots=8 type=A800

10.0.0.2 slots=8 type=H20
10.0.0.3 slots=8 type=H20
"""


def write(
    folder: Path,
    change: Callable[[Data, Data], object] = lambda _train, _experiment: None,
    hosts: str | None = HOSTS,
) -> Path:
    train, experiment = copy.deepcopy(TRAIN), copy.deepcopy(EXPERIMENT)
    change(train, experiment)
    (folder / "conf/train").mkdir(parents=True)
    (folder / "conf/config.yaml").write_text(yaml.safe_dump(experiment))
    (folder / "conf/train/mine.yaml").write_text(yaml.safe_dump(train))
    if hosts is not None:
        (folder / "hostfile").write_text(hosts)
    return folder


def read(folder: Path) -> PipelineReadBack:
    assert recognises(readers()["flagscale"], folder)
    return read_flagscale(folder)


def test_a_folder_made_by_hand(tmp_path: Path) -> None:
    read_back = read(write(tmp_path))
    assert (read_back.microbatches, read_back.schedule) == (8, "1f1b")
    assert [stage.layers for stage in read_back.stages] == [6, 3, 3]
    assert [stage.cluster for stage in read_back.stages] == ["A800", "H20", "H20"]
    wide = Strategy(dp=2, cp=1, tp=4, recompute="full")
    flat = Strategy(dp=4, cp=1, tp=2, recompute="full")
    assert [stage.strategy for stage in read_back.stages] == [wide, flat, flat]
    assert [set(stage.hosts) for stage in read_back.stages] == [
        {"10.0.0.1"},
        {"10.0.0.2"},
        {"10.0.0.3"},
    ]
    assert read_back.says == {
        "seq_len": 1024,
        "global_batch": 32,
        "hidden": 512,
        "heads": 8,
        "kv_heads": 8,
        "tied": False,
        "gated": True,
        "zero": 1,
        "precision": "bf16",
        "activation": "silu",
        "norm_zero_centred": False,
        "qk_norm": "none",
        "qkv_bias": True,
        "out_bias": True,
        "mlp_bias": True,
        "sliding_window": None,
        "experts": None,
        "latent": None,
        "predictions": 0,
        "attention_sinks": False,
        "gate_clamp": None,
        # The parser's own where nothing is said.
        "head_dim": 64,
        "ffn": 1344,
        "norm": "layer",
        "norm_eps": 1e-5,
        "hidden_dropout": 0.1,
        "attention_dropout": 0.1,
        "optimizer": "adam",
        "gradients": "fp32",
        "attention": "fused",
        "cross_entropy": "unfused",
        "sequence_parallel": True,
        "overlap_tensor": False,
        "overlap_gradients": False,
    }
    assert [each.argument for each in read_back.reported] == ["vocab_size"]


def test_ranks_follow_types_not_lines(tmp_path: Path) -> None:
    lines = HOSTS.splitlines()
    hosts = "\n".join([lines[3], lines[1], lines[4]])
    read_back = read(write(tmp_path, hosts=hosts))
    assert [stage.hosts[0] for stage in read_back.stages] == [
        "10.0.0.1",
        "10.0.0.2",
        "10.0.0.3",
    ]


def test_a_training_part_alone_or_inside_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one/any.yaml").write_text(yaml.safe_dump(TRAIN))
    assert [stage.hosts for stage in read(tmp_path / "one").stages] == [()] * 3
    (tmp_path / "two").mkdir()
    both = {**EXPERIMENT, "defaults": ["_self_"], "train": TRAIN}
    (tmp_path / "two/any.yaml").write_text(yaml.safe_dump(both))
    assert read(tmp_path / "two").microbatches == 8


def test_layers_left_out_are_even(tmp_path: Path) -> None:
    def change(train: Data, _: Data) -> None:
        del train["system"]["hetero"]["hetero_pipeline_layer_split"]

    layers = [stage.layers for stage in read(write(tmp_path, change)).stages]
    assert layers == [4, 4, 4]


ROWS = "_per_stage_micro_batch"


@pytest.mark.parametrize(
    ("recompute", "expected"),
    [
        ({}, ["none"] * 3),
        ({"recompute_granularity": "selective"}, ["selective"] * 3),
        (
            {f"recompute_granularity{ROWS}": [[1, 8, 0], [2, 5, 1, 3, 1]]},
            ["none", "full", "full"],
        ),
        (
            {f"recompute_granularity{ROWS}": ["1, 8, 1", "[2, 8, 0]"]},
            ["full", "none", "none"],
        ),
        (
            {f"recompute_num_layers{ROWS}": [[2, 8, 0], [1, 8, 2]]},
            ["none", "none", "full"],
        ),
        (
            {"recompute_method": "block", "recompute_num_layers": 6},
            ["full"] * 3,
        ),
    ],
)
def test_recomputation_by_stage(
    tmp_path: Path, recompute: Data, expected: list[str]
) -> None:
    def change(train: Data, _: Data) -> None:
        whole = any(key.endswith(ROWS) or "method" in key for key in recompute)
        old = train["system"]["recompute"] if whole else {}
        train["system"]["recompute"] = old | recompute

    stages = read(write(tmp_path, change)).stages
    assert [stage.strategy.recompute for stage in stages] == expected


def of(part: str, key: str, value: object) -> Callable[[Data, Data], object]:
    """Return a change of one key of the training part; None takes it out."""

    def change(train: Data, _: Data) -> None:
        place = train
        for name in part.split("."):
            place = place[name]
        if value is None:
            del place[key]
        else:
            place[key] = value

    return change


HETERO = "system.hetero"
RECOMPUTE = "system.recompute"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of(HETERO, "hetero_process_meshes", [4, 1, 1, 2]), "has 4 numbers, expected"),
        (
            of(HETERO, "hetero_process_meshes", [4, 1, 1, 2, 1, 2, 1, 1, 4, 0]),
            "mesh 1 has pp 0",
        ),
        (
            of(HETERO, "hetero_process_meshes", [4, 1, 2, 2, 1, 2, 1, 1, 4, 2]),
            "mesh 0 has ep 2, but there are no num_experts",
        ),
        (
            of(HETERO, "hetero_process_meshes", [4, 1, 1, 2, 1, 2, 2, 1, 2, 2]),
            "mesh 1 has cp 2, mesh 0 has 1",
        ),
        (
            of(HETERO, "hetero_process_meshes", [4, 1, 1, 2, 1, 2, 1, 1, 3, 2]),
            "which dp 3 of mesh 1 does not divide",
        ),
        (
            of(HETERO, "hetero_pipeline_layer_split", [6, 0, 6]),
            "gives stage 1 0 layers",
        ),
        (of(HETERO, "hetero_pipeline_layer_split", [6, 3, 4]), "adds up to 13"),
        (of("system", "pipeline_model_parallel_size", 4), "the meshes have 3 stages"),
        (of("system", "sequence_parallel", None), "meshes have tp 2 and 4"),
        (
            of("system", "num_layers_per_virtual_pipeline_stage", 2),
            "has no meaning beside meshes",
        ),
        (of("model", "global_batch_size", 30), "expected a multiple of"),
        (of("model", "seq_length", 1022), "expected a multiple of tp"),
        (
            of("model", "untie_embeddings_and_output_weights", None),
            "tp is 4 on the first and 2 on the last mesh",
        ),
        (of(RECOMPUTE, "recompute_method", None), "expected uniform or block"),
        (of(RECOMPUTE, "recompute_method", "block"), "recomputes 1 of the 6 lay"),
        (
            of(RECOMPUTE, "recompute_granularity_per_stage", [1]),
            "of an older FlagScale",
        ),
        (of(RECOMPUTE, f"recompute_granularity{ROWS}", [[3, 7, 1]]), "7 micro-batches"),
        (of(RECOMPUTE, f"recompute_granularity{ROWS}", [[2, 8, 1]]), "describes 2"),
        (
            of(RECOMPUTE, f"recompute_granularity{ROWS}", [[3, 8, 2]]),
            "other than 0 and 1",
        ),
        (of(RECOMPUTE, f"recompute_granularity{ROWS}", ["3, 8"]), "holds a row other"),
        (
            of(RECOMPUTE, f"recompute_granularity{ROWS}", [[3, 4, 1, 4, 0]]),
            "differs between the micro-batches",
        ),
    ],
)
def test_what_would_not_run_is_refused(
    tmp_path: Path, change: Callable[[Data, Data], object], message: str
) -> None:
    folder = write(tmp_path, change)
    with pytest.raises(InputError) as caught:
        read_flagscale(folder)
    assert message in str(caught.value)
    assert "mine.yaml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_types_that_merge_meshes_are_refused(tmp_path: Path) -> None:
    def change(train: Data, _: Data) -> None:
        hetero = train["system"]["hetero"]
        hetero["hetero_process_meshes"] = [4, 1, 1, 2, 1] * 3
        hetero["hetero_device_types"] = ["A800", "H20", "A800"]

    with pytest.raises(InputError, match="meshes that are not neighbours"):
        read_flagscale(write(tmp_path, change))


def test_tied_tables_of_other_dp_need_a_partial_reduction(tmp_path: Path) -> None:
    def change(train: Data, _: Data) -> None:
        hetero = train["system"]["hetero"]
        hetero["hetero_process_meshes"] = [2, 1, 1, 4, 1, 2, 1, 1, 8, 2]
        train["model"]["untie_embeddings_and_output_weights"] = False

    with pytest.raises(InputError, match="use_partial_reduce_for_shared_embedding"):
        read_flagscale(write(tmp_path, change))


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        (
            "10.0.0.1 slots=8 type=A800\n",
            "has 0 devices of type 'H20', its meshes need",
        ),
        (HOSTS.replace("slots=8 type=A800", "slots=4 type=A800"), "has 4 devices"),
        (HOSTS.replace("slots=8 type=A800", "slots=16 type=A800"), None),
        (HOSTS.replace(" type=A800", ""), "has no type, expected one of A800, H20"),
        (HOSTS.replace("type=A800", "type=L40"), "has type 'L40'"),
        (HOSTS.replace("10.0.0.3", "10.0.0.2"), "names host 10.0.0.2 twice"),
        (HOSTS.replace("slots=8 type=A800", "8"), "expected a host, slots=N"),
        ("# nobody\n", "names no host"),
    ],
)
def test_hosts_have_to_be_those_of_the_meshes(
    tmp_path: Path, hosts: str, message: str | None
) -> None:
    """FlagScale starts no more processes than CUDA_VISIBLE_DEVICES names devices."""
    folder = write(tmp_path, hosts=hosts)
    if message is None:
        read(folder)
        return
    with pytest.raises(InputError) as caught:
        read_flagscale(folder)
    assert message in str(caught.value)
    assert "hostfile" in str(caught.value)


def test_hosts_beyond_nnodes_are_not_used(tmp_path: Path) -> None:
    def change(_: Data, experiment: Data) -> None:
        experiment["experiment"]["runner"]["nnodes"] = 2

    with pytest.raises(InputError, match="has 8 devices of type 'H20'"):
        read_flagscale(write(tmp_path, change))


def test_names_that_no_file_can_have(tmp_path: Path) -> None:
    def lost(_: Data, experiment: Data) -> None:
        experiment["defaults"] = [{"train": "x" * 5000}]

    with pytest.raises(InputError, match="but there is no such YAML file in"):
        read_flagscale(write(tmp_path / "train", lost))

    def far(_: Data, experiment: Data) -> None:
        experiment["experiment"]["runner"]["hostfile"] = "x" * 5000

    stages = read_flagscale(write(tmp_path / "hosts", far)).stages
    assert [stage.hosts for stage in stages] == [(), (), ()]


def test_folders_that_are_none(tmp_path: Path) -> None:
    for name, files, message in (
        ("empty", {}, "holds no experiment"),
        ("other", {"a.yaml": "a: 1\n"}, "holds no experiment"),
        ("broken", {"a.yaml": "a: [1\n"}, "is not valid YAML"),
        (
            "two",
            {"a.yaml": "experiment: {}\n", "b.yaml": "experiment: {}\n"},
            "several",
        ),
        ("none", {"a.yaml": "experiment: {}\n"}, "does not name training"),
        ("lost", {"a.yaml": "experiment: {}\ndefaults: [{train: x}]\n"}, "there is no"),
        ("list", {"a.yaml": "system: {hetero: 1}\nmodel: [1]\n"}, "is no mapping"),
        ("plain", {"a.yaml": "system: {x: 1}\nmodel: {}\n"}, "num_layers: is"),
    ):
        (tmp_path / name).mkdir()
        for file, text in files.items():
            (tmp_path / name / file).write_text(text)
        assert not recognises(readers()["flagscale"], tmp_path / name)
        with pytest.raises(InputError, match=message):
            read_flagscale(tmp_path / name)
