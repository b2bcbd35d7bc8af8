"""The source of each cluster's latencies: the problem's ``latency`` field.

``roofline``    the model of ``hetopt.cost.sources.roofline``
``operators``   the sum of measured operators that ship with hetopt, the accelerator's
                own or its nearest relative's
a name          of a profile that ships with hetopt
a path          of a profile, of layers or of operators
``auto``        the shipped profile of the cluster's preset that covers the model's
                units and precision, measured ones first, then published ones; else
                the operators, if they cover the model and precision; else the
                roofline
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.reading import MOST_TEXT_BYTES, decoded, read_bytes
from hetopt.cost.operators.file import MATMUL, OPERATORS_SCHEMA, parse_operators
from hetopt.cost.operators.relatives import by_class, shipped_operators
from hetopt.cost.profiles.csv_text import header_of
from hetopt.cost.profiles.file import KINDS
from hetopt.cost.sources.forest_source import ForestSource
from hetopt.cost.sources.operator_source import MEASURE, OperatorSource
from hetopt.cost.sources.roofline import Roofline
from hetopt.errors import InputError
from hetopt.problem.catalogue import PROFILE_SUFFIX, profile_contents

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from hetopt.cost.operators.relatives import Measured
    from hetopt.cost.sources.source import LatencySource, ShardQuery, ShardTimes
    from hetopt.cost.table.table import SourceKind
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem

AUTO = "auto"
ROOFLINE = "roofline"
OPERATORS = "operators"
_WHAT = "a profile"


class ClusterSources:
    """One latency source for each cluster of a problem, by name."""

    def __init__(self, by_cluster: Mapping[str, LatencySource]) -> None:
        self.by_cluster = by_cluster

    def source_kind(self, cluster: Cluster) -> SourceKind:
        """Return the kind of the cluster's source."""
        return self.by_cluster[cluster.name].source_kind(cluster)

    def shard_times(self, query: ShardQuery) -> ShardTimes:
        """Return the times of the cluster's source."""
        return self.by_cluster[query.cluster.name].shard_times(query)


def latency_sources(problem: Problem, *, cache: Path | None = None) -> ClusterSources:
    """Return the sources that a problem names.

    Parameters
    ----------
    cache
        Folder of cached predictions; the user's cache by default.

    Raises
    ------
    InputError
        A source is unknown, a profile cannot be read, or operators do not cover the
        problem.
    """
    read: dict[str, ForestSource] = {}
    return ClusterSources(
        {
            cluster.name: _source(problem, cluster, read, cache)
            for cluster in problem.clusters
        }
    )


def of_other_devices(problem: Problem) -> list[str]:
    """Return warnings on clusters whose profile is of another accelerator."""
    sources = latency_sources(problem).by_cluster
    found = []
    for cluster in problem.clusters:
        source = sources[cluster.name]
        if not isinstance(source, ForestSource):
            continue
        profiled = source.profile.header["accelerator"]
        if profiled not in (cluster.accelerator.preset, cluster.accelerator.name):
            found.append(
                f"cluster {cluster.name!r}: its latencies come from the profile "
                f"{source.name} of {profiled}, not of {cluster.accelerator.name}: if "
                f"that is the device, write accelerator: {{name: {profiled}, ...}}"
            )
    return found


def _source(
    problem: Problem,
    cluster: Cluster,
    read: dict[str, ForestSource],
    cache: Path | None,
) -> LatencySource:
    name = problem.latency.get(cluster.name, AUTO)
    if name == ROOFLINE:
        return Roofline()
    if name == OPERATORS:
        return _operators(problem, cluster, {}, None, cache)
    if name == AUTO:
        return _automatic(problem, cluster, read, cache) or _modelled(
            problem, cluster, cache
        )
    shipped = profile_contents()
    if name in shipped:
        return _read(name, shipped[name], read, cache)
    if name.endswith(PROFILE_SUFFIX):
        content = read_bytes(name, _WHAT, MOST_TEXT_BYTES)
        text = decoded(content, name, _WHAT)
        if header_of(text).get("schema") == OPERATORS_SCHEMA:
            parse_operators(text, name)
            if not (measured := by_class(text, name)):
                msg = "has no operators, expected rows such as matmul ones: " + MEASURE
                raise InputError(msg, file=name, field=f"latency.{cluster.name}")
            return _operators(problem, cluster, measured, name, cache)
        return _read(name, content, read, cache)
    known = ", ".join((AUTO, ROOFLINE, OPERATORS, *shipped))
    msg = f"is {name!r}, expected {known}, or the path of a {PROFILE_SUFFIX} file"
    raise InputError(msg, field=f"latency.{cluster.name}")


def _modelled(problem: Problem, cluster: Cluster, cache: Path | None) -> LatencySource:
    """Return the shipped operators if they cover the problem, else the roofline."""
    measured = shipped_operators(cluster.accelerator)
    if measured:
        source = OperatorSource(cluster.accelerator, measured, cache=cache)
        if source.lacks(problem.model, problem.training) is None:
            return source
    return Roofline()


def _operators(
    problem: Problem,
    cluster: Cluster,
    measured: Mapping[str, Measured],
    file: str | None,
    cache: Path | None,
) -> LatencySource:
    """Return a source of the operators that a problem names.

    Classes that a user's file lacks are taken from the shipped operators.

    Parameters
    ----------
    measured, file
        Operators of a user's file, and its name; empty and None without a file.
    """
    found = {**shipped_operators(cluster.accelerator), **measured}
    field = f"latency.{cluster.name}"
    if MATMUL not in found:
        device = cluster.accelerator.name
        msg = f"no operators of {device} or a relative were measured"
        if file is not None:
            msg = f"has no matmul operators, and none of {device} or a relative ship"
        raise InputError(f"{msg}: {MEASURE}", file=file, field=field)
    source = OperatorSource(
        cluster.accelerator, found, own=tuple(measured), cache=cache
    )
    reason = source.lacks(problem.model, problem.training)
    if reason is not None:
        raise InputError(reason, file=file, field=field)
    return source


def _automatic(
    problem: Problem,
    cluster: Cluster,
    read: dict[str, ForestSource],
    cache: Path | None,
) -> ForestSource | None:
    """Return the best shipped profile of the cluster's accelerator."""
    kinds = tuple(dict.fromkeys(problem.model.units))
    candidates = []
    for name, content in profile_contents().items():
        header = header_of(content.decode("utf-8", "replace"))
        if header.get("accelerator") == cluster.accelerator.preset:
            rank = KINDS.index(header["kind"]) if header.get("kind") in KINDS else 0
            candidates.append((rank, name, content))
    for _, name, content in sorted(candidates):
        source = _read(name, content, read, cache)
        if source.lacks(problem.model, problem.training, kinds) is None:
            return source
    return None


def _read(
    name: str, content: bytes, read: dict[str, ForestSource], cache: Path | None
) -> ForestSource:
    if name not in read:
        text = decoded(content, name, _WHAT)
        read[name] = ForestSource(text, name, cache=cache)
    return read[name]
