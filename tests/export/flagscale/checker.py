"""FlagScale's rules for a folder, those it checks itself and those it leaves to us.

Written from what FlagScale reads, without hetopt's exporter: nothing here is imported
from hetopt. A folder holds an experiment file (the YAML file with ``experiment``; its
folder is the ``--config-path``), beside it the train file of its ``defaults`` under
``train/``, and a hostfile.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROWS = (
    "recompute_granularity_per_stage_micro_batch",
    "recompute_method_per_stage_micro_batch",
    "recompute_num_layers_per_stage_micro_batch",
)
RUNNER = {"backend": "torchrun", "rdzv_backend": "static"}
TASK = {"type": "train", "backend": "megatron"}

#: Settings of the train file: whatever mappings they stand in, all become arguments.
NEEDED = (
    "hetero_process_meshes",
    "hetero_pipeline_layer_split",
    "hetero_device_types",
    "hetero_current_device_type",
    "pipeline_model_parallel_size",
    "tensor_model_parallel_size",
    "micro_batch_size",
    "global_batch_size",
    "num_layers",
    "num_attention_heads",
    "seq_length",
)
COUNTS = NEEDED[4:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """Five numbers of ``hetero_process_meshes``, and the label they go with."""

    tp: int
    cp: int
    ep: int
    dp: int
    pp: int
    label: str

    @property
    def devices(self) -> int:
        return self.tp * self.cp * self.dp * self.pp


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """A line of the hostfile."""

    name: str
    slots: int
    type: str | None


def broken_rules(folder: Path) -> Iterator[str]:
    """Yield every rule that a folder breaks; nothing if FlagScale can launch it.

    Where files are missing or too malformed to be judged by the other rules, only that
    is said.
    """
    found = [
        (path, content)
        for path in sorted(folder.rglob("*.yaml"))
        if isinstance(content := yaml.safe_load(path.read_text("utf-8")), dict)
        and "experiment" in content
    ]
    if len(found) != 1:
        yield f"{len(found)} files have an experiment, expected one"
        return
    config_path, experiment = found[0][0].parent, found[0][1]
    yield from _null_rules(experiment)
    name = _train_name(experiment.get("defaults"))
    if name is None:
        yield "defaults is not [_self_, {train: NAME}]"
        return
    path = config_path / "train" / f"{name}.yaml"
    if not path.is_file():
        yield f"defaults names train/{name}.yaml, which is not there"
        return
    train = yaml.safe_load(path.read_text("utf-8"))
    if not isinstance(train, dict) or not {"system", "model", "data"} <= set(train):
        yield "the train file lacks one of its sections system, model, data"
        return
    yield from _null_rules(train)
    runner = (experiment["experiment"] or {}).get("runner") or {}
    hostfile = folder / str(runner.get("hostfile", "")).rsplit("/", 1)[-1]
    if "hostfile" not in runner or not hostfile.is_file():
        yield "runner.hostfile names no file of the folder"
        return
    hosts: list[Host] = []
    for rule, host in _read_hosts(hostfile.read_text("utf-8")):
        if rule is not None:
            yield rule
        if host is not None:
            hosts.append(host)
    yield from _experiment_rules(experiment, hosts)
    yield from _train_rules(train, hosts)


def _train_name(defaults: Any) -> str | None:
    if not isinstance(defaults, list) or "_self_" not in defaults:
        return None
    names = [each["train"] for each in defaults if isinstance(each, dict)]
    return str(names[0]) if len(names) == 1 else None


def _null_rules(content: Any, where: str = "") -> Iterator[str]:
    """Yield nulls: on a command line they become the text None."""
    if content is None:
        yield f"{where} is null, which becomes the text None"
    pairs: Any = ()
    if isinstance(content, dict):
        pairs = content.items()
    elif isinstance(content, list):
        pairs = enumerate(content)
    for name, value in pairs:
        yield from _null_rules(value, f"{where}.{name}".lstrip("."))


def _read_hosts(text: str) -> Iterator[tuple[str | None, Host | None]]:
    """Yield hosts, and rules that lines of a hostfile break."""
    names = set()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.strip().startswith("#"):
            continue
        found = re.fullmatch(r"(\S+)\s+slots=(\d+)(?:\s+type=(\S+))?\s*", line)
        if found is None:
            yield f"hostfile line {number} is not HOST slots=N type=LABEL", None
            continue
        name, slots, label = found.groups()
        if name in names:
            yield f"host {name} is listed twice", None
            continue
        names.add(name)
        if not int(slots):
            yield f"host {name} has no slots", None
            continue
        yield None, Host(name=name, slots=int(slots), type=label)


def _experiment_rules(content: dict[str, Any], hosts: list[Host]) -> Iterator[str]:
    experiment = content["experiment"] or {}
    for name in ("exp_name", "exp_dir"):
        if not experiment.get(name):
            yield f"experiment.{name} is missing"
    task, runner = experiment.get("task") or {}, experiment["runner"]
    for name, value in TASK.items():
        if task.get(name) != value:
            yield f"task.{name} is {task.get(name)!r}, expected {value!r}"
    if not str(task.get("entrypoint", "")).endswith(".py"):
        yield "task.entrypoint is no Python file"
    for name, value in RUNNER.items():
        if runner.get(name) != value:
            yield f"runner.{name} is {runner.get(name)!r}, expected {value!r}"
    if runner.get("nnodes") != len(hosts):
        yield f"runner.nnodes is {runner.get('nnodes')!r}, the hosts are {len(hosts)}"
    if not isinstance(runner.get("master_port"), int):
        yield "runner.master_port is no port"
    envs = experiment.get("envs") or {}
    if envs.get("CUDA_DEVICE_MAX_CONNECTIONS") != 1:
        yield "envs.CUDA_DEVICE_MAX_CONNECTIONS is not 1"
    yield from _visible_rules(envs, runner, hosts)
    if content.get("action", "run") not in ("run", "dryrun"):
        yield f"action is {content['action']!r}, expected run or dryrun"
    if not ((content.get("hydra") or {}).get("run") or {}).get("dir"):
        yield "hydra.run.dir is missing"


def _visible_rules(
    envs: dict[str, Any], runner: dict[str, Any], hosts: list[Host]
) -> Iterator[str]:
    """Yield hosts with slots that no process is started for, or has no device.

    The number of processes follows the list for all; a type may have one of its own.
    """
    name = "CUDA_VISIBLE_DEVICES"
    for_all = len(str(envs.get(name, "")).split(","))
    for host in hosts:
        own = (envs.get("device_type_specific") or {}).get(host.type) or {}
        lists = [text for key, text in own.items() if key.endswith("VISIBLE_DEVICES")]
        count = min(
            for_all,
            runner.get("nproc_per_node", for_all),
            *(len(str(text).split(",")) for text in lists),
        )
        if count < host.slots:
            yield f"{count} devices are visible, {host.name} has {host.slots} slots"


def _flat(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield settings by name, whatever mappings they stand in."""
    for name, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value)
        else:
            yield str(name), value


def _train_rules(train: dict[str, Any], hosts: list[Host]) -> Iterator[str]:
    hetero = train["system"].get("hetero")
    if not isinstance(hetero, dict) or hetero.get("enable_hetero") is not True:
        yield "system.hetero.enable_hetero is not true"
        return
    settings = list(_flat(train))
    for name, times in Counter(name for name, _ in settings).items():
        if times > 1:
            yield f"{name} is given {times} times"
    given = dict(settings)
    missing = [name for name in NEEDED if given.get(name) is None]
    for name in missing:
        yield f"{name} is missing"
    if missing:
        return
    unfit = [name for name in COUNTS if not _is_count(given[name])]
    for name in unfit:
        yield f"{name} is {given[name]!r}, expected a whole number from 1"
    numbers, labels = given["hetero_process_meshes"], given["hetero_device_types"]
    split = given["hetero_pipeline_layer_split"]
    if not isinstance(numbers, list) or not all(map(_is_count, numbers)):
        yield "hetero_process_meshes is no list of whole numbers from 1"
        return
    if len(numbers) % 5 or not numbers:
        yield f"hetero_process_meshes has {len(numbers)} numbers, expected five a mesh"
        return
    if not isinstance(split, list) or not all(isinstance(n, int) for n in split):
        yield "hetero_pipeline_layer_split is no list of whole numbers"
        return
    if not isinstance(labels, list) or len(labels) != len(numbers) // 5:
        yield f"{len(numbers) // 5} meshes have not as many hetero_device_types"
        return
    if unfit:
        return
    meshes = [
        Mesh(
            tp=numbers[5 * i],
            cp=numbers[5 * i + 1],
            ep=numbers[5 * i + 2],
            dp=numbers[5 * i + 3],
            pp=numbers[5 * i + 4],
            label=str(labels[i]),
        )
        for i in range(len(labels))
    ]
    yield from _mesh_rules(given, meshes)
    yield from _batch_rules(given, meshes)
    yield from _layer_rules(given, meshes, split)
    yield from _device_rules(given, meshes, hosts)
    yield from _recompute_rules(given, meshes)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _mesh_rules(given: dict[str, Any], meshes: list[Mesh]) -> Iterator[str]:
    first, last = meshes[0], meshes[-1]
    if len({mesh.cp for mesh in meshes}) > 1:
        yield f"cp differs between meshes: {[mesh.cp for mesh in meshes]}"
    if any(mesh.cp > 1 for mesh in meshes):
        yield "cp is above 1"
    yield from _expert_rules(given, meshes)
    if given["tensor_model_parallel_size"] != first.tp:
        yield "tensor_model_parallel_size is not the first mesh's tp"
    if given["pipeline_model_parallel_size"] != sum(mesh.pp for mesh in meshes):
        yield "pipeline_model_parallel_size is not the sum of all pp"
    untied = given.get("untie_embeddings_and_output_weights", False)
    if not untied and first.tp != last.tp:
        yield f"tied embeddings with tp {first.tp} on the first mesh, {last.tp} on last"
    if given.get("num_layers_per_virtual_pipeline_stage"):
        yield "virtual stages"
    if given.get("standalone_embedding_stage", False):
        yield "standalone_embedding_stage is not false"
    heads = given["num_attention_heads"]
    for tp in sorted({mesh.tp for mesh in meshes}):
        if heads % tp:
            yield f"num_attention_heads is not divisible by tp {tp}"
        if given.get("num_query_groups", heads) % tp:
            yield f"num_query_groups is not divisible by tp {tp}"
    for name in ("sequence_parallel", "untie_embeddings_and_output_weights"):
        if not isinstance(given.get(name, False), bool):
            yield f"{name} is {given[name]!r}, expected true or false"


def _expert_rules(given: dict[str, Any], meshes: list[Mesh]) -> Iterator[str]:
    degrees = [mesh.ep for mesh in meshes]
    if 1 in degrees and max(degrees) > 1:
        yield f"ep is 1 on some meshes: {degrees}"
    if max(degrees) > 1 and not given.get("num_experts"):
        yield "ep without num_experts"
    whole = given.get("expert_tensor_parallel_size")
    tensor = given.get("expert_tensor_parallel_size_per_process_mesh")
    if tensor is None:
        tensor = [whole or mesh.tp for mesh in meshes]
    if len(tensor) != len(meshes):
        yield f"{len(meshes)} meshes have not as many expert tensor degrees"
        return
    for mesh, etp in zip(meshes, tensor, strict=True):
        if given.get("num_experts") and mesh.devices % (mesh.ep * etp * mesh.pp):
            yield f"ep {mesh.ep} and expert tensor degree {etp} do not divide a mesh"
    if "(" in str(given.get("moe_layer_freq", "")):
        yield "moe_layer_freq has parentheses, which a shell reads"


def _batch_rules(given: dict[str, Any], meshes: list[Mesh]) -> Iterator[str]:
    each = meshes[0].dp * given["micro_batch_size"]
    for mesh in meshes:
        if each % mesh.dp:
            yield f"dp_0 * micro_batch_size = {each} is not divisible by dp {mesh.dp}"
    if given["global_batch_size"] % each:
        yield f"global_batch_size is no multiple of dp_0 * micro_batch_size = {each}"
    for tp in sorted({mesh.tp for mesh in meshes}):
        if given["seq_length"] % tp:
            yield f"seq_length is not divisible by tp {tp}"


def _layer_rules(
    given: dict[str, Any], meshes: list[Mesh], split: list[int]
) -> Iterator[str]:
    if len(split) != sum(mesh.pp for mesh in meshes):
        yield f"hetero_pipeline_layer_split has {len(split)} stages, not the sum of pp"
    if sum(split) != given["num_layers"]:
        yield f"hetero_pipeline_layer_split sums up to {sum(split)}, not to num_layers"
    for number, layers in enumerate(split):
        if layers < 1:
            yield f"stage {number} has {layers} layers"


def _device_rules(
    given: dict[str, Any], meshes: list[Mesh], hosts: list[Host]
) -> Iterator[str]:
    labels = [mesh.label for mesh in meshes]
    current = given["hetero_current_device_type"]
    if current not in labels:
        yield f"hetero_current_device_type {current!r} is none of hetero_device_types"
    for label in dict.fromkeys(labels):
        last = len(labels) - labels[::-1].index(label)
        if set(labels[labels.index(label) : last]) != {label}:
            yield f"label {label} is repeated for meshes apart, which are merged"
    world = sum(host.slots for host in hosts)
    if sum(mesh.devices for mesh in meshes) != world:
        yield f"the meshes have other than the hostfile's {world} devices"
    if len({host.type is None for host in hosts}) > 1:
        yield "type is on some lines of the hostfile, expected every line or none"
        return
    have: Counter[str] = Counter()
    for host in hosts:
        have[host.type or current] += host.slots
    want: Counter[str] = Counter()
    for mesh in meshes:
        want[mesh.label] += mesh.devices
    for label in have.keys() | want.keys():
        if label not in want:
            yield f"type {label} of the hostfile is none of hetero_device_types"
        elif have[label] != want[label]:
            yield f"{label} has {have[label]} devices, its meshes {want[label]}"


def _recompute_rules(given: dict[str, Any], meshes: list[Mesh]) -> Iterator[str]:
    granularity, method = (
        given.get("recompute_granularity"),
        given.get("recompute_method"),
    )
    if granularity not in (None, "full", "selective"):
        yield f"recompute_granularity is {granularity!r}"
    if method not in (None, "uniform", "block"):
        yield f"recompute_method is {method!r}"
    if granularity == "full" and method is None:
        yield "recompute_granularity full needs a recompute_method"
    if granularity == "full" and not _is_count(given.get("recompute_num_layers")):
        yield "recompute_granularity full needs recompute_num_layers"
    used = [name for name in ROWS if name in given]
    if used and granularity != "full":
        yield "rows per stage need recompute_granularity full"
    if used and len(used) < len(ROWS):
        yield f"rows per stage need all of {', '.join(ROWS)}"
    stages = sum(mesh.pp for mesh in meshes)
    count = given["global_batch_size"] // (meshes[0].dp * given["micro_batch_size"])
    flags: dict[str, list[list[int]]] = {}
    for name in used:
        rows = given[name]
        shaped = isinstance(rows, list) and all(
            isinstance(row, list)
            and len(row) >= 3
            and len(row) % 2
            and all(isinstance(n, int) for n in row)
            for row in rows
        )
        if not shaped:
            yield f"{name} is no list of rows [stages, n0, v0, n1, v1, ...]"
            continue
        if sum(row[0] for row in rows) != stages:
            yield f"{name} is of {sum(row[0] for row in rows)} stages, not of {stages}"
        for row in rows:
            if sum(row[1::2]) != count:
                yield f"{name} has a row of other than {count} micro-batches"
        values = [value for row in rows for value in row[2::2]]
        if name != ROWS[2] and not set(values) <= {0, 1}:
            yield f"{name} has a value other than 0 and 1"
        flags[name] = [
            list(chain.from_iterable([v] * n for n, v in _pairs(row)))
            for row in rows
            for _ in range(row[0])
        ]
    if ROWS[0] in flags and ROWS[2] in flags:
        for on, layers in zip(flags[ROWS[0]], flags[ROWS[2]], strict=False):
            if any(a and b < 1 for a, b in zip(on, layers, strict=False)):
                yield f"{ROWS[2]} recomputes no layer where recomputation is on"


def _pairs(row: list[int]) -> Iterator[tuple[int, int]]:
    return zip(row[1::2], row[2::2], strict=True)
