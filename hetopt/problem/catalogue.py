"""What ships with hetopt: accelerators, model presets, problem files, profiles."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib import resources
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hetopt.problem.cluster.cluster import Accelerator, Link, PeakFlops
from hetopt.problem.quantity import (
    parse_bandwidth,
    parse_flops,
    parse_memory,
    parse_time,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

DATA = "hetopt.data"
PROFILE_SUFFIX = ".csv"
FOREST_SUFFIX = ".npz"


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Return the catalogue's accelerators by name, sorted by name.

    Sources read ``published: ...`` (a vendor's sheet or a paper) or
    ``modelled: ...`` (our assumption).
    """
    found = (_accelerator(data) for data in _json_files("accelerators"))
    return MappingProxyType({item.name: item for item in _sorted(found)})


@cache
def model_presets() -> Mapping[str, Mapping[str, Any]]:
    """Return model presets by name: ``fields`` as in the problem file, ``sources``."""
    found = {data["name"]: MappingProxyType(data) for data in _json_files("models")}
    return MappingProxyType({name: found[name] for name in sorted(found)})


@cache
def problem_files() -> Mapping[str, Traversable]:
    """Return shipped problem files by name, sorted; ``str()`` of one is its path."""
    folder = resources.files(DATA).joinpath("problems")
    names = sorted(
        item.name for item in folder.iterdir() if item.name.endswith(".yaml")
    )
    return {name.removesuffix(".yaml"): folder.joinpath(name) for name in names}


@cache
def problem_summaries() -> Mapping[str, str]:
    """Return what shipped problems are, by name: first sentences of their files."""
    return {name: _summary(file) for name, file in problem_files().items()}


def _summary(file: Traversable) -> str:
    """Return the first sentence of the comment at the head of a file."""
    lines = file.read_text("utf-8").splitlines()
    head = takewhile(lambda line: line.startswith("#"), lines)
    text = " ".join(line.lstrip("# ") for line in head)
    return re.split(r"(?<=[.?!])\s+(?=[A-Z])", text)[0].rstrip(".")


@cache
def profile_files() -> Mapping[str, Traversable]:
    """Return shipped latency profiles by name, sorted."""
    return _files("profiles", PROFILE_SUFFIX)


@cache
def profile_contents() -> Mapping[str, bytes]:
    """Return the content of shipped latency profiles by name, sorted; read once."""
    return {name: file.read_bytes() for name, file in profile_files().items()}


@cache
def operator_files() -> Mapping[str, Traversable]:
    """Return shipped operator profiles by name, sorted."""
    return _files("operators", PROFILE_SUFFIX)


@cache
def forest_files() -> Mapping[str, Traversable]:
    """Return shipped forests of operators by name, sorted."""
    return _files("forests", FOREST_SUFFIX)


def _files(kind: str, suffix: str) -> Mapping[str, Traversable]:
    folder = resources.files(DATA).joinpath(kind)
    if not folder.is_dir():
        return {}
    names = sorted(item.name for item in folder.iterdir() if item.name.endswith(suffix))
    return {name.removesuffix(suffix): folder.joinpath(name) for name in names}


def _json_files(folder: str) -> Iterator[dict[str, Any]]:
    for item in resources.files(DATA).joinpath(folder).iterdir():
        if item.name.endswith(".json"):
            yield json.loads(item.read_text("utf-8"))


def _sorted(found: Iterator[Accelerator]) -> list[Accelerator]:
    return sorted(found, key=lambda item: item.name)


def _accelerator(data: dict[str, Any]) -> Accelerator:
    return Accelerator(
        name=data["name"],
        peak_flops=PeakFlops(
            **{
                name: parse_flops(rate["value"])
                for name, rate in data["peak_flops"].items()
            }
        ),
        memory_bytes=parse_memory(data["memory"]["value"]),
        memory_bandwidth_bytes_per_s=parse_bandwidth(data["memory_bandwidth"]["value"]),
        intra_node=_link(data["intra_node"]),
        host_device=_link(data["host_device"]),
        sold_as_bytes=parse_memory(
            data["memory"].get("sold_as", data["memory"]["value"])
        ),
        overhead_bytes=parse_memory(data["overhead"]["value"]),
        sources=dict(_sources(data)),
    )


def _link(data: dict[str, Any]) -> Link:
    return Link(
        latency_s=parse_time(data["latency"]["value"]),
        bandwidth_bytes_per_s=parse_bandwidth(data["bandwidth"]["value"]),
    )


def _sources(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        if not isinstance(value, dict):
            continue
        if "source" in value:
            yield prefix + key, f"{value['kind']}: {value['source']}"
        else:
            yield from _sources(value, f"{prefix}{key}.")
