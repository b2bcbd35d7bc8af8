"""Reading the pairs of units of a latency table with folded stages."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hetopt.base.words import counted
from hetopt.cost.folding import as_pair_table, pair_columns
from hetopt.cost.table_file.values import DocumentReader
from hetopt.schedule.orders import FOLDED_CHUNKS
from hetopt.schedule.schedules import rule_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hetopt.cost.table.slice import TableSlice
    from hetopt.problem.training.choices import ScheduleName


class PairReader(DocumentReader):
    """Reader of pairs; it checks that they cost the sum of their units.

    Attributes
    ----------
    kinds, schedule
        Those of the whole table.
    """

    kinds: tuple[str, ...]
    schedule: ScheduleName

    def _pairs(self, top: dict[str, Any]) -> tuple[tuple[int, int], ...] | None:
        """Read the two kinds of each pair; None if the schedule does not fold."""
        if not rule_of(self.schedule).folded:
            return None
        pairs = []
        for place, item in enumerate(self._list(top, "", "pairs")):
            where = f"pairs.{place}"
            if not isinstance(item, list) or len(item) != FOLDED_CHUNKS:
                self._wrong(where, item, "two kinds")
            first, second = (self._choice(kind, where, self.kinds) for kind in item)
            pairs.append((self.kinds.index(first), self.kinds.index(second)))
        own = len(self.kinds) - len(pairs)
        if not pairs or max(map(max, pairs)) >= own:
            self._wrong(
                "pairs", counted(len(pairs), "pair"), "pairs of the kinds before"
            )
        return tuple(pairs)

    def _folded(
        self, slices: Sequence[TableSlice], pairs: tuple[tuple[int, int], ...] | None
    ) -> Iterator[TableSlice]:
        """Yield the slices with checked costs of pairs, or unchanged without pairs."""
        for place, part in enumerate(slices):
            if pairs is None:
                yield part
                continue
            for number, own in enumerate(part.clusters):
                for name, column in pair_columns(own, pairs).items():
                    if (getattr(own, name)[:, -len(pairs) :] != column).any():
                        where = f"slices.{place}.clusters.{number}.strategies"
                        most = name == "temporary_bytes"
                        how = "larger" if most else "sum"
                        self._wrong(
                            f"{where}.{name}",
                            "wrong for a pair",
                            f"the {how} of its two units' values",
                        )
            yield replace(part, clusters=tuple(map(as_pair_table, part.clusters)))
