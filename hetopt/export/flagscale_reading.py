"""FlagScale's files, hetopt's and hand-made ones, as a sketch of a plan.

Rules that FlagScale checks are checked here as well, and those that it does not check
and that let a job start as another one than was meant (RUNTIMES.md).
"""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hetopt.errors import InputError
from hetopt.export.flagscale_arguments import Arguments, Experiment, find_experiment
from hetopt.export.flagscale_hosts import Host, hosts_of
from hetopt.export.flagscale_recompute import recompute_of
from hetopt.export.rank_hosts import rank_hosts
from hetopt.export.sketch import MOST_STAGES, Sketch, StageSketch
from hetopt.plan import Strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

MESHES = "hetero_process_meshes"
SPLIT = "hetero_pipeline_layer_split"
TYPES = "hetero_device_types"


class Mesh(NamedTuple):
    """Stages of one (dp, cp, tp) on devices of one type."""

    tp: int
    cp: int
    ep: int
    dp: int
    pp: int

    @property
    def devices(self) -> int:
        """Devices of all its stages."""
        return self.tp * self.cp * self.dp * self.pp


def looks_like(folder: Path) -> bool:
    """Whether a YAML file of a folder enables heterogeneous meshes."""
    try:
        return find_experiment(folder).train.flag("enable_hetero")
    except InputError:
        return False


def read(folder: Path) -> Sketch:
    """Read an experiment, its training part and, where there is one, its hostfile.

    Raises
    ------
    InputError
        As ``hetopt.export.sketch.Reader``.
    """
    found = find_experiment(folder)
    train = found.train
    if not train.flag("enable_hetero"):
        raise train.wrong("enable_hetero", "is not true, expected meshes")
    meshes = _meshes(train)
    types = train.names(TYPES)
    if len(types) != len(meshes):
        raise train.wrong(
            TYPES, f"has {len(types)} names, expected one for each of {len(meshes)}"
        )
    again = [name for name, _ in groupby(types)]
    for name in again:
        if again.count(name) > 1:
            raise train.wrong(
                TYPES,
                f"names {name!r} for meshes that are not neighbours, which merges "
                "their devices: give each its own name",
            )
    current = train.text("hetero_current_device_type", types[0])
    if current not in types:
        raise train.wrong(
            "hetero_current_device_type", f"is {current!r}, which is no device type"
        )
    layers = _layers(train, sum(mesh.pp for mesh in meshes))
    microbatches = _microbatches(train, meshes)
    _check_runnable(train, meshes)
    policies = recompute_of(train, layers, microbatches)
    places = _places(found, folder, meshes, types)
    stages: list[StageSketch] = []
    for mesh, label in zip(meshes, types, strict=True):
        for _ in range(mesh.pp):
            number = len(stages)
            cluster, hosts = places[number] if places else (None, ())
            stages.append(
                StageSketch(
                    cluster=cluster or label,
                    hosts=hosts,
                    layers=layers[number],
                    strategy=Strategy(
                        dp=mesh.dp,
                        cp=mesh.cp,
                        tp=mesh.tp,
                        recompute=policies[number],
                    ),
                )
            )
    return Sketch(
        microbatches=microbatches,
        schedule="1f1b",
        stages=tuple(stages),
        says=_says(train, meshes),
    )


def _meshes(train: Arguments) -> list[Mesh]:
    numbers = train.numbers(MESHES)
    if not numbers or len(numbers) % 5:
        msg = f"has {len(numbers)} numbers, expected tp, cp, ep, dp, pp of each mesh"
        raise train.wrong(MESHES, msg)
    meshes = [Mesh(*numbers[i : i + 5]) for i in range(0, len(numbers), 5)]
    for number, mesh in enumerate(meshes):
        for name, value in mesh._asdict().items():
            if value < 1:
                msg = f"mesh {number} has {name} {value}, expected at least 1"
                raise train.wrong(MESHES, msg)
        if mesh.ep > 1:
            msg = f"mesh {number} has ep {mesh.ep}, hetopt's models have no experts"
            raise train.wrong(MESHES, msg)
        if mesh.cp != meshes[0].cp:
            msg = f"mesh {number} has cp {mesh.cp}, mesh 0 has {meshes[0].cp}"
            raise train.wrong(MESHES, f"{msg}: cp has to be the same")
    return meshes


def _layers(train: Arguments, stages: int) -> tuple[int, ...]:
    stated = train.number("pipeline_model_parallel_size", 1)
    if stated != stages or stages > MOST_STAGES:
        msg = f"is {stated}, the meshes have {stages} stages"
        if stated == stages:
            msg = f"is {stated}, expected at most {MOST_STAGES} stages"
        raise train.wrong("pipeline_model_parallel_size", msg)
    total = train.number("num_layers")
    if not train.has(SPLIT):
        if total % stages:
            msg = f"is left out, and {total} layers do not divide by {stages} stages"
            raise train.wrong(SPLIT, msg)
        return (total // stages,) * stages
    layers = train.numbers(SPLIT)
    if len(layers) != stages:
        msg = f"has {len(layers)} numbers, expected one for each of {stages} stages"
        raise train.wrong(SPLIT, msg)
    if min(layers) < 1:
        msg = f"gives stage {layers.index(min(layers))} {min(layers)} layers"
        raise train.wrong(SPLIT, f"{msg}, expected at least 1")
    if sum(layers) != total:
        msg = f"adds up to {sum(layers)}, num_layers is {total}"
        raise train.wrong(SPLIT, msg)
    return layers


def _microbatches(train: Arguments, meshes: Sequence[Mesh]) -> int:
    micro = train.number("micro_batch_size")
    sequences = micro * meshes[0].dp
    for number, mesh in enumerate(meshes):
        if sequences % mesh.dp:
            msg = (
                f"is {micro}, with dp {meshes[0].dp} of mesh 0 that is {sequences} "
                f"sequences, which dp {mesh.dp} of mesh {number} does not divide"
            )
            raise train.wrong("micro_batch_size", msg)
    batch = train.number("global_batch_size")
    if batch % sequences:
        msg = f"is {batch}, expected a multiple of micro-batch size * dp = {sequences}"
        raise train.wrong("global_batch_size", msg)
    return batch // sequences


def _check_runnable(train: Arguments, meshes: Sequence[Mesh]) -> None:
    """Raise InputError for what keeps FlagScale's meshes from working together."""
    for key in (
        "num_layers_per_virtual_pipeline_stage",
        "num_virtual_stages_per_pipeline_rank",
        "pipeline_model_parallel_layout",
    ):
        if train.has(key):
            raise train.wrong(key, "does not go with meshes: leave it out")
    if train.flag("standalone_embedding_stage"):
        raise train.wrong("standalone_embedding_stage", "is true, expected false")
    length = train.number("seq_length")
    for mesh in meshes:
        if length % (mesh.tp * mesh.cp):
            msg = f"is {length}, expected a multiple of tp * cp = {mesh.tp * mesh.cp}"
            raise train.wrong("seq_length", msg)
    degrees = {mesh.tp for mesh in meshes}
    if len(degrees) > 1 and not train.flag("sequence_parallel"):
        named = " and ".join(map(str, sorted(degrees)))
        msg = f"is not true, but meshes have tp {named}"
        raise train.wrong("sequence_parallel", msg)
    first, last = meshes[0], meshes[-1]
    if train.flag("untie_embeddings_and_output_weights"):
        return
    if first.tp != last.tp:
        msg = (
            f"embeddings are tied, but tp is {first.tp} on the first and {last.tp} on "
            "the last mesh, expected the same"
        )
        raise train.wrong("untie_embeddings_and_output_weights", msg)
    if first.dp == last.dp or not train.flag("use_distributed_optimizer"):
        return
    if first.dp % last.dp and last.dp % first.dp:
        msg = (
            f"embeddings are tied and states sharded, but of dp {first.dp} on the "
            f"first and {last.dp} on the last mesh neither divides the other"
        )
        raise train.wrong("untie_embeddings_and_output_weights", msg)
    if not train.flag("use_partial_reduce_for_shared_embedding"):
        msg = (
            "is not true, but embeddings are tied, states sharded and dp is "
            f"{first.dp} on the first and {last.dp} on the last mesh"
        )
        raise train.wrong("use_partial_reduce_for_shared_embedding", msg)


def _places(
    found: Experiment, folder: Path, meshes: Sequence[Mesh], types: Sequence[str]
) -> list[tuple[str | None, tuple[str, ...]]]:
    """Return cluster and hosts of every stage; nothing where there is no hostfile."""
    hosts = hosts_of(found, types)
    if not hosts:
        return []
    slots = {name: _slots(hosts, name) for name in dict.fromkeys(types)}
    for name, own in slots.items():
        needed = sum(m.devices for m, k in zip(meshes, types, strict=True) if k == name)
        if len(own) != needed:
            msg = (
                f"has {len(own)} devices of type {name!r}, its meshes need {needed}: "
                "others would take their place"
            )
            raise InputError(msg, file=hosts[0].file)
    ranks = [host for name in dict.fromkeys(types) for host in slots[name]]
    # Of a bundle the rank map tells clusters, unless the hostfile has changed since.
    told = rank_hosts(folder) if (folder / "ranks.csv").exists() else None
    if told is not None and [host for host, _ in told] != ranks:
        told = None
    places: list[tuple[str | None, tuple[str, ...]]] = []
    start = 0
    for mesh in meshes:
        for _ in range(mesh.pp):
            end = start + mesh.devices // mesh.pp
            clusters = {name for _, name in told[start:end]} if told else set()
            cluster = clusters.pop() if len(clusters) == 1 else None
            places.append((cluster, tuple(ranks[start:end])))
            start = end
    return places


def _slots(hosts: Sequence[Host], kind: str) -> list[str]:
    """Return the host of every device of a type, in rank order."""
    return [host.name for host in hosts if host.kind == kind for _ in range(host.slots)]


def _says(train: Arguments, meshes: Sequence[Mesh]) -> dict[str, int | bool | str]:
    says: dict[str, int | bool | str] = {
        "seq_len": train.number("seq_length"),
        "global_batch": train.number("global_batch_size"),
        "hidden": train.number("hidden_size"),
        "heads": train.number("num_attention_heads"),
        "tied": not train.flag("untie_embeddings_and_output_weights"),
        "gated": train.flag("swiglu"),
    }
    says["kv_heads"] = says["heads"]
    if train.flag("group_query_attention"):
        says["kv_heads"] = train.number("num_query_groups", 1)
    if train.has("ffn_hidden_size"):
        says["ffn"] = train.number("ffn_hidden_size")
    if any(mesh.dp * mesh.cp > 1 for mesh in meshes):
        says["zero"] = int(train.flag("use_distributed_optimizer"))
    says["precision"] = next(
        (name for name in ("bf16", "fp16") if train.flag(name)), "fp32"
    )
    return says
