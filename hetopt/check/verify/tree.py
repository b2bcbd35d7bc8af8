"""Verify the certificate of a search that branched.

What the plan file says has to follow from the tree of claims as ``hetopt check`` wants
it, but with bounds on leaves that their certificates claim. A leaf without a
certificate counts with its device time. Problem and table of each leaf are made here
from those of the plan; its certificate names them by their digests.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hetopt.base.deadline import Deadline
from hetopt.check.claims.device_time import DeviceTime
from hetopt.check.claims.result import check_result
from hetopt.check.claims.ways import restricted
from hetopt.check.plan.packing import most_stages
from hetopt.check.plan.reading import choice, items, mapping, text
from hetopt.check.verify.bound import OutOfTime
from hetopt.check.verify.certificate import CertificateCheck
from hetopt.check.verify.findings import Finding
from hetopt.check.verify.said import Said
from hetopt.cost.divided import part
from hetopt.cost.sources.by_cluster import latency_sources
from hetopt.cost.sources.remembered import RememberedSource
from hetopt.cost.table_file.file import table_digest
from hetopt.errors import DigestError, InputError
from hetopt.problem.digest import problem_digest
from hetopt.results.certificate import PS_S, TREE_SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hetopt.check.claims.asked import Runs
    from hetopt.check.claims.claim import At
    from hetopt.cost.sources.source import LatencySource
    from hetopt.cost.table.cluster import ClusterTable
    from hetopt.cost.table.table import CostTable
    from hetopt.problem.cluster.cluster import Cluster
    from hetopt.problem.problem import Problem

    #: A problem and its table.
    Space = tuple[Problem, CostTable]


class Launcher(NamedTuple):
    """What a launcher runs, which is for exports to say.

    Attributes
    ----------
    runs
        Whether it runs a schedule.
    split
        Returns spaces that hold all plans of one that it can run, by a rule's name.
    sharing
        Returns the space of one of several pipelines with what these have in common.
    """

    runs: Runs
    split: Callable[[Problem, CostTable, str], Sequence[Space]]
    sharing: Callable[[Problem, CostTable, str], Space] | None = None


class Leaf(NamedTuple):
    """The certificate of one problem of the tree.

    Attributes
    ----------
    field
        Where it is in the file; empty if it is the whole file.
    """

    field: str
    check: CertificateCheck


class TreeCheck:
    """A certificate against the result that it is of.

    Attributes
    ----------
    leaves
        The certificates of leaves, complete when ``findings`` is exhausted.

    Parameters
    ----------
    problem, table
        Under the schedule of the plan.
    data
        The certificate's JSON.
    result
        That of the plan file.
    launcher
        Whose plans it is of, if any.
    deadline
        When no more problems of leaves may be made.
    """

    def __init__(
        self,
        problem: Problem,
        table: CostTable,
        data: Mapping[str, Any],
        result: Mapping[str, Any],
        launcher: Launcher | None = None,
        deadline: Deadline | None = None,
    ) -> None:
        choice(data, "schema", (TREE_SCHEMA,), "")
        self._deadline = deadline or Deadline()
        self.leaves: list[Leaf] = []
        self._problem, self._table = problem, table
        self._data, self._result = data, result
        self._launcher = launcher
        simulated = result["objective"] == "simulated"
        relaxed = tuple(result.get("relaxed", ()))
        self._said = Said(
            plan=None, relaxed=relaxed, objective="simulated" if simulated else "closed"
        )
        self._sources: dict[object, tuple[Problem, LatencySource]] = {}

    def findings(self) -> Iterator[Finding]:
        """Yield what does not follow from the claims, whatever the leaves prove.

        Raises
        ------
        InputError
            A claim or a certificate has not its form; the field names the key.
        OutOfTime
            The deadline was reached.
        """
        data, result = self._data, self._result
        for key, digest in (
            ("problem_digest", problem_digest(self._problem)),
            ("table_digest", table_digest(self._table)),
        ):
            if text(data, key, "") != digest:
                what = key.removesuffix("_digest")
                yield Finding(key, f"{data[key]}, but the {what} has {digest}")
        for key in ("over", "plan"):
            if data.get(key) != result.get(key):
                yield Finding(key, "is not that of the plan file")
        made = {**result, "claims": data.get("claims")}
        runs = None if self._launcher is None else self._launcher.runs
        try:
            lines = check_result(self._problem, self._table, made, self._bound, runs)
        except DigestError as error:
            lines = [f"plan: {error.message}"]
        for line in lines:
            field, _, message = line.partition(": ")
            yield Finding(field, message)

    def _bound(self, at: At, entry: Mapping[str, Any]) -> float:
        """Return the bound of a leaf, and remember its certificate."""
        if self._deadline.is_over():
            raise OutOfTime
        space = self._edited(at)
        if self._launcher is not None:
            return self._launched(at, entry, at.place, space)
        at.ensure_leaf(entry, "certificate")
        return self._certified(at, entry, at.place, space)

    def _launched(
        self, at: At, entry: Mapping[str, Any], place: str, space: Space
    ) -> float:
        """Return the bound of the plans of a space that the launcher can run.

        It is that of all its plans, or that of the parts that a rule splits it into.
        """
        ensure = at.ensure_leaf if place == at.place else at.ensure_keys
        ensure(entry, "by", "rule", "parts", "certificate")
        choice(entry, "by", ("launcher",), place)
        least_s = self._certified(at, entry, place, space)
        if "rule" not in entry:
            return least_s
        assert self._launcher is not None
        rule = text(entry, "rule", place)
        try:
            spaces = self._launcher.split(*space, rule)
        except InputError as error:
            raise InputError(error.message, field=f"{place}.rule") from error
        parts = list(items(entry, "parts", place))
        if len(parts) != len(spaces):
            at.asked.say(f"{place}.parts: {len(parts)}, expected {len(spaces)}")
            return least_s
        bounds = [
            self._launched(at, mapping(part, where), where, own)
            for (where, part), own in zip(parts, spaces, strict=True)
        ]
        return max(least_s, min(bounds, default=math.inf))

    def _certified(
        self, at: At, entry: Mapping[str, Any], place: str, space: Space
    ) -> float:
        """Return the bound that a certificate claims; without one, the device time."""
        problem, table = space
        if "certificate" not in entry:
            return DeviceTime(problem, table, divided=False).of_all()
        field = f"{place}.certificate"
        try:
            own = mapping(entry["certificate"], field)
            check = CertificateCheck(problem, table, own, self._said)
        except InputError as error:
            where = f"{field}.{error.field}" if error.field else field
            raise InputError(error.message, field=where) from error
        # Only the reported plan is in the plan file.
        check.said = replace(self._said, plan=check.claimed)
        self.leaves.append(Leaf(field, check))
        least = check.lower_bound
        if least is None:
            return math.inf
        # It is on times that are rounded up.
        return least * PS_S + at.asked.slack_s(at.chunks) / 2

    def _edited(self, at: At) -> Space:
        """Return problem and table of a leaf."""
        problem, table = at.asked.of(at.variant)
        if at.part is None:
            some = "fleets" in at.asked.over
            return _rented(problem, table, at.nodes) if some else (problem, table)
        key = at.variant, at.nodes
        if key not in self._sources:
            own = restricted(problem, at.nodes)
            self._sources[key] = own, RememberedSource(latency_sources(own))
        own, source = self._sources[key]
        made = part(own, *at.part, source)
        if at.alike is None:
            return made
        if self._launcher is None or self._launcher.sharing is None:
            msg = "has no meaning for a launcher that runs one pipeline"
            raise InputError(msg, field=f"{at.place}.alike")
        return self._launcher.sharing(*made, at.alike)


def _rented(
    problem: Problem, table: CostTable, nodes: tuple[int, ...]
) -> tuple[Problem, CostTable]:
    """Return problem and table with only some nodes of each cluster.

    A cluster without nodes keeps one, but has no strategies. Costs stay as they are, as
    plans are reported, and priced, as plans of the problem with all nodes.
    """
    there = tuple(
        each.with_nodes(max(1, count))
        for each, count in zip(problem.clusters, nodes, strict=True)
    )
    own = replace(problem, clusters=there)
    slices = []
    for each in table.slices:
        known = zip(each.clusters, there, nodes, strict=True)
        clusters = tuple(_fitting(*one) for one in known)
        if any(one.strategies for one in clusters):
            slices.append(replace(each, clusters=clusters))
    devices = tuple(each.devices for each in there)
    return own, replace(
        table,
        problem_digest=problem_digest(own),
        cluster_devices=devices,
        slices=tuple(slices),
        per_unit=None,
    )


def _fitting(own: ClusterTable, cluster: Cluster, nodes: int) -> ClusterTable:
    """Return a cluster's table without strategies of which no stage fits."""
    most = [most_stages(cluster, each) if nodes else 0 for each in own.strategies]
    kept = [number for number, stages in enumerate(most) if stages]
    columns = {name: column[kept] for name, column in own.columns().items()}
    columns["max_stages"] = np.array([most[number] for number in kept], dtype=np.int64)
    return replace(
        own, strategies=tuple(own.strategies[number] for number in kept), **columns
    )
