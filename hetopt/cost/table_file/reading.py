"""The latency table that a document describes, and what its values have to agree on."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from hetopt.base.words import counted
from hetopt.cost.folding import as_pair_table, pair_columns
from hetopt.cost.table.cluster import ClusterTable
from hetopt.cost.table.slice import Layout, TableSlice
from hetopt.cost.table.table import CostTable, UnitTable
from hetopt.cost.table_file.records import (
    CLUSTER_COLUMNS,
    COLUMNS,
    TABLE,
    WEIGHT_COLUMNS,
)
from hetopt.cost.table_file.values import ByName, Document
from hetopt.plans.strategy import EXPERT_DEGREES, Strategy
from hetopt.problem.training.training import written_epsilon
from hetopt.schedule.schedules import rule_of
from hetopt.schedule.shares import SharedLinks

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.schedule.schedules import ScheduleRule


_FIELDS = fields(CostTable)


def read_document(data: Any, file: str | None) -> CostTable:
    """Return the table in JSON data; InputError if it is not one."""
    document = Document(file)
    top = TABLE.read(data, "", document)
    return _Reader(document, top, rule_of(top["schedule"])).table()


@dataclass(frozen=True)
class _Reader:
    """Makes a table of a document's values; methods take the dotted field they are of.

    Attributes
    ----------
    top
        The values of the whole document.
    """

    document: Document
    top: dict[str, Any]
    rule: ScheduleRule

    def table(self) -> CostTable:
        """Return the table."""
        top, wrong = self.top, self.document.wrong
        units, cuts = top["units"], top["cuts"]
        if len(cuts) != len(units) - 1:
            wrong("cuts", counted(len(cuts), "cut"), f"{len(units) - 1}")
        slices = self._slices(top["slices"], "slices")
        chunks, pairs = top["chunks"] or 1, self._pairs()
        if chunks > 1 and top["way_back"] is None:
            self.document.fail("way_back", "is missing")
        way_back = top["way_back"] if chunks > 1 else None
        if pairs is not None:
            slices = [*self._folded(slices, pairs)]
        of_all: dict[str, Any] = {
            "chunks": chunks,
            "way_back": way_back,
            "pairs": pairs,
        }
        folds = None if pairs is None else top["schedule"]
        values: dict[str, Any] = {each.name: top.get(each.name) for each in _FIELDS} | {
            name: tuple(each[key] for each in top["clusters"])
            for key, name in CLUSTER_COLUMNS.items()
        }
        values |= {
            "warmup_epsilon": written_epsilon(top, file=self.document.file),
            "slices": tuple(replace(part, folds=folds, **of_all) for part in slices),
            "per_unit": self._per_unit(),
        }
        return CostTable(**values | of_all)

    def _slices(self, slices: Sequence[dict[str, Any]], where: str) -> list[TableSlice]:
        counts = [part["microbatches"] for part in slices]
        if counts != sorted(set(counts)):
            self.document.wrong(where, counts, "ascending micro-batch counts")
        return [self._slice(part, f"{where}.{k}") for k, part in enumerate(slices)]

    def _per_unit(self) -> UnitTable | None:
        """Return the table of plans with one strategy per unit; None if missing."""
        entry, wrong = self.top["per_unit"], self.document.wrong
        if entry is None:
            return None
        if (clusters := len(self.top["clusters"])) != 1:
            wrong("per_unit", f"of {counted(clusters, 'cluster')}", "one cluster")
        units = len(self.top["units"])
        for place, edge in enumerate(entry["edges"]):
            if not edge["first"] < edge["second"] < units:
                found = f"from {edge['first']} to {edge['second']}"
                wrong(f"per_unit.edges.{place}", found, f"first < second < {units}")
        edges = [(*edge.values(),) for edge in entry["edges"]]
        if edges != sorted(set(edges)):
            wrong("per_unit.edges", "not ascending", "each once, ascending")
        slices = self._slices(entry["slices"], "per_unit.slices")
        return UnitTable(
            tensors=entry["tensors"], edges=tuple(edges), slices=tuple(slices)
        )

    def _slice(self, part: dict[str, Any], where: str) -> TableSlice:
        wrong = self.document.wrong
        more = part["occupancy_ns"] > part["transfer_ns"]
        if more.any():
            at = np.argwhere(more)[0].tolist()
            found = f"more than transfer_ns at {at}"
            wrong(f"{where}.occupancy_ns", found, "at most as much")
        if where.startswith("per_unit") and part["within_ns"] is None:
            self.document.fail(f"{where}.within_ns", "is missing")
        shared = part["shared"]
        if shared is not None:
            unlike = shared["link_ns"] != shared["link_ns"].T
            if unlike.any():
                found = f"not symmetric at {np.argwhere(unlike)[0].tolist()}"
                expected = "the same in both directions"
                wrong(f"{where}.shared.link_ns", found, expected)
        layouts = tuple(Layout(**layout) for layout in part["layouts"])
        clusters = []
        for place, own in enumerate(part["clusters"]):
            field, name = f"{where}.clusters.{place}", self.top["clusters"][place]
            if own["name"] != name["name"]:
                wrong(f"{field}.name", own["name"], f"one of {name['name']}")
            clusters.append(self._cluster(own["strategies"], field, layouts, place))
        return TableSlice(
            **{
                **part,
                "layouts": layouts,
                "clusters": tuple(clusters),
                "shared": None if shared is None else SharedLinks(**shared),
            }
        )

    def _cluster(
        self,
        rows: Sequence[dict[str, Any]],
        where: str,
        layouts: tuple[Layout, ...],
        cluster: int,
    ) -> ClusterTable:
        strategies = []
        for place, row in enumerate(rows):
            field = f"{where}.strategies.{place}"
            strategy = self._strategy(row, field, cluster)
            self._weights(row, field)
            lies = Layout(
                cluster=cluster, dp=strategy.dp, shards=strategy.cp * strategy.tp
            )
            number = row["layout"]
            if number >= len(layouts) or layouts[number] != lies:
                expected = f"the layout of dp {lies.dp}, shards {lies.shards}"
                self.document.wrong(f"{field}.layout", number, expected)
            strategies.append(strategy)
        if len(set(strategies)) < len(strategies):
            found = "a repeated strategy"
            self.document.wrong(f"{where}.strategies", found, "each once")
        by_kind = (len(rows), len(self.top["kinds"]))
        return ClusterTable(
            strategies=tuple(strategies),
            **{
                name: np.array([row[name] for row in rows], dtype=np.int64).reshape(
                    by_kind if isinstance(kind, ByName) else len(rows)
                )
                for name, kind in self._columns().items()
            },
        )

    def _columns(self) -> dict[str, Any]:
        return {**COLUMNS, **(WEIGHT_COLUMNS if self.rule.splits else {})}

    def _strategy(self, row: dict[str, Any], field: str, cluster: int) -> Strategy:
        """Return a strategy; its numbers have to follow from its degrees."""
        wrong, devices = self.document.wrong, self.top["clusters"][cluster]["devices"]
        whole = field.startswith("slices")
        if not whole and row["zero"] is None:
            self.document.fail(f"{field}.zero", "is missing")
        experts = {name: row[name] or 1 for name in EXPERT_DEGREES}
        strategy = Strategy(
            dp=row["dp"],
            cp=row["cp"],
            tp=row["tp"],
            recompute=row["recompute"],
            zero=None if whole else row["zero"],
            **experts,
        )
        needed = strategy.devices
        if needed % prod(experts.values()):
            found = f"ep * etp = {prod(experts.values())}"
            wrong(f"{field}.ep", found, f"a divisor of dp * cp * tp = {needed}")
        if row["devices"] != needed:
            wrong(f"{field}.devices", row["devices"], f"dp * cp * tp = {needed}")
        if needed > devices:
            wrong(f"{field}.devices", needed, f"at most the cluster's {devices}")
        if not 1 <= row["max_stages"] <= devices // needed:
            expected = f"1 to {devices // needed}"
            wrong(f"{field}.max_stages", row["max_stages"], expected)
        return strategy

    def _weights(self, row: dict[str, Any], field: str) -> None:
        """Check what is given of weight gradients, if the schedule needs it."""
        if not self.rule.splits:
            return
        for name in WEIGHT_COLUMNS:
            if row[name] is None:
                schedule = self.top["schedule"]
                msg = f"is missing, but schedule {schedule} needs it: build the table"
                self.document.fail(f"{field}.{name}", f"{msg} again")
        both = zip(row["weight_ns"], row["backward_ns"], strict=True)
        for kind, (weight, backward) in zip(self.top["kinds"], both, strict=True):
            if 2 * weight > backward:
                expected = f"at most half of backward_ns, {backward}"
                self.document.wrong(f"{field}.weight_ns.{kind}", weight, expected)

    def _pairs(self) -> tuple[tuple[int, int], ...] | None:
        """Return the two kinds of each pair; None if the schedule does not fold."""
        if not self.rule.folded:
            return None
        pairs: tuple[tuple[int, int], ...] | None = self.top["pairs"]
        if pairs is None:
            self.document.fail("pairs", "is missing")
        if max(map(max, pairs)) >= len(self.top["kinds"]) - len(pairs):
            found = counted(len(pairs), "pair")
            self.document.wrong("pairs", found, "pairs of the kinds before")
        return pairs

    def _folded(
        self, slices: Sequence[TableSlice], pairs: tuple[tuple[int, int], ...]
    ) -> Iterator[TableSlice]:
        """Yield the slices with the costs of pairs: the sums of their units'."""
        for place, part in enumerate(slices):
            for number, own in enumerate(part.clusters):
                for name, column in pair_columns(own, pairs).items():
                    if (getattr(own, name)[:, -len(pairs) :] != column).any():
                        how = "larger" if name == "temporary_bytes" else "sum"
                        self.document.wrong(
                            f"slices.{place}.clusters.{number}.strategies.{name}",
                            "wrong for a pair",
                            f"the {how} of its two units' values",
                        )
            yield replace(part, clusters=tuple(map(as_pair_table, part.clusters)))
