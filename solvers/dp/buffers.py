"""Memory for the label setting, kept from one program to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.solvers.arrays.costs import Fact, Option
from hetopt.solvers.dp.bounds import Cap
from hetopt.solvers.dp.configs import copy_configs, new_configs
from hetopt.solvers.dp.label_pool import Memory, copy_buckets, new_buckets, new_pool

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.dp.bounds import RangeLimits
    from hetopt.solvers.dp.label_pool import LabelPool


def copy_once() -> None:
    """Compile the functions that copy tables, by calling them for empty ones."""
    copy_buckets(new_buckets(1), new_buckets(1))
    copy_configs(new_configs(1, 0), new_configs(1, 0))


class Buffers:
    """Pools and tables, which only grow.

    Parameters
    ----------
    most_bytes
        Memory that they may take, also while an array is copied to a larger one.

    Attributes
    ----------
    pool, crossed
        Labels of all layers, and those of one layer that crossed to another cluster.
    layers
        Buckets of the current layer, of crossings, and of the next layer.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.pool = new_pool(1 << 12)
        self.crossed = new_pool(1 << 10)
        self.layers = [new_buckets(1 << 10) for _ in range(3)]
        self.configs = new_configs(1, 0)

    def begin(self, clusters: int, limits: int) -> None:
        """Prepare for a program with as many clusters and limits of ``Costs.stock``."""
        if (self.configs.size[1], self._limits) != (clusters, limits):
            self.configs = new_configs(clusters, limits)

    @property
    def _limits(self) -> int:
        return int(self.configs.status.shape[1] - 1 - self.configs.size[1])

    def next_layer(self) -> None:
        """Make the layer that was just written the current one."""
        now, crossings, after = self.layers
        self.layers = [after, crossings, now]

    def memory(self) -> Memory:
        """Return the arrays that compiled code reads and writes."""
        now, crossings, after = self.layers
        return Memory(now, crossings, after, self.pool, self.crossed, self.configs)

    def widen(self, more: int) -> bool:
        """Make room for ``more`` rows in every table; False if memory runs out."""
        for name in ("pool", "crossed"):
            pool: LabelPool = getattr(self, name)
            size = int(pool.size[0]) + more
            if size > len(pool.label):
                if not self._may_take(size, pool.label):
                    return False
                setattr(self, name, _larger(pool, 2 * size))
        for i, buckets in enumerate(self.layers):
            size = int(buckets.size[0]) + more
            if size > len(buckets.state):
                if not self._may_take(size, buckets.state, buckets.slot):
                    return False
                self.layers[i] = new_buckets(2 * size)
                copy_buckets(buckets, self.layers[i])
        size = int(self.configs.size[0]) + more
        if size > len(self.configs.status):
            if not self._may_take(size, self.configs.status, self.configs.slot):
                return False
            clusters = int(self.configs.size[1])
            larger = new_configs(clusters, self._limits, 2 * size)
            copy_configs(self.configs, larger)
            self.configs = larger
        return True

    @property
    def taken_bytes(self) -> int:
        """Bytes of all pools and tables, used or not."""
        arrays = [self.pool.label, self.crossed.label]
        for table in self.layers:
            arrays += [table.state, table.slot]
        arrays += [self.configs.status, self.configs.slot]
        return sum(array.nbytes for array in arrays)

    def _may_take(self, size: int, *arrays: Ints) -> bool:
        """Whether arrays may grow to ``2 * size`` rows.

        Rows are in memory twice while they are copied. Memory is counted as if the
        smaller arrays were gone and the larger ones full: only rows that were written
        to take memory, and those copied are fewer than the new ones left empty.
        """
        rows = len(arrays[0])
        own = sum(array.nbytes for array in arrays)
        larger = 2 * size * (own // rows)
        return self.taken_bytes - own + larger <= self._most_bytes


def most_new(costs: Costs, limits: RangeLimits) -> int:
    """Return how many labels, crossings or configurations one label may lead to."""
    units = limits.caps[[Cap.ALONE, Cap.ENDED]].max(axis=(0, 2))
    shared = Option.CLUSTER if costs.facts[Fact.SHARED] else Option.LAYOUT
    together = np.bincount(costs.option[:, shared], weights=units)
    return int(together.max()) + len(costs.home) + 4


def _larger(pool: LabelPool, rows: int) -> LabelPool:
    larger = new_pool(rows)
    larger.label[: pool.size[0]] = pool.label[: pool.size[0]]
    larger.size[:] = pool.size
    return larger
