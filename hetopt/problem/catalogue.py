"""What ships with hetopt: accelerators, model presets, problem files, profiles."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from itertools import takewhile
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from hetopt.base.reading import parse_json
from hetopt.base.record import read
from hetopt.problem.accelerator_file import read_accelerator
from hetopt.problem.files import NO_FILES
from hetopt.problem.training.software import Software

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from hetopt.problem.cluster.accelerator import Accelerator

DATA = "hetopt.data"
PROFILE_SUFFIX = ".csv"
FOREST_SUFFIX = ".npz"
_WHAT = "an accelerator's facts"


class _Accelerators(Mapping[str, "Accelerator"]):
    """Reads a device's facts when it is looked up: most problems name two of them."""

    def __init__(self) -> None:
        found = {
            str(item): parse_json(item.read_bytes(), str(item), _WHAT)
            for item in _json_files("accelerators")
        }
        named = {data["name"]: (data, file) for file, data in found.items()}
        self._files = {name: named[name] for name in sorted(named)}
        self._read: dict[str, Accelerator] = {}

    def __getitem__(self, name: str) -> Accelerator:
        if name not in self._read:
            self._read[name] = read_accelerator(*self._files[name])
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._files

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)


@cache
def accelerators() -> Mapping[str, Accelerator]:
    """Return the catalogue's accelerators by name, sorted by name.

    Sources read ``measured: ...``, ``published: ...`` (a vendor's sheet or a paper) or
    ``modelled: ...`` (our assumption). Looking one up raises InputError, which names
    file and fact, if it lacks a fact or its source.
    """
    return _Accelerators()


@cache
def software() -> Mapping[str, Software]:
    """Return the catalogue's stacks of training software by name, sorted by name."""
    found = (
        read(Software, json.loads(item.read_text("utf-8")), NO_FILES)
        for item in _json_files("software")
    )
    by_name = {item.name: item for item in found}
    return MappingProxyType({name: by_name[name] for name in sorted(by_name)})


@cache
def model_presets() -> Mapping[str, Mapping[str, Any]]:
    """Return model presets by name: ``fields`` as in the problem file, ``sources``."""
    read = (json.loads(item.read_text("utf-8")) for item in _json_files("models"))
    found = {data["name"]: MappingProxyType(data) for data in read}
    return MappingProxyType({name: found[name] for name in sorted(found)})


@cache
def problem_files() -> Mapping[str, Traversable]:
    """Return shipped problem files by name, sorted; ``str()`` of one is its path."""
    return _files("problems", ".yaml")


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


def _json_files(folder: str) -> Iterator[Traversable]:
    for item in resources.files(DATA).joinpath(folder).iterdir():
        if item.name.endswith(".json"):
            yield item
