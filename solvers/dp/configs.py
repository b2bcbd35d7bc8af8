"""Numbered configurations: what a label has used of each cluster.

A *configuration* states for every cluster whether it is untouched (0), closed (P3
allows no further stage), or in use: with which strategy or tensor degree if P4 binds
further stages to it, how many devices are taken, and how many stages and units if
the user's pins limit them. Equal configurations leave equal choices.

If stages of several sizes share unequal nodes (``Costs.stock``), a configuration also
has a number for each of these limits: the devices used up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.costs import Fact, HostColumn, Option, Stock

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints

CLOSED = -1
#: Bits of a cluster's number: lock, devices, stages, and the rest for units.
_LOCK, _DEVICES, _STAGES = 13, 20, 10


class Configs(NamedTuple):
    """Numbered configurations.

    Attributes
    ----------
    status
        One row per configuration, one number per cluster, then one per limit of
        ``Costs.stock``, and in the last column the clusters with status 0, as bits.
    slot
        Open-addressing hash table of numbers; -1 is free.
    size
        Number of configurations, and of clusters.
    """

    status: Ints
    slot: Ints
    size: Ints


def new_configs(clusters: int, limits: int, rows: int = 256) -> Configs:
    """Return an empty table with room for ``rows`` configurations."""
    return Configs(
        np.zeros((rows, clusters + limits + 1), dtype=np.int64),
        np.full(4 * rows, -1, dtype=np.int64),
        np.array([0, clusters], dtype=np.int64),
    )


@step
def begin_configs(configs: Configs) -> None:
    """Make number 0 the only configuration: nothing used."""
    for place in range(len(configs.slot)):
        configs.slot[place] = -1
    configs.size[0] = 0
    for column in range(configs.status.shape[1]):
        configs.status[0, column] = 0
    _number(configs)


@kernel
def copy_configs(configs: Configs, larger: Configs) -> None:
    """Copy a table into a larger one that is empty."""
    for row in range(configs.size[0]):
        for column in range(configs.status.shape[1]):
            larger.status[row, column] = configs.status[row, column]
        _number(larger)


@step
def _number(configs: Configs) -> int:
    """Return the number of the configuration in the row after the last one."""
    made = configs.size[0]
    row = configs.status[made]
    columns = len(row) - 1
    mixed = np.uint64(1469598103934665603)
    untouched = 0
    for j in range(columns):
        mixed = (mixed ^ np.uint64(row[j])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        if row[j] == 0 and j < configs.size[1]:
            untouched |= 1 << j
    row[columns] = untouched
    place = np.int64(mixed % np.uint64(len(configs.slot)))
    while configs.slot[place] >= 0:
        found = configs.slot[place]
        same = True
        for j in range(columns):
            if configs.status[found, j] != row[j]:
                same = False
                break
        if same:
            return found
        place = (place + 1) % len(configs.slot)
    configs.slot[place] = made
    configs.size[0] = made + 1
    return made


@step
def _copy(configs: Configs, config: int) -> None:
    """Copy a configuration into the row after the last one."""
    row = configs.status[configs.size[0]]
    for column in range(len(row)):
        row[column] = configs.status[config, column]


@step
def _stocked(costs: Costs, configs: Configs, row: Ints, j: int, devices: int) -> bool:
    """Take a stage's devices from its cluster's limits; False if one has too few.

    The remainder of a limit is at most that of the limits on smaller stages, rounded
    down to whole stages.

    Parameters
    ----------
    row
        The configuration's row, with this stage's devices counted for cluster j.
    """
    left = costs.host[j, HostColumn.DEVICES] - (row[j] >> _LOCK & ((1 << _DEVICES) - 1))
    for x in range(len(costs.stock)):
        if costs.stock[x, Stock.CLUSTER] != j:
            continue
        least, most = costs.stock[x, Stock.LEAST], costs.stock[x, Stock.MOST]
        column = configs.size[1] + x
        used = row[column]
        if devices >= least:
            used += devices
        if used > most:
            return False
        left = min(left, most - used) // least * least
        row[column] = most - left
    return True


@step
def untouched(configs: Configs, config: int) -> int:
    """Return the clusters without a stage, as bits."""
    return configs.status[config, configs.status.shape[1] - 1]


@step
def stages_used(configs: Configs, config: int, j: int) -> int:
    """Return how many stages cluster j hosts; 0 if they are not counted."""
    status = configs.status[config, j] >> (_LOCK + _DEVICES)
    return status & ((1 << _STAGES) - 1)


@step
def _units_used(configs: Configs, config: int, j: int) -> int:
    return configs.status[config, j] >> (_LOCK + _DEVICES + _STAGES)


@step
def taken(costs: Costs, configs: Configs, config: int, o: int, units: int) -> int:
    """Return the configuration after one more stage of option o; -1 if not allowed.

    Parameters
    ----------
    units
        Units of the stage, ends included; read only if units are counted.
    """
    option = costs.option[o]
    j = option[Option.CLUSTER]
    status = configs.status[config, j]
    if status == CLOSED:
        return -1
    lock = status & ((1 << _LOCK) - 1)
    devices = (status >> _LOCK & ((1 << _DEVICES) - 1)) + option[Option.DEVICES]
    stages = stages_used(configs, config, j) + 1
    held = _units_used(configs, config, j)
    if devices > costs.host[j, HostColumn.DEVICES] or stages > costs.facts[Fact.P]:
        return -1
    if costs.facts[Fact.SHARED] == 0:
        if (lock != 0 and lock != o + 1) or stages > option[Option.MOST_STAGES]:
            return -1
        lock = o + 1
    else:
        if costs.facts[Fact.SHARED] == 1:
            # Stages are placed from the end, so tensor degrees may only grow.
            if lock > option[Option.TENSOR]:
                return -1
            lock = option[Option.TENSOR]
        if not costs.host[j, HostColumn.COUNTS_STAGES]:
            stages = 0
    if costs.host[j, HostColumn.COUNTS_UNITS]:
        held += units
        if held >= costs.units_ok.shape[1]:
            return -1
    _copy(configs, config)
    row = configs.status[configs.size[0]]
    row[j] = (((held << _STAGES | stages) << _DEVICES | devices) << _LOCK) | lock
    if not _stocked(costs, configs, row, j, option[Option.DEVICES]):
        return -1
    return _number(configs)


@step
def free_worth(costs: Costs, configs: Configs, config: int, price: Ints) -> int:
    """Return the price of all devices that are still free."""
    worth = 0
    for j in range(len(costs.host)):
        status = configs.status[config, j]
        if status != CLOSED:
            devices = status >> _LOCK & ((1 << _DEVICES) - 1)
            worth += price[j] * (costs.host[j, HostColumn.DEVICES] - devices)
    return worth


@step
def _is_permitted(costs: Costs, configs: Configs, config: int, j: int) -> bool:
    """Whether the pins on stages and units of cluster j permit what it hosts."""
    status = configs.status[config, j]
    if status == CLOSED:
        return True
    if status == 0:
        return costs.stages_ok[j, 0] != 0 and costs.units_ok[j, 0] != 0
    if (
        costs.host[j, HostColumn.COUNTS_STAGES]
        and not costs.stages_ok[j, stages_used(configs, config, j)]
    ):
        return False
    return (
        costs.host[j, HostColumn.COUNTS_UNITS] == 0
        or costs.units_ok[j, _units_used(configs, config, j)] != 0
    )


@step
def left_behind(costs: Costs, configs: Configs, config: int, j: int) -> int:
    """Return the configuration after leaving cluster j; -1 if the pins forbid it."""
    if not costs.facts[Fact.CONSECUTIVE]:
        return config
    if not _is_permitted(costs, configs, config, j):
        return -1
    _copy(configs, config)
    row = configs.status[configs.size[0]]
    row[j] = CLOSED
    for x in range(len(costs.stock)):
        if costs.stock[x, Stock.CLUSTER] == j:
            row[configs.size[1] + x] = 0
    return _number(configs)


@step
def is_complete(costs: Costs, configs: Configs, config: int) -> bool:
    """Whether the pins on stages and units permit this as the whole plan."""
    permitted = True
    for j in range(len(costs.host)):
        permitted = permitted and _is_permitted(costs, configs, config, j)
    return permitted
