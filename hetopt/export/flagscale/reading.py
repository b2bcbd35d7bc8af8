"""Reads FlagScale's files, written by hetopt or by hand.

Checks what FlagScale checks, and also mistakes that FlagScale does not notice, but that
start another job than the user meant.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from hetopt.base.words import counted, describe
from hetopt.export.flagscale.experiment import find_experiment
from hetopt.export.flagscale.hosts import hosts_of
from hetopt.export.flagscale.one_mesh import read_one_mesh
from hetopt.export.flagscale.recompute import full_recompute
from hetopt.export.launcher import Reader
from hetopt.export.pipeline import MOST_STAGES, PipelineReadBack, stages_of
from hetopt.export.shared.hosts import rank_hosts
from hetopt.export.shared.megatron.arguments import FLAGSCALE
from hetopt.export.shared.megatron.experts_said import has_experts
from hetopt.export.shared.megatron.programs import ensure_decoder
from hetopt.export.shared.megatron.says import model_says, notes, training_says
from hetopt.export.understood import not_priced

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from hetopt.export.flagscale.experiment import Experiment
    from hetopt.export.pipeline import StagePlace
    from hetopt.export.shared.settings import Settings
    from hetopt.export.understood import Read
    from hetopt.results.reported import Reported

MESHES = "hetero_process_meshes"
SPLIT = "hetero_pipeline_layer_split"
TYPES = "hetero_device_types"
EXPERT_TENSOR = "expert_tensor_parallel_size_per_process_mesh"


class ProcessMesh(NamedTuple):
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


def looks_like_flagscale(folder: Path) -> bool:
    """Whether a folder has an experiment that trains, with meshes or without."""
    train = find_experiment(folder).train
    return train.flag("enable_hetero") or train.has("num_layers")


def read_flagscale(folder: Path) -> PipelineReadBack:
    """Read an experiment, its training settings and, if there is one, its hostfile.

    Raises
    ------
    InputError
        As ``hetopt.export.launcher.Reader``.
    """
    found = find_experiment(folder)
    train = found.train
    _check_task(found)
    if not train.flag("enable_hetero"):
        return read_one_mesh(found)
    meshes = _meshes(train)
    types = _types(train, meshes)
    layers = _layers(train, sum(mesh.pp for mesh in meshes))
    microbatches = _microbatches(train, meshes)
    _check_runnable(train, meshes)
    _check_ends(train, meshes[0], meshes[-1])
    full = full_recompute(train, layers, microbatches)
    selective = train.text("recompute_granularity", "none") == "selective"
    settings = train.texts()
    rows = [mesh for mesh in meshes for _ in range(mesh.pp)]
    stages = stages_of(
        _places(found, meshes, types),
        layers,
        [(mesh.dp, mesh.cp, mesh.tp) for mesh in rows],
        ["selective" if selective else "full" if on else "none" for on in full],
    )
    experts = _expert_degrees(train, meshes)
    degrees = [
        own for mesh, own in zip(meshes, experts, strict=True) for _ in range(mesh.pp)
    ]
    return PipelineReadBack(
        microbatches=microbatches,
        schedule="1f1b",
        stages=tuple(
            replace(stage, strategy=replace(stage.strategy, ep=ep, etp=etp))
            for stage, (ep, etp) in zip(stages, degrees, strict=True)
        ),
        says=_says(train, settings, meshes),
        reported=(
            *_replaced(train, meshes[0], experts[0][1]),
            *notes(settings, train.wrong),
            *FLAGSCALE.report(settings.left()),
        ),
    )


def _check_task(found: Experiment) -> None:
    """Raise InputError for an experiment that does not pre-train a decoder."""
    task = found.section("task")
    kind, entry = task.get("type", "train"), task.get("entrypoint")
    if kind != "train" and found.settings is not None:
        msg = (
            f"is {describe(kind)}: hetopt can price the pre-training of a decoder alone"
        )
        raise found.settings.under("task").wrong("type", msg)
    names = frozenset(iter(found.train.texts()))
    program = entry if isinstance(entry, str) else None
    ensure_decoder(program, names, found.train.file)


def _types(train: Settings, meshes: Sequence[ProcessMesh]) -> tuple[str, ...]:
    """Return the device type of each mesh."""
    types = train.names(TYPES)
    if len(types) != len(meshes):
        raise train.wrong(
            TYPES,
            f"has {counted(len(types), 'name')}, expected one for each of "
            f"{len(meshes)}",
        )
    runs = [name for name, _ in groupby(types)]
    for name in runs:
        if runs.count(name) > 1:
            raise train.wrong(
                TYPES,
                f"names {describe(name)} for meshes that are not neighbours, which "
                "merges their devices: give each its own name",
            )
    current = train.text("hetero_current_device_type", types[0])
    if current not in types:
        raise train.wrong(
            "hetero_current_device_type",
            f"is {describe(current)}, which is no device type",
        )
    return types


def _meshes(train: Settings) -> list[ProcessMesh]:
    numbers = train.numbers(MESHES)
    if not numbers or len(numbers) % 5:
        msg = (
            f"has {counted(len(numbers), 'number')}, expected tp, cp, ep, dp, pp of "
            "each mesh"
        )
        raise train.wrong(MESHES, msg)
    meshes = [ProcessMesh(*numbers[i : i + 5]) for i in range(0, len(numbers), 5)]
    for number, mesh in enumerate(meshes):
        for name, value in mesh._asdict().items():
            if value < 1:
                msg = f"mesh {number} has {name} {value}, expected at least 1"
                raise train.wrong(MESHES, msg)
        if mesh.cp != meshes[0].cp:
            msg = f"mesh {number} has cp {mesh.cp}, mesh 0 has {meshes[0].cp}"
            raise train.wrong(MESHES, f"{msg}: cp has to be the same")
    return meshes


def _expert_degrees(
    train: Settings, meshes: Sequence[ProcessMesh]
) -> list[tuple[int, int]]:
    """Return ep and etp of each mesh.

    Raises
    ------
    InputError
        They do not divide a mesh, or there are no experts to spread.
    """
    if not has_experts(train.texts()):
        for number, mesh in enumerate(meshes):
            if mesh.ep > 1:
                msg = f"mesh {number} has ep {mesh.ep}, but there are no num_experts"
                raise train.wrong(MESHES, msg)
        return [(1, 1)] * len(meshes)
    if len({mesh.ep > 1 for mesh in meshes}) > 1:
        named = ", ".join(str(mesh.ep) for mesh in meshes)
        msg = f"has ep {named}, expected 1 on all meshes or on none"
        raise train.wrong(MESHES, msg)
    if train.has(EXPERT_TENSOR):
        tensor = tuple(train.numbers(EXPERT_TENSOR))
    else:
        name = "expert_tensor_parallel_size"
        tensor = tuple(train.number(name, mesh.tp) for mesh in meshes)
    if len(tensor) != len(meshes):
        msg = (
            f"has {counted(len(tensor), 'number')}, expected one for each of "
            f"{len(meshes)}"
        )
        raise train.wrong(EXPERT_TENSOR, msg)
    for number, (mesh, etp) in enumerate(zip(meshes, tensor, strict=True)):
        each = mesh.devices // mesh.pp
        if etp < 1 or each % (mesh.ep * etp):
            msg = (
                f"mesh {number} has ep {mesh.ep} and expert tensor degree {etp}, whose "
                f"product does not divide the {counted(each, 'device')} of a stage"
            )
            raise train.wrong(MESHES, msg)
    return [(mesh.ep, etp) for mesh, etp in zip(meshes, tensor, strict=True)]


def _layers(train: Settings, stages: int) -> tuple[int, ...]:
    stated = train.number("pipeline_model_parallel_size", 1)
    if stated != stages or stages > MOST_STAGES:
        msg = f"is {stated}, the meshes have {counted(stages, 'stage')}"
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
        msg = (
            f"has {counted(len(layers), 'number')}, expected one for each of "
            f"{counted(stages, 'stage')}"
        )
        raise train.wrong(SPLIT, msg)
    if min(layers) < 1:
        msg = f"gives stage {layers.index(min(layers))} {counted(min(layers), 'layer')}"
        raise train.wrong(SPLIT, f"{msg}, expected at least 1")
    if sum(layers) != total:
        msg = f"adds up to {sum(layers)}, num_layers is {total}"
        raise train.wrong(SPLIT, msg)
    return layers


def _microbatches(train: Settings, meshes: Sequence[ProcessMesh]) -> int:
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


def _check_runnable(train: Settings, meshes: Sequence[ProcessMesh]) -> None:
    """Raise InputError for settings that FlagScale's meshes do not support."""
    for key in (
        "num_layers_per_virtual_pipeline_stage",
        "num_virtual_stages_per_pipeline_rank",
        "pipeline_model_parallel_layout",
    ):
        if train.has(key):
            raise train.wrong(key, "has no meaning beside meshes: leave it out")
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


def _check_ends(train: Settings, first: ProcessMesh, last: ProcessMesh) -> None:
    """Raise InputError if the ends cannot share a tied table."""
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
    found: Experiment, meshes: Sequence[ProcessMesh], types: Sequence[str]
) -> list[StagePlace]:
    """Return cluster and hosts of every stage, as far as the files name them.

    The cluster is the device type unless a bundle's ``ranks.csv`` names it.
    """
    needed = dict.fromkeys(types, 0)
    for mesh, kind in zip(meshes, types, strict=True):
        needed[kind] += mesh.devices
    ranks = hosts_of(found, needed)
    listed = ranks and (found.folder / "ranks.csv").exists()
    named = (rank_hosts(found.folder) if listed else None) or ()
    if [host for host, _ in named] != ranks:
        # The hostfile has changed since ``ranks.csv`` was written.
        named = tuple((host, None) for host in ranks)
    places: list[StagePlace] = []
    start = 0
    for mesh, kind in zip(meshes, types, strict=True):
        for _ in range(mesh.pp):
            end = start + mesh.devices // mesh.pp
            clusters = {cluster for _, cluster in named[start:end]}
            cluster = clusters.pop() if len(clusters) == 1 else None
            places.append((cluster or kind, tuple(ranks[start:end])))
            start = end
    return places


def _replaced(
    train: Settings, first: ProcessMesh, expert_tensor: int
) -> tuple[Reported, ...]:
    """Return reports of global degrees that differ from the first mesh's."""
    degrees = {
        "tensor_model_parallel_size": first.tp,
        "context_parallel_size": first.cp,
        "expert_model_parallel_size": first.ep,
    }
    if has_experts(train.texts()):
        degrees["expert_tensor_parallel_size"] = expert_tensor
    return tuple(
        not_priced(name, f"hetopt takes {value} of the first mesh")
        for name, value in degrees.items()
        if train.number(name, value) != value
    )


def _says(
    train: Settings, settings: Read, meshes: Sequence[ProcessMesh]
) -> dict[str, Any]:
    replicas = max(mesh.dp * mesh.cp for mesh in meshes)
    return {
        "seq_len": train.number("seq_length"),
        "global_batch": train.number("global_batch_size"),
        **training_says(settings, (replicas, max(mesh.tp for mesh in meshes))),
        **model_says(settings, train.number("num_layers"), train.wrong),
    }


READER = Reader(looks_like=looks_like_flagscale, read=read_flagscale)
