"""Memory for the label setting, kept from one program to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from hetopt.solvers.arrays.program import CLUSTER, LAYOUT, SHARED
from hetopt.solvers.dp.bounds import ALONE, ENDED
from hetopt.solvers.dp.configs import copy_configs, new_configs
from hetopt.solvers.dp.label_pool import copy_buckets, new_buckets, new_pool

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs, Ints
    from hetopt.solvers.dp.bounds import Limits
    from hetopt.solvers.dp.label_pool import Pool


class Room:
    """Pools and tables, which only grow.

    Parameters
    ----------
    most_bytes
        What they may take, while they move as well.

    Attributes
    ----------
    pool, porch
        Labels of all layers, and those at the doors of one.
    layers
        Buckets of the layer that is known, of the doors, and of the next layer.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.pool = new_pool(1 << 12)
        self.porch = new_pool(1 << 10)
        self.layers = [new_buckets(1 << 10) for _ in range(3)]
        self.configs = new_configs(1)

    def begin(self, clusters: int) -> None:
        """Make ready for a program with so many clusters."""
        if self.configs.status.shape[1] != clusters + 1:
            self.configs = new_configs(clusters)

    def next_layer(self) -> None:
        """Make the layer that was written the one that is known."""
        now, doors, after = self.layers
        self.layers = [after, doors, now]

    def widen(self, more: int) -> bool:
        """Make room for so many more of everything; False if memory runs out."""
        for name in ("pool", "porch"):
            pool: Pool = getattr(self, name)
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
            larger = new_configs(self.configs.status.shape[1] - 1, 2 * size)
            copy_configs(self.configs, larger)
            self.configs = larger
        return True

    @property
    def taken_bytes(self) -> int:
        """What pools and tables take, used or not."""
        arrays = [self.pool.label, self.porch.label]
        for table in self.layers:
            arrays += [table.state, table.slot]
        arrays += [self.configs.status, self.configs.slot]
        return sum(array.nbytes for array in arrays)

    def _may_take(self, size: int, *arrays: Ints) -> bool:
        """Whether arrays may grow to twice so many rows.

        The rows that move are in memory twice for a while, but there is no more of
        them than the larger arrays have room for: those count in full, and the
        smaller ones no longer.
        """
        rows = len(arrays[0])
        own = sum(array.nbytes for array in arrays)
        larger = 2 * size * (own // rows)
        return self.taken_bytes - own + larger <= self._most_bytes


def most_new(costs: Costs, limits: Limits) -> int:
    """Return how many labels, doors or configurations one label may lead to."""
    units = limits.caps[[ALONE, ENDED]].max(axis=(0, 2))
    shared = CLUSTER if costs.facts[SHARED] else LAYOUT
    together = np.bincount(costs.option[:, shared], weights=units)
    return int(together.max()) + len(costs.home) + 4


def _larger(pool: Pool, rows: int) -> Pool:
    larger = new_pool(rows)
    larger.label[: pool.size[0]] = pool.label[: pool.size[0]]
    larger.size[:] = pool.size
    return larger
