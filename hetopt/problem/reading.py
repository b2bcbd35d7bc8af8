"""Read a problem: one YAML file, and the files that its sections name.

Every mistake in them becomes one InputError with file, line and field.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hetopt.base.faults import Fault, UnknownField, faults
from hetopt.base.fields import unknown
from hetopt.base.record import read
from hetopt.base.words import describe, readable
from hetopt.errors import InputError
from hetopt.problem.building.sections import LATENCY_SOURCES
from hetopt.problem.catalogue import (
    PROFILE_SUFFIX,
    accelerators,
    profile_files,
    software,
)
from hetopt.problem.document.document import (
    Document,
    FieldPath,
    dotted,
    load_document,
    parse_document,
)
from hetopt.problem.files import Files
from hetopt.problem.named import SUFFIXES, problem_path
from hetopt.problem.problem import SECTIONS, Problem
from hetopt.problem.schema.places import meant
from hetopt.problem.training.lengths import read_histogram

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hetopt.problem.cluster.cluster import Cluster

#: How the schemas of files begin that hetopt writes; a problem has none.
_SCHEMAS = "hetopt-"
#: How names of profiles ended that held the roofline's times.
_RETIRED = "-modelled"
#: Longest chain of files that name each other; a longer one is a mistake.
_MAX_DEPTH = 8


def read_problem(source: str | PathLike[str] | Mapping[str, Any]) -> Problem:
    """Read a problem.

    Parameters
    ----------
    source
        The path of a file, the name of a problem that ships with hetopt, or the
        sections of a file as plain data; files that these name are relative to the
        current folder.

    Raises
    ------
    InputError
        With file, line and field of the first mistake.

    Examples
    --------
    >>> import hetopt
    >>> [cluster.name for cluster in hetopt.read_problem("problem.yaml").clusters]
    ['fast', 'slow']
    >>> hetopt.read_problem("hetauto-exp1").model.layers
    48
    """
    if isinstance(source, str | PathLike):
        path = problem_path(fspath(source))
        return problem_of(load_document(path), path)
    expected = "expected a path, a name, or a mapping of plain data as in a YAML file"
    if not isinstance(source, Mapping):
        raise InputError(f"is {describe(source)}, {expected}", field="problem")
    try:
        data = json.loads(json.dumps(dict(source)))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"{expected}: {error}", field="problem") from error
    return problem_of(Document(data), "problem")


def read_problem_text(text: str, name: str = "problem.yaml") -> Problem:
    """Read a problem from text.

    Parameters
    ----------
    text
        YAML or JSON.
    name
        The file's name in errors; files that the text names are relative to it.
    """
    return problem_of(parse_document(text, name), name)


def problem_of(document: Document, name: str) -> Problem:
    """Return the problem of a document, into which the files it names are read.

    Parameters
    ----------
    name
        The document's file, after which a problem without a name is named.
    """
    if not isinstance(document.data, dict):
        msg = (
            f"is {describe(document.data)}, expected a mapping with "
            f"{', '.join(SECTIONS)}"
        )
        raise document.error((), msg)
    schema = document.data.get("schema")
    if isinstance(schema, str) and schema.startswith(_SCHEMAS):
        msg = f"is {describe(schema)}, which hetopt wrote: expected a problem"
        raise document.error(("schema",), msg)
    _include_files(document)
    files = Files(
        accelerators=accelerators,
        software=software,
        config=partial(_read_config, document),
        profile=partial(_find_profile, document),
        shares=partial(_read_shares, document),
        name=readable(Path(name).stem),
    )
    try:
        problem = read(Problem, document.data, files)
    except ValidationError as error:
        raise _first_error(document, error) from None
    return _calibrated(problem)


def _calibrated(problem: Problem) -> Problem:
    """Return a problem with the overheads and the reserve of its calibration."""
    own, training = problem.calibration, problem.training
    if own.reserve is not None:
        training = replace(training, reserve=own.reserve)
    clusters: Iterable[Cluster] = (
        replace(each, overhead_bytes=own.overheads.get(each.name, each.overhead_bytes))
        for each in problem.clusters
    )
    return replace(problem, clusters=tuple(clusters), training=training)


def _error(document: Document, fault: Fault, more: str = "") -> InputError:
    origin = _origin(document, fault.path)
    return document.error(fault.path, fault.message + origin + more)


def _origin(document: Document, path: FieldPath) -> str:
    """Return words for the config.json that gave a field of the model, or ``""``."""
    model = document.data.get("model")
    config = model.get("hf_config") if isinstance(model, dict) else None
    if len(path) < 2 or path[0] != "model" or not isinstance(config, str):
        return ""
    if path[1] in model:
        return ""
    return f", as read from {config}"


def _read_config(document: Document, config: str) -> Mapping[str, Any]:
    where = ("model", "hf_config")
    path = _relative(document, where, config)
    if not path.is_file():
        raise document.error(where, f"names {str(path)!r}, which is not a file")
    # Only problems with a model's own configuration need its readers.
    from hetopt.problem.building.huggingface.fields import model_fields

    loaded = load_document(path)
    try:
        own = readable(path.parent.name or path.stem)
        return model_fields(loaded.data, name=own)
    except Fault as error:
        raise loaded.error(error.path, error.message) from None


def _read_shares(document: Document, histogram: str) -> Mapping[int, float]:
    where = ("training", "lengths")
    path = _relative(document, where, histogram)
    if not path.is_file():
        raise document.error(where, f"names {str(path)!r}, which is not a file")
    return read_histogram(path)


def _find_profile(document: Document, cluster: str, source: str) -> str:
    """Return a source's name, or the absolute path of a profile."""
    where = ("latency", cluster)
    if source.endswith(PROFILE_SUFFIX):
        path = _relative(document, where, source)
        if path.is_file():
            return str(path.resolve())
        source = source.removesuffix(PROFILE_SUFFIX)
        if source in profile_files():
            return source
        raise document.error(where, f"names {str(path)!r}, which is not a file")
    if source.endswith(_RETIRED):
        msg = f"is {source!r}, a profile that no longer ships: write roofline, the same"
        raise document.error(where, msg)
    known = (*LATENCY_SOURCES, *profile_files())
    if source not in known:
        what = f"the path of a {PROFILE_SUFFIX} file or one of"
        raise document.error(where, unknown(source, what, known))
    return source


def _relative(document: Document, where: FieldPath, name: str) -> Path:
    place = document.place(where)
    return Path(place.file).parent / name if place else Path(name)


def _include_files(document: Document) -> None:
    """Replace sections, clusters and accelerators that name a file by its content."""
    for section in SECTIONS:
        if section in document.data:
            _include(document, (section,))
    clusters = document.data.get("clusters")
    if isinstance(clusters, list):
        for index in range(len(clusters)):
            _include(document, ("clusters", index))
            cluster = clusters[index]
            if isinstance(cluster, dict) and "accelerator" in cluster:
                _include(document, ("clusters", index, "accelerator"))


def _include(document: Document, path: FieldPath) -> None:
    for _ in range(_MAX_DEPTH):
        reference = _reference(document, path)
        if reference is None:
            return
        file = _relative(document, path, reference)
        if not file.is_file():
            raise document.error(path, f"names {str(file)!r}, which is not a file")
        loaded = load_document(file)
        if len(path) == 1:
            loaded = _section(document, str(path[0]), str(file), loaded)
        document.replace(path, loaded)
    msg = f"names a file that names a file, more than {_MAX_DEPTH} times"
    raise document.error(path, msg)


def _section(document: Document, section: str, file: str, loaded: Document) -> Document:
    """Return a section from a file of its own, or from a problem file that has it."""
    data = loaded.data
    if not isinstance(data, dict):
        return loaded
    if isinstance(data.get(section), dict | list):
        return loaded.part(section)
    # A list of clusters is in problem files only: pins map clusters by name.
    if isinstance(data.get("clusters"), list):
        msg = f"names {file!r}, which has clusters but no {section}"
        raise document.error((section,), msg)
    return loaded


def _reference(document: Document, path: FieldPath) -> str | None:
    """Return the file that a value names, as a path or ``{file: path}``, or None."""
    value = document.data
    for key in path:
        value = value[key]
    if isinstance(value, str) and value.endswith(SUFFIXES):
        return value
    if isinstance(value, dict) and "file" in value:
        if len(value) > 1:
            msg = "is given together with other fields, expected it alone"
            raise document.error((*path, "file"), msg)
        if not isinstance(value["file"], str) or not value["file"]:
            msg = f"is {describe(value['file'])}, expected a path"
            raise document.error((*path, "file"), msg)
        return value["file"]
    return None


def _first_error(document: Document, error: ValidationError) -> InputError:
    found = faults(error)
    order = {key: index for index, key in enumerate(document.data)}

    def position(fault: Fault) -> tuple[int, int, str]:
        place = document.place(fault.path)
        section = order.get(str(fault.path[0]), -1) if fault.path else -1
        return section, place.line if place else 0, dotted(fault.path) or ""

    first = min(found, key=position)
    if isinstance(first, UnknownField):
        section = str(first.path[0]) if len(first.path) > 1 else ""
        hint = meant(str(first.path[-1]), first.names, section)
        first.message = f"is not a known field{hint}, {first.expected}"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return _error(document, first, more)
