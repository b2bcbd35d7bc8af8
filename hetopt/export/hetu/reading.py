"""Reads Hetu's ``ds_parallel``, written by hetopt or by hand."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from hetopt.base.fields import MAX_WHOLE
from hetopt.base.words import counted, describe
from hetopt.export.launcher import Reader
from hetopt.export.pipeline import PipelineReadBack, stages_of
from hetopt.export.shared.hosts import MOST_RANKS, rank_hosts, stage_places
from hetopt.export.shared.settings import Settings, load_settings, wrong_folder
from hetopt.export.understood import not_priced, table

if TYPE_CHECKING:
    from pathlib import Path

    from hetopt.export.pipeline import StagePlace
    from hetopt.problem.training.choices import Recompute
    from hetopt.results.reported import Reported

_PART = "ds_parallel"
_HETU = table(
    """
    ds_parallel_config_name ds_parallel_config_path hetero learning_rate lr
    log_interval output_dir save_dir save_steps save_strategy
    seed steps epochs logging_steps dataset data_path json_file json_key vocab_file
    merge_file tokenizer tokenizer_name_or_path num_workers adam_beta1 adam_beta2
    adam_epsilon weight_decay max_grad_norm warmup_steps rpc.server_addr
    rpc.server_port rpc.num_gpus name_or_path server_addr server_port num_gpus defaults
    """,
    {
        "hetopt prices the splits of the generator's own model": "split seq_len_list",
        "hetopt prices activations in device memory": "cpu_offload offload",
        "hetopt prices whole sequences, without packing and dropping tokens": (
            "packing greedy_packing"
        ),
    },
)


def looks_like_hetu(folder: Path) -> bool:
    """Whether a YAML file has a strategy with ``hetero_layers``."""
    return bool(_found(folder))


def read_hetu(folder: Path) -> PipelineReadBack:
    """Read the only strategy of a folder.

    Raises
    ------
    InputError
        There is none or there are several, its pipelines differ, or Hetu would refuse
        it; see ``hetopt.export.launcher.Reader``.
    """
    found = _found(folder)
    if len(found) != 1:
        msg = f"holds {len(found)} YAML files with {_PART}.hetero_layers, expected one"
        raise wrong_folder(folder, msg)
    settings = found[0]
    dp = settings.number("dp", 1)
    cp = _equal(settings, "cp_list", dp, settings.number("cp", 1))
    layers = _layers(settings, dp * cp)
    most = settings.number("gpus_per_stage", settings.number("tp", 1))
    if most != settings.number("tp", 1):
        raise settings.wrong("gpus_per_stage", f"is {most}, expected tp")
    devices = _devices(settings, dp * cp, len(layers), most)
    recompute = _recompute(settings, layers, dp * cp)
    says: dict[str, int | bool | str] = {"tied": False}
    sharded = bool(settings.get("zero", False))
    if dp > 1:
        says["zero"] = int(sharded)
    microbatches = _equal(settings, "micro_batch_num_list", dp, 0)
    others, rest = _others(settings, dp * microbatches)
    if settings.number("pp", len(layers)) != len(layers):
        told = f"hetopt takes the {len(layers)} stages of hetero_layers"
        rest = (not_priced("pp", told), *rest)
    return PipelineReadBack(
        microbatches=microbatches,
        schedule="1f1b",
        stages=stages_of(
            _places(settings, folder, devices),
            layers,
            [(dp, cp, len(held[0])) for held in devices],
            recompute,
        ),
        says=says | others,
        reported=(*_HETU.report(settings.texts().left()), *rest),
    )


def _others(
    strategy: Settings, microbatches: int
) -> tuple[dict[str, int | bool | str], tuple[Reported, ...]]:
    """Return what a configuration says besides its strategy.

    Parameters
    ----------
    microbatches
        Those of all replicas.
    """
    whole = strategy.whole()
    parts = whole.data if isinstance(whole.data, dict) else {}
    names = [name for name, part in parts.items() if isinstance(part, dict)]
    names = [name for name in names if name != _PART]
    lone = {name for name, part in parts.items() if not isinstance(part, dict)}
    says: dict[str, int | bool | str] = {}
    reported: list[Reported] = []
    for settings in (whole, *(whole.under(name) for name in names)):
        if settings.has("micro_batch_size"):
            says["global_batch"] = settings.number("micro_batch_size") * microbatches
        for name in ("seq_len", "seq_length", "max_seq_length"):
            if settings.has(name):
                says["seq_len"] = settings.number(name)
        if settings.has("bf16"):
            says["precision"] = "bf16" if settings.flag("bf16") else "fp32"
        left = settings.texts().left()
        if settings is whole:
            left = {name: value for name, value in left.items() if name in lone}
        left.pop(_PART, None)
        reported += _HETU.report(left)
    return says, tuple(reported)


def _equal(settings: Settings, name: str, pipelines: int, default: int) -> int:
    """Return the number, from 1, that a list repeats for every pipeline."""
    if pipelines > MOST_RANKS:
        raise settings.wrong(
            name, f"is of {counted(pipelines, 'pipeline')}, more than any job has"
        )
    value = settings.get(name, [default] * pipelines)
    if (
        not isinstance(value, list)
        or len(value) != pipelines
        or any(type(each) is not int or each < 1 for each in value)
    ):
        raise settings.wrong(name, f"is no list of {pipelines} whole numbers from 1")
    if len(set(value)) > 1:
        raise settings.wrong(
            name, "differs between pipelines, which hetopt cannot price"
        )
    number: int = value[0]
    return number


def _found(folder: Path) -> list[Settings]:
    """Return the strategies of a folder, at most one from each file."""
    found = []
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        file = load_settings(path)
        for part in (file.under(_PART), file.under("trainer", _PART)):
            if isinstance(part.data, dict) and "hetero_layers" in part.data:
                found.append(part)
                break
    return found


def _layers(settings: Settings, pipelines: int) -> list[int]:
    value = settings.get("hetero_layers")
    if (
        not isinstance(value, list)
        or len(value) != pipelines
        or any(
            not isinstance(row, list)
            or not row
            or any(type(each) is not int or not 1 <= each <= MAX_WHOLE for each in row)
            for row in value
        )
    ):
        msg = (
            f"is no list of {counted(pipelines, 'pipeline')}, each the layers of its "
            "stages"
        )
        raise settings.wrong("hetero_layers", msg)
    if any(row != value[0] for row in value):
        msg = "differs between pipelines, which hetopt cannot price"
        raise settings.wrong("hetero_layers", msg)
    layers: list[int] = value[0]
    total = settings.number("num_layers", sum(layers))
    if sum(layers) != total:
        msg = f"sums up to {sum(layers)}, expected {total} as in num_layers"
        raise settings.wrong("hetero_layers", msg)
    return layers


def _devices(
    settings: Settings, pipelines: int, stages: int, most: int
) -> list[list[list[int]]]:
    """Return for each stage the devices of every pipeline."""
    if pipelines * stages * most > MOST_RANKS:
        msg = (
            f"has more than {MOST_RANKS} places with {counted(most, 'device')} a stage"
        )
        raise settings.wrong("hetero_layers", msg)
    places = range(pipelines * stages * most)
    mapping = _mapping(settings, places)
    listed = settings.get("unused_rank") or []
    if not isinstance(listed, list) or any(place not in places for place in listed):
        msg = f"is no list of places from 0 to {len(places) - 1}"
        raise settings.wrong("unused_rank", msg)
    unused = set(listed)
    found = [
        [
            [
                mapping[place]
                for place in places[(row * stages + stage) * most :][:most]
                if place not in unused
            ]
            for row in range(pipelines)
        ]
        for stage in range(stages)
    ]
    for stage, held in enumerate(found):
        counts = {len(own) for own in held}
        if len(counts) > 1 or not counts.isdisjoint({0}):
            msg = f"leaves stage {stage} {sorted(counts)} devices by pipeline, "
            raise settings.wrong("unused_rank", f"{msg}expected the same, from 1")
    used = {device for held in found for own in held for device in own}
    total = settings.number("num_gpus", len(used))
    if used != set(range(total)):
        msg = f"is {total}, expected that the used places have devices 0 to {total - 1}"
        raise settings.wrong("num_gpus", msg)
    return found


def _mapping(settings: Settings, places: range) -> dict[int, int]:
    """Return the device of every place; the place itself if the file has no mapping."""
    value = settings.get("rank_to_device_mapping")
    if value is None:
        return dict(zip(places, places, strict=True))
    if (
        not isinstance(value, dict)
        or any(type(device) is not int for device in value.values())
        or any(str(place) not in value for place in places)
        or len(set(value.values())) < len(value)
    ):
        msg = f"has no device of its own for each of {len(places)} places"
        raise settings.wrong("rank_to_device_mapping", msg)
    return {place: value[str(place)] for place in places}


def _recompute(
    settings: Settings, layers: list[int], pipelines: int
) -> list[Recompute]:
    """Return what every stage recomputes."""
    part = settings.get("recompute") or {}
    name = "recompute"
    granularity = part.get("recompute_granularity") if isinstance(part, dict) else part
    method = part.get("recompute_method") if isinstance(part, dict) else None
    if granularity is None and method is None:
        return ["none"] * len(layers)
    if granularity not in ("full", ["full"], ["full"] * pipelines):
        msg = f"is {describe(granularity)}, hetopt can price full alone"
        key = "recompute.recompute_granularity" if isinstance(part, dict) else name
        raise settings.wrong(key, msg)
    if not isinstance(part, dict):
        msg = f"is {describe(part)}, expected a mapping that says how"
        raise settings.wrong(name, msg)
    listed = part.get("recompute_layer_idxs_list")
    name = "recompute.recompute_layer_idxs_list"
    if not listed:
        count = part.get("recompute_num_layers")
        if method in ("uniform", ["uniform"]) and count in (None, 1, [1]):
            return ["full"] * len(layers)
        msg = "is no list of layers, and recompute_method not uniform by single layers"
        raise settings.wrong(name, msg)
    if not isinstance(listed, list) or any(row != listed[0] for row in listed):
        msg = "differs between pipelines, which hetopt cannot price"
        raise settings.wrong(name, msg)
    row = listed[0] if isinstance(listed[0], list) else [listed[0]]
    if any(type(layer) is not int or layer not in range(sum(layers)) for layer in row):
        msg = f"has entries that are not layers from 0 to {sum(layers) - 1}"
        raise settings.wrong(name, msg)
    chosen = sorted(set(row))
    policies: list[Recompute] = []
    first = 0
    for number, count in enumerate(layers):
        own = bisect_left(chosen, first + count) - bisect_left(chosen, first)
        if 0 < own < count:
            msg = f"has some layers of stage {number}, hetopt can price all or none"
            raise settings.wrong(name, msg)
        policies.append("full" if own else "none")
        first += count
    return policies


def _places(
    settings: Settings, folder: Path, devices: list[list[list[int]]]
) -> list[StagePlace]:
    """Return cluster and hosts of every stage, replica by replica."""
    name = "rank_to_device_mapping"
    hosts = rank_hosts(folder)
    ranks = [[device for own in held for device in own] for held in devices]
    most = max(map(max, ranks))
    if hosts is not None and most >= len(hosts):
        raise settings.wrong(name, f"has device {most}, the hosts have {len(hosts)}")
    return stage_places(hosts, ranks, settings.file, f"{_PART}.{name}")


READER = Reader(looks_like=looks_like_hetu, read=read_hetu)
