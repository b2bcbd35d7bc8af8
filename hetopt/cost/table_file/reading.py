"""The latency table that a document describes, and what its values have to agree on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.faults import Fault, first_error, inside
from hetopt.base.fields import choice
from hetopt.base.words import counted
from hetopt.cost.folding import as_pair_table, pair_columns
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.slice import Layout, TableSlice
from hetopt.cost.table.table import CostTable, UnitTable
from hetopt.cost.table_file.records import CLUSTER_COLUMNS, TableFile
from hetopt.errors import InputError
from hetopt.problem.training.choices import RESHARDING
from hetopt.problem.training.epsilon import written_epsilon
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.shares import SharedLinks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from hetopt.cost.table_file.records import (
        SharedRows,
        SliceRows,
        StrategyRow,
        UnitRows,
    )
    from hetopt.plans.strategy import Strategy
    from hetopt.schedule.schedules import ScheduleRule

#: Columns of one number per strategy; the others have one per unit kind.
_PLAIN = (*("microbatch", "devices", "max_stages", "layout", "fixed_bytes", "sync_ns"),)
#: Further ones if the schedule splits the backward pass.
_WEIGHTS = ("weight_ns", "weight_bytes")


def read_document(data: Any, file: str | None) -> CostTable:
    """Return the table in JSON data; InputError if it is not one."""
    try:
        top = TableFile.from_json(data)
        rule = rule_of(top.schedule)
        return _Reader(top=top, rule=rule, tensors=top.cut_classes).table()
    except Fault as fault:
        error = first_error([fault])
    except InputError as found:
        error = found
    raise InputError(error.message, file=file, field=error.field or "document")


@dataclass(frozen=True, kw_only=True)
class _Reader:
    """Makes a table of a document's values, or raises Fault.

    Attributes
    ----------
    top
        The values of the whole document.
    tensors
        Classes of the tensors that cross boundaries.
    per_unit
        Whether units have strategies of their own.
    """

    top: TableFile
    rule: ScheduleRule
    tensors: tuple[str, ...]
    per_unit: bool = False

    def table(self) -> CostTable:
        """Return the table."""
        top = self.top
        for field in ("kinds", "cut_classes"):
            _ensure_different(getattr(top, field), field)
        names = [own.name for own in top.clusters]
        _ensure_different(names, "clusters")
        if len(top.body) != len(top.kinds):
            found = counted(len(top.body), "entry", "ies")
            raise Fault(f"has {found}, expected {len(top.kinds)} as kinds", "body")
        if len(top.cuts) != len(top.units) - 1:
            found = counted(len(top.cuts), "cut")
            raise Fault(f"is {found}, expected {len(top.units) - 1}", "cuts")
        chunks, pairs, way_back = top.chunks or 1, self._pairs(), None
        if chunks > 1 and top.layout is None:
            if top.way_back is None:
                raise Fault("is missing", "way_back")
            (way_back,) = _places([top.way_back], top.cut_classes, "way_back")
        slices = self._slices(top.slices)
        if pairs is not None:
            slices = [*self._folded(slices, pairs)]
        of_all: dict[str, Any] = {
            "chunks": chunks if top.layout is None else 1,
            "way_back": way_back,
            "pairs": pairs,
        }
        folds = None if pairs is None else top.schedule
        with inside("per_unit"):
            per_unit = self._units(top.per_unit)
        values: dict[str, Any] = {
            **{own.name: getattr(top, own.name, None) for own in fields(CostTable)},
            **{
                column: tuple(getattr(own, key) for own in top.clusters)
                for key, column in CLUSTER_COLUMNS.items()
            },
            "units": _places(top.units, top.kinds, "units"),
            "cuts": _places(top.cuts, top.cut_classes, "cuts"),
            "warmup_epsilon": written_epsilon(
                {"schedule": top.schedule, "warmup_epsilon": top.warmup_epsilon}
            ),
            "slices": tuple(replace(part, folds=folds, **of_all) for part in slices),
            "per_unit": per_unit,
        }
        return CostTable(**values | of_all | {"chunks": chunks})

    def _slices(self, slices: Sequence[SliceRows]) -> list[TableSlice]:
        counts = [part.microbatches for part in slices]
        if counts != sorted(set(counts)):
            msg = f"is {counts}, expected ascending micro-batch counts"
            raise Fault(msg, "slices")
        found = []
        for place, part in enumerate(slices):
            with inside("slices", place):
                found.append(self._slice(part))
        return found

    def _units(self, entry: UnitRows | None) -> UnitTable | None:
        """Return the table of plans with one strategy per unit; None if missing."""
        if entry is None:
            return None
        if (clusters := len(self.top.clusters)) != 1:
            raise Fault(f"is of {counted(clusters, 'cluster')}, expected one cluster")
        _ensure_different(entry.tensors, "tensors")
        units = len(self.top.units)
        tensors = _places(
            [own.tensor for own in entry.edges], entry.tensors, "edges", "tensor"
        )
        edges = []
        for place, (edge, tensor) in enumerate(zip(entry.edges, tensors, strict=True)):
            if not edge.first < edge.second < units:
                msg = f"is from {edge.first} to {edge.second}, expected first < second"
                raise Fault(f"{msg} < {units}", "edges", place)
            edges.append((edge.first, edge.second, tensor))
        if edges != sorted(set(edges)):
            raise Fault("is not ascending, expected each once, ascending", "edges")
        own = replace(self, tensors=entry.tensors, per_unit=True)
        slices = own._slices(entry.slices)
        return UnitTable(
            tensors=entry.tensors, edges=tuple(edges), slices=tuple(slices)
        )

    def _slice(self, part: SliceRows) -> TableSlice:
        names = [own.name for own in self.top.clusters]
        places = _places(
            [own.cluster for own in part.layouts], names, "layouts", "cluster"
        )
        layouts = tuple(
            Layout(cluster=place, dp=own.dp, shards=own.shards)
            for place, own in zip(places, part.layouts, strict=True)
        )
        _ensure_different(layouts, "layouts")
        if self.per_unit and part.within_ns is None:
            raise Fault("is missing", "within_ns")
        square = (len(layouts), len(layouts))
        grids = {
            name: _grid(getattr(part, name), (len(self.tensors), *square), name)
            for name in ("transfer_ns", "occupancy_ns", "within_ns")
        }
        more = grids["occupancy_ns"] > grids["transfer_ns"]
        if more.any():
            at = np.argwhere(more)[0].tolist()
            msg = f"is more than transfer_ns at {at}, expected at most as much"
            raise Fault(msg, "occupancy_ns")
        ways = _grid(
            part.resharding, (len(self.tensors), *square), "resharding", np.str_
        )
        if len(part.clusters) != len(names):
            found = counted(len(part.clusters), "entry", "ies")
            raise Fault(f"has {found}, expected {len(names)}", "clusters")
        clusters = []
        for place, own in enumerate(part.clusters):
            with inside("clusters", place):
                if own.name != names[place]:
                    raise Fault(f"is {own.name!r}, expected {names[place]!r}", "name")
                clusters.append(self._cluster(own.strategies, layouts, place))
        return TableSlice(
            microbatches=part.microbatches,
            layouts=layouts,
            clusters=tuple(clusters),
            resharding=(ways[..., None] == np.array(RESHARDING)).argmax(axis=-1),
            tied_ns=_grid(part.tied_ns, square, "tied_ns"),
            shared=_shared(part.shared, len(names)),
            **grids,
        )

    def _cluster(
        self, rows: Sequence[StrategyRow], layouts: tuple[Layout, ...], cluster: int
    ) -> ClusterTable:
        strategies = []
        for place, row in enumerate(rows):
            with inside("strategies", place):
                strategies.append(self._strategy(row, layouts, cluster))
        if len(set(strategies)) < len(strategies):
            raise Fault("is a repeated strategy, expected each once", "strategies")
        columns: dict[str, NDArray[np.int64]] = {}
        for column in fields(ClusterTable)[1:]:
            name = column.name
            values = [getattr(row, name) for row in rows]
            if name in _PLAIN:
                columns[name] = np.array(values, dtype=np.int64)
            elif name not in _WEIGHTS or self.rule.splits:
                columns[name] = self._by_kind(values, name)
        return ClusterTable(strategies=tuple(strategies), **columns)

    def _by_kind(
        self, values: Sequence[Mapping[str, int]], name: str
    ) -> NDArray[np.int64]:
        """Return numbers of strategies by kind; shape (K, N)."""
        kinds = self.top.kinds
        known = set(kinds)
        for place, value in enumerate(values):
            if value.keys() != known:
                kind = next(x for x in (*kinds, *value) if (x in known) ^ (x in value))
                msg = "is missing" if kind in known else "is not a kind of units"
                raise Fault(msg, "strategies", place, name, kind)
        table = [[value[kind] for kind in kinds] for value in values]
        return np.array(table, dtype=np.int64).reshape(len(values), len(kinds))

    def _strategy(
        self, row: StrategyRow, layouts: tuple[Layout, ...], cluster: int
    ) -> Strategy:
        """Return a row's strategy, after checking what follows from its degrees."""
        strategy, devices = row.strategy, self.top.clusters[cluster].devices
        if self.per_unit and strategy.zero is None:
            raise Fault("is missing", "zero")
        if strategy.zero is not None and not self.per_unit:
            strategy = replace(strategy, zero=None)
        needed = strategy.devices
        if row.devices != needed:
            msg = f"is {row.devices}, expected dp * cp * tp = {needed}"
            raise Fault(msg, "devices")
        if needed > devices:
            msg = f"is {needed}, expected at most the cluster's {devices}"
            raise Fault(msg, "devices")
        if not 1 <= row.max_stages <= devices // needed:
            msg = f"is {row.max_stages}, expected 1 to {devices // needed}"
            raise Fault(msg, "max_stages")
        shards = strategy.cp * strategy.tp
        lies = Layout(cluster=cluster, dp=strategy.dp, shards=shards)
        if row.layout >= len(layouts) or layouts[row.layout] != lies:
            expected = f"the layout of dp {lies.dp}, shards {lies.shards}"
            raise Fault(f"is {row.layout}, expected {expected}", "layout")
        self._ensure_weights(row)
        return strategy

    def _ensure_weights(self, row: StrategyRow) -> None:
        """Check what is given of weight gradients, if the schedule needs it."""
        if not self.rule.splits:
            return
        for name in _WEIGHTS:
            if getattr(row, name) is None:
                needs = f"schedule {self.top.schedule} needs it"
                raise Fault(f"is missing, but {needs}: build the table again", name)
        assert row.weight_ns is not None
        for kind, weight in row.weight_ns.items():
            backward = row.backward_ns.get(kind, 0)
            if 2 * weight > backward:
                msg = f"is {weight}, expected at most half of backward_ns, {backward}"
                raise Fault(msg, "weight_ns", kind)

    def _pairs(self) -> tuple[tuple[int, int], ...] | None:
        """Return the two kinds of each pair; None if the schedule does not fold."""
        if not self.rule.folded:
            return None
        if self.top.pairs is None:
            raise Fault("is missing", "pairs")
        single = self.top.kinds[: len(self.top.kinds) - len(self.top.pairs)]
        pairs = []
        for place, own in enumerate(self.top.pairs):
            with inside("pairs"):
                first, second = _places(own, single, place)
                pairs.append((first, second))
        return tuple(pairs)

    def _folded(
        self, slices: Sequence[TableSlice], pairs: tuple[tuple[int, int], ...]
    ) -> Iterator[TableSlice]:
        """Yield the slices with the costs of pairs: the sums of their units'."""
        for place, part in enumerate(slices):
            for number, own in enumerate(part.clusters):
                for name, column in pair_columns(own, pairs).items():
                    if (getattr(own, name)[:, -len(pairs) :] != column).any():
                        how = "larger" if name == "temporary_bytes" else "sum"
                        msg = f"is wrong for a pair, expected the {how} of its two "
                        path = ("clusters", number, "strategies", name)
                        raise Fault(f"{msg}units' values", "slices", place, *path)
            yield replace(part, clusters=tuple(map(as_pair_table, part.clusters)))


def _places(
    words: Iterable[str], known: Sequence[str], field: str | int, *below: str
) -> tuple[int, ...]:
    """Return the places of words among those that a field may have.

    Parameters
    ----------
    below
        Where a word is in an item of the field.
    """
    found, read = [], choice(tuple(known))
    for place, word in enumerate(words):
        with inside(field, place, *below):
            found.append(known.index(read(word)))
    return tuple(found)


def _ensure_different(values: Sequence[object], field: str) -> None:
    for place, value in enumerate(values):
        if value in values[:place]:
            raise Fault(f"is {value!r} a second time, expected each once", field, place)


def _grid(value: Any, shape: tuple[int, ...], field: str, kind: Any = np.int64) -> Any:
    """Return nested lists of exactly this shape as an array; None as it is."""
    if value is None:
        return None
    expected = f"expected lists of shape {list(shape)}"
    try:
        found = np.array(value, dtype=kind)
    except ValueError:
        raise Fault(f"has lists of different lengths, {expected}", field) from None
    if found.shape != shape and (found.size or prod(shape)):
        raise Fault(f"has lists of shape {list(found.shape)}, {expected}", field)
    return found.reshape(shape)


def _shared(entry: SharedRows | None, clusters: int) -> SharedLinks | None:
    if entry is None:
        return None
    with inside("shared"):
        uplink_ns = _grid(entry.uplink_ns, (clusters,), "uplink_ns")
        link_ns = _grid(entry.link_ns, (clusters, clusters), "link_ns")
        unlike = np.argwhere(link_ns != link_ns.T)
        if len(unlike):
            msg = f"is not symmetric at {unlike[0].tolist()}"
            raise Fault(f"{msg}, expected the same in both directions", "link_ns")
    return SharedLinks(uplink_ns=uplink_ns, link_ns=link_ns)
