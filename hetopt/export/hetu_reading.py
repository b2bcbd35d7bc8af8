"""Hetu's ``ds_parallel``, hetopt's and hand-made ones, as a sketch of a plan."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hetopt.errors import InputError
from hetopt.export.rank_hosts import MOST_RANKS, rank_hosts
from hetopt.export.sketch import Sketch, StageSketch
from hetopt.plan import Strategy
from hetopt.problem.document import load_document
from hetopt.problem.fields import MAX_WHOLE
from hetopt.words import describe

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hetopt.export.rank_hosts import RankHosts
    from hetopt.problem.training import Recompute

#: What hetopt writes.
STRATEGY = "ds_parallel.yaml"

_PART = "ds_parallel"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settings:
    """The part of a file that is Hetu's strategy."""

    file: str
    content: Mapping[str, Any]

    def wrong(self, name: str, what: str) -> InputError:
        return InputError(what, file=self.file, field=f"{_PART}.{name}")

    def count(self, name: str, default: int | None = None) -> int:
        value = self.content.get(name)
        if value is None and default is not None:
            return default
        if type(value) is not int or not 1 <= value <= MAX_WHOLE:
            msg = f"is {describe(value)}, expected a whole number from 1 to {MAX_WHOLE}"
            raise self.wrong(name, msg)
        return value

    def counts(self, name: str, size: int, default: int) -> list[int]:
        """Return one whole number of at least 1 for each of ``size``, all the same."""
        value = self.content.get(name)
        if size > MOST_RANKS:
            raise self.wrong(name, f"is of {size} pipelines, more than any job has")
        if value is None:
            value = [default] * size
        if (
            not isinstance(value, list)
            or len(value) != size
            or any(type(each) is not int or each < 1 for each in value)
        ):
            raise self.wrong(name, f"is no list of {size} whole numbers from 1")
        if len(set(value)) > 1:
            msg = "differs between pipelines, which hetopt cannot price"
            raise self.wrong(name, msg)
        return value


def looks_like_hetu(folder: Path) -> bool:
    """Whether a YAML file has a strategy with uneven layers; raises nothing."""
    try:
        return bool(_found(folder))
    except InputError:
        return False


def read_hetu(folder: Path) -> Sketch:
    """Read the only strategy of a folder.

    Raises
    ------
    InputError
        There is none or there are several, its pipelines differ, or Hetu would refuse
        it; see ``hetopt.export.sketch.Reader``.
    """
    found = _found(folder)
    if len(found) != 1:
        msg = f"holds {len(found)} YAML files with {_PART}.hetero_layers, expected one"
        raise InputError(msg, file=str(folder))
    settings = found[0]
    dp = settings.count("dp", 1)
    cps = settings.counts("cp_list", dp, settings.count("cp", 1))
    layers = _layers(settings, dp * cps[0])
    most = settings.count("gpus_per_stage", settings.count("tp", 1))
    if most != settings.count("tp", 1):
        raise settings.wrong("gpus_per_stage", f"is {most}, expected tp")
    devices = _devices(settings, dp * cps[0], len(layers), most)
    recompute = _recompute(settings, layers, dp * cps[0])
    microbatches = settings.counts("micro_batch_num_list", dp, 0)
    places = rank_hosts(folder)
    stages = []
    for number, count in enumerate(layers):
        held = [row[number] for row in devices]
        strategy = Strategy(
            dp=dp, cp=cps[0], tp=len(held[0]), recompute=recompute[number]
        )
        cluster, hosts = _place(
            settings, places, number, [d for row in held for d in row]
        )
        stages.append(
            StageSketch(cluster=cluster, hosts=hosts, layers=count, strategy=strategy)
        )
    says: dict[str, int | bool | str] = {"tied": False}
    if dp > 1:
        says["zero"] = int(bool(settings.content.get("zero", False)))
    return Sketch(
        microbatches=microbatches[0], schedule="1f1b", stages=tuple(stages), says=says
    )


def _found(folder: Path) -> list[_Settings]:
    found = []
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        content = load_document(path).data
        for _ in range(2):
            part = content.get(_PART) if isinstance(content, dict) else None
            if isinstance(part, dict) and "hetero_layers" in part:
                found.append(_Settings(file=str(path), content=part))
                break
            content = content.get("trainer") if isinstance(content, dict) else None
    return found


def _layers(settings: _Settings, pipelines: int) -> list[int]:
    value = settings.content["hetero_layers"]
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
        msg = f"is no list of {pipelines} pipelines, each the layers of its stages"
        raise settings.wrong("hetero_layers", msg)
    if any(row != value[0] for row in value):
        msg = "differs between pipelines, which hetopt cannot price"
        raise settings.wrong("hetero_layers", msg)
    layers: list[int] = value[0]
    total = settings.count("num_layers", sum(layers))
    if sum(layers) != total:
        msg = f"sums up to {sum(layers)}, expected {total} as in num_layers"
        raise settings.wrong("hetero_layers", msg)
    return layers


def _devices(
    settings: _Settings, pipelines: int, stages: int, most: int
) -> list[list[list[int]]]:
    """Return the devices of every stage of every pipeline."""
    if pipelines * stages * most > MOST_RANKS:
        msg = f"has more than {MOST_RANKS} places with {most} devices a stage"
        raise settings.wrong("hetero_layers", msg)
    places = range(pipelines * stages * most)
    mapping = _mapping(settings, places)
    listed = settings.content.get("unused_rank") or []
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
            for stage in range(stages)
        ]
        for row in range(pipelines)
    ]
    for stage in range(stages):
        counts = {len(row[stage]) for row in found}
        if len(counts) > 1 or not counts.isdisjoint({0}):
            msg = f"leaves stage {stage} {sorted(counts)} devices by pipeline, "
            raise settings.wrong("unused_rank", f"{msg}expected the same, from 1")
    used = {device for row in found for stage in row for device in stage}
    total = settings.count("num_gpus", len(used))
    if used != set(range(total)):
        msg = f"is {total}, expected that the used places have devices 0 to {total - 1}"
        raise settings.wrong("num_gpus", msg)
    return found


def _mapping(settings: _Settings, places: range) -> dict[int, int]:
    """Return the device of every place; the place itself if the file says nothing."""
    value = settings.content.get("rank_to_device_mapping")
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
    settings: _Settings, layers: list[int], pipelines: int
) -> list[Recompute]:
    """Return what every stage recomputes."""
    part = settings.content.get("recompute") or {}
    name = "recompute"
    granularity = part.get("recompute_granularity") if isinstance(part, dict) else part
    method = part.get("recompute_method") if isinstance(part, dict) else None
    if granularity is None and method is None:
        return ["none"] * len(layers)
    if granularity not in ("full", ["full"], ["full"] * pipelines):
        found = describe(granularity)
        msg = f"has granularity {found}, hetopt can price full alone"
        raise settings.wrong(name, msg)
    if not isinstance(part, dict):
        msg = f"is {describe(part)}, expected a mapping that says how"
        raise settings.wrong(name, msg)
    listed = part.get("recompute_layer_idxs_list")
    if not listed:
        count = part.get("recompute_num_layers")
        if method in ("uniform", ["uniform"]) and count in (None, 1, [1]):
            return ["full"] * len(layers)
        msg = "is neither a list of layers nor uniform by single layers"
        raise settings.wrong(name, msg)
    if not isinstance(listed, list) or any(row != listed[0] for row in listed):
        msg = "differs between pipelines, which hetopt cannot price"
        raise settings.wrong(name, msg)
    row = listed[0] if isinstance(listed[0], list) else [listed[0]]
    if any(type(layer) is not int or layer not in range(sum(layers)) for layer in row):
        msg = f"has other than layers from 0 to {sum(layers) - 1}"
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


def _place(
    settings: _Settings, places: RankHosts | None, stage: int, devices: list[int]
) -> tuple[str | None, tuple[str, ...]]:
    """Return cluster and hosts of a stage's devices, replica by replica."""
    if places is None:
        return None, ()
    if max(devices) >= len(places):
        msg = f"has device {max(devices)}, the hosts have {len(places)}"
        raise settings.wrong("rank_to_device_mapping", msg)
    held = [places[device] for device in devices]
    clusters = {cluster for _, cluster in held}
    if len(clusters) > 1:
        msg = f"places stage {stage} on {', '.join(sorted(map(str, clusters)))}"
        raise settings.wrong("rank_to_device_mapping", msg)
    return held[0][1], tuple(host for host, _ in held)
