"""Reading a latency table from JSON data; errors name the field."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from hetopt.base.words import counted
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.slice import Layout, TableSlice
from hetopt.cost.table.table import CostTable, SourceKind, UnitTable
from hetopt.cost.table_file.columns import (
    STRATEGY_NUMBERS,
    WEIGHT_NUMBERS,
    kind_numbers,
    most_of,
)
from hetopt.cost.table_file.pairs import PairReader
from hetopt.plans.strategy import EXPERT_DEGREES, Strategy
from hetopt.problem.quantity import TOO_MANY_BYTES
from hetopt.problem.training.choices import (
    RECOMPUTE,
    RESHARDING,
    SCHEDULE_CHOICES,
)
from hetopt.problem.training.training import written_epsilon
from hetopt.schedule.shares import SharedLinks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

TABLE_SCHEMA = "hetopt-table/1"

_SOURCES: tuple[SourceKind, ...] = get_args(SourceKind)


class TableReader(PairReader):
    """Reader of one document; methods take the dotted field that they read.

    Attributes
    ----------
    kinds, names, devices
        Those of the whole table: kinds of units, and the clusters' names and devices.
    schedule
        Name of the schedule.
    """

    names: tuple[str, ...]
    devices: tuple[int, ...]

    def table(self, data: Any) -> CostTable:
        """Read the whole document."""
        top = self._object(data, "")
        self._chosen(top, "", "schema", (TABLE_SCHEMA,))
        named = self._get(top, "", "schedule")
        self.schedule = self._choice(named, "schedule", SCHEDULE_CHOICES)
        self.kinds = kinds = self._names(top, "kinds")
        cut_classes = self._names(top, "cut_classes")
        body = self._list(top, "", "body", length=len(kinds))
        for place, value in enumerate(body):
            if not isinstance(value, bool):
                self._wrong(f"body.{place}", value, "true or false")
        units = self._indices(top, "units", kinds)
        if len(units) < 3:
            self._wrong("units", counted(len(units), "unit"), "at least 3")
        cuts = self._indices(top, "cuts", cut_classes)
        if len(cuts) != len(units) - 1:
            self._wrong("cuts", counted(len(cuts), "cut"), f"{len(units) - 1}")
        clusters = self._clusters(top)
        self.names = tuple(cluster["name"] for cluster in clusters)
        self.devices = tuple(cluster["devices"] for cluster in clusters)
        slices = tuple(
            self._slice(part, f"slices.{place}", cut_classes)
            for place, part in enumerate(self._list(top, "", "slices"))
        )
        self._ascending(slices, "slices")
        chunks, way_back = self._chunks(top, cut_classes)
        pairs = self._pairs(top)
        slices = tuple(
            replace(
                part,
                chunks=chunks,
                way_back=way_back,
                pairs=pairs,
                folds=None if pairs is None else self.schedule,
            )
            for part in self._folded(slices, pairs)
        )
        return CostTable(
            problem_digest=self._text(top, "", "problem_digest"),
            schedule=self.schedule,
            warmup_epsilon=written_epsilon(top, file=self.file),
            kinds=kinds,
            cut_classes=cut_classes,
            units=units,
            cuts=cuts,
            body=tuple(body),
            cluster_names=self.names,
            cluster_devices=self.devices,
            usable_bytes=tuple(cluster["usable_bytes"] for cluster in clusters),
            sources=tuple(cluster["source"] for cluster in clusters),
            slices=slices,
            tokens=self._integer(top, "", "tokens", least=1),
            model_flops=self._float(top, "", "model_flops"),
            peak_flops=tuple(cluster["peak_flops"] for cluster in clusters),
            per_unit=self._per_unit(top, len(units)),
            chunks=chunks,
            way_back=way_back,
            pairs=pairs,
        )

    def _chunks(
        self, top: dict[str, Any], cut_classes: tuple[str, ...]
    ) -> tuple[int, int | None]:
        """Read the number of chunks per stage, and the cut class of the way back."""
        if "chunks" not in top:
            return 1, None
        chunks = self._integer(top, "", "chunks", least=2)
        name = self._chosen(top, "", "way_back", cut_classes)
        return chunks, cut_classes.index(name)

    def _ascending(self, slices: Sequence[TableSlice], where: str) -> None:
        counts = [part.microbatches for part in slices]
        if counts != sorted(set(counts)):
            self._wrong(where, counts, "ascending micro-batch counts")

    def _per_unit(self, top: dict[str, Any], units: int) -> UnitTable | None:
        """Read the table of plans with one strategy per unit; None if missing."""
        if "per_unit" not in top:
            return None
        entry = self._object(top["per_unit"], "per_unit")
        if len(self.names) != 1:
            self._wrong(
                "per_unit", f"of {counted(len(self.names), 'cluster')}", "one cluster"
            )
        tensors = self._names(entry, "per_unit.tensors")
        edges = []
        for where, edge in self._objects(entry, "per_unit", "edges"):
            first = self._integer(edge, where, "first")
            second = self._integer(edge, where, "second")
            if not first < second < units:
                expected = f"first < second < {units}"
                self._wrong(where, f"from {first} to {second}", expected)
            tensor = self._chosen(edge, where, "tensor", tensors)
            edges.append((first, second, tensors.index(tensor)))
        if edges != sorted(set(edges)):
            self._wrong("per_unit.edges", "not ascending", "each once, ascending")
        slices = []
        for place, item in enumerate(self._list(entry, "per_unit", "slices")):
            where = f"per_unit.slices.{place}"
            part = self._slice(item, where, tensors)
            size = len(part.layouts)
            shape = (len(tensors), size, size)
            within = self._matrix(item, where, "within_ns", shape)
            slices.append(replace(part, within_ns=within))
        self._ascending(slices, "per_unit.slices")
        return UnitTable(tensors=tensors, edges=tuple(edges), slices=tuple(slices))

    def _clusters(self, top: dict[str, Any]) -> list[dict[str, Any]]:
        found = []
        for where, entry in self._objects(top, "", "clusters"):
            found.append(
                {
                    "name": self._text(entry, where, "name"),
                    "devices": self._integer(entry, where, "devices", least=1),
                    "usable_bytes": self._integer(
                        entry, where, "usable_bytes", most=TOO_MANY_BYTES - 1
                    ),
                    "source": self._chosen(entry, where, "source", _SOURCES),
                    "peak_flops": self._float(entry, where, "peak_flops"),
                }
            )
        if not found:
            self._wrong("clusters", "an empty list", "at least one cluster")
        names = [entry["name"] for entry in found]
        if len(set(names)) < len(names):
            self._wrong("clusters", names, "different names")
        return found

    def _slice(self, item: Any, where: str, cut_classes: tuple[str, ...]) -> TableSlice:
        entry = self._object(item, where)
        layouts = self._layouts(entry, where)
        size = len(layouts)
        shape = (len(cut_classes), size, size)
        transfer = self._matrix(entry, where, "transfer_ns", shape)
        occupancy = self._matrix(entry, where, "occupancy_ns", shape)
        if (occupancy > transfer).any():
            field = f"{where}.occupancy_ns"
            at = np.argwhere(occupancy > transfer)[0].tolist()
            self._wrong(field, f"more than transfer_ns at {at}", "at most as much")
        tied = None
        if self._get(entry, where, "tied_ns") is not None:
            tied = self._matrix(entry, where, "tied_ns", shape[1:])
        parts = self._objects(entry, where, "clusters", length=len(self.names))
        clusters = []
        for place, (field, named) in enumerate(parts):
            self._chosen(named, field, "name", (self.names[place],))
            clusters.append(self._cluster(named, field, layouts, place))
        return TableSlice(
            microbatches=self._integer(entry, where, "microbatches", least=1),
            clusters=tuple(clusters),
            layouts=layouts,
            transfer_ns=transfer,
            occupancy_ns=occupancy,
            resharding=self._resharding(entry, where, shape),
            tied_ns=tied,
            shared=self._shared(entry, where),
        )

    def _shared(self, entry: dict[str, Any], where: str) -> SharedLinks | None:
        """Read the times of shared links and uplinks; None if there are none."""
        if "shared" not in entry:
            return None
        field = f"{where}.shared"
        shared, size = self._object(entry["shared"], field), len(self.names)
        links = self._matrix(shared, field, "link_ns", (size, size))
        if (links != links.T).any():
            at = np.argwhere(links != links.T)[0].tolist()
            expected = "the same in both directions"
            self._wrong(f"{field}.link_ns", f"not symmetric at {at}", expected)
        uplinks = self._matrix(shared, field, "uplink_ns", (size,))
        return SharedLinks(uplink_ns=uplinks, link_ns=links)

    def _layouts(self, entry: dict[str, Any], where: str) -> tuple[Layout, ...]:
        layouts = []
        for field, layout in self._objects(entry, where, "layouts"):
            name = self._chosen(layout, field, "cluster", self.names)
            layouts.append(
                Layout(
                    cluster=self.names.index(name),
                    dp=self._integer(layout, field, "dp", least=1),
                    shards=self._integer(layout, field, "shards", least=1),
                )
            )
        return tuple(layouts)

    def _cluster(
        self,
        entry: dict[str, Any],
        where: str,
        layouts: tuple[Layout, ...],
        cluster: int,
    ) -> ClusterTable:
        strategies = []
        by_kind_names = kind_numbers(self.schedule)
        columns: dict[str, list[Any]] = {
            name: [] for name in (*STRATEGY_NUMBERS, *by_kind_names)
        }
        for field, row in self._objects(entry, where, "strategies"):
            strategy = Strategy(
                dp=self._integer(row, field, "dp", least=1),
                cp=self._integer(row, field, "cp", least=1),
                tp=self._integer(row, field, "tp", least=1),
                **self._expert_degrees(row, field),
                recompute=self._chosen(row, field, "recompute", RECOMPUTE),
                zero=self._zero(row, field),
            )
            self._numbers(columns, row, field)
            number = columns["layout"][-1]
            self._strategy(strategy, row, field, self.devices[cluster])
            lies = Layout(
                cluster=cluster, dp=strategy.dp, shards=strategy.cp * strategy.tp
            )
            if number >= len(layouts) or layouts[number] != lies:
                expected = f"the layout of dp {lies.dp}, shards {lies.shards}"
                self._wrong(f"{field}.layout", number, expected)
            strategies.append(strategy)
        if len(set(strategies)) < len(strategies):
            self._wrong(f"{where}.strategies", "a repeated strategy", "each once")
        shapes = dict.fromkeys(STRATEGY_NUMBERS, (len(strategies),)) | (
            dict.fromkeys(by_kind_names, (len(strategies), len(self.kinds)))
        )
        return ClusterTable(
            strategies=tuple(strategies),
            **{
                name: np.array(values, dtype=np.int64).reshape(shapes[name])
                for name, values in columns.items()
            },
        )

    def _numbers(
        self, columns: dict[str, list[Any]], row: dict[str, Any], field: str
    ) -> None:
        """Read a strategy's fields with one number, and with one per kind."""
        for name in STRATEGY_NUMBERS:
            columns[name].append(self._integer(row, field, name, most=most_of(name)))
        for name in kind_numbers(self.schedule):
            self._ensure_apart(row, field, name)
            where = f"{field}.{name}"
            by_kind = self._object(self._get(row, field, name), where)
            most = most_of(name)
            columns[name].append(
                [self._integer(by_kind, where, kind, most=most) for kind in self.kinds]
            )
        self._weights(columns, field)

    def _ensure_apart(self, row: dict[str, Any], field: str, name: str) -> None:
        """Refuse a table without weight gradients if the schedule needs them."""
        if name in WEIGHT_NUMBERS and name not in row:
            msg = f"is missing, but schedule {self.schedule} needs it: build the table"
            self._fail(f"{field}.{name}", f"{msg} again")

    def _weights(self, columns: dict[str, list[Any]], field: str) -> None:
        """Check the last strategy's ``weight_ns`` against ``backward_ns``."""
        if "weight_ns" not in columns:
            return
        both = zip(columns["weight_ns"][-1], columns["backward_ns"][-1], strict=True)
        for kind, (weight, backward) in zip(self.kinds, both, strict=True):
            if 2 * weight > backward:
                where = f"{field}.weight_ns.{kind}"
                self._wrong(where, weight, f"at most half of backward_ns, {backward}")

    def _expert_degrees(self, row: dict[str, Any], field: str) -> dict[str, int]:
        """Read the degrees of experts, which are 1 by default."""
        degrees = {
            name: self._integer(row, field, name, least=1)
            for name in EXPERT_DEGREES
            if name in row
        }
        devices, ranks = row["dp"] * row["cp"] * row["tp"], prod(degrees.values())
        if devices % ranks:
            expected = f"a divisor of dp * cp * tp = {devices}"
            self._wrong(f"{field}.ep", f"ep * etp = {ranks}", expected)
        return degrees

    def _zero(self, row: dict[str, Any], field: str) -> int | None:
        """Read the ZeRO stage, which only strategies in ``per_unit`` have."""
        if not field.startswith("per_unit."):
            return None
        zero = self._integer(row, field, "zero")
        if zero > 3:
            self._wrong(f"{field}.zero", zero, "0, 1, 2 or 3")
        return zero

    def _strategy(
        self, strategy: Strategy, row: dict[str, Any], field: str, devices: int
    ) -> None:
        """Check the numbers that depend only on the strategy."""
        if row["devices"] != strategy.devices:
            expected = f"dp * cp * tp = {strategy.devices}"
            self._wrong(f"{field}.devices", row["devices"], expected)
        if strategy.devices > devices:
            expected = f"at most the cluster's {devices}"
            self._wrong(f"{field}.devices", strategy.devices, expected)
        if not 1 <= row["max_stages"] <= devices // strategy.devices:
            expected = f"1 to {devices // strategy.devices}"
            self._wrong(f"{field}.max_stages", row["max_stages"], expected)
        if row["microbatch"] < 1:
            self._wrong(f"{field}.microbatch", row["microbatch"], "at least 1")

    def _matrix(
        self, entry: dict[str, Any], where: str, key: str, shape: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Read nested lists of whole numbers with exactly this shape."""
        field = f"{where}.{key}"
        flat = self._flatten(self._get(entry, where, key), field, shape)
        for place, value in enumerate(flat):
            self._whole(value, field, least=0, most=most_of(key), place=place)
        return np.array(flat, dtype=np.int64).reshape(shape)

    def _resharding(
        self, entry: dict[str, Any], where: str, shape: tuple[int, ...]
    ) -> NDArray[np.int64]:
        field = f"{where}.resharding"
        flat = self._flatten(self._get(entry, where, "resharding"), field, shape)
        index = [
            RESHARDING.index(self._choice(name, field, RESHARDING)) for name in flat
        ]
        return np.array(index, dtype=np.int64).reshape(shape)

    def _flatten(self, value: Any, field: str, shape: tuple[int, ...]) -> list[Any]:
        if not isinstance(value, list):
            self._wrong(field, value, f"lists of shape {list(shape)}")
        if len(value) != shape[0]:
            self._wrong(
                field, f"a list of {len(value)}", counted(shape[0], "entry", "ies")
            )
        if len(shape) == 1:
            return value
        return [
            item
            for place, inner in enumerate(value)
            for item in self._flatten(inner, f"{field}.{place}", shape[1:])
        ]
