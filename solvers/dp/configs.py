"""What a label has used of the clusters, numbered.

A *configuration* says of every cluster whether it is untouched (0), closed (P3 lets
nothing follow), or in use: with which strategy or tensor degree as far as P4 binds
later stages to it, how many devices are taken, and how many stages and units where
the user's pins count them. Equal configurations leave equal choices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.compiled import kernel, step
from hetopt.solvers.arrays.costs import Fact, HostColumn, Option

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
        One row per configuration, one number per cluster, and in the last column
        the clusters with status 0, as bits.
    slot
        Open-addressing hash table of numbers; -1 is free.
    size
        How many there are, in a one-element array.
    """

    status: Ints
    slot: Ints
    size: Ints


def new_configs(clusters: int, rows: int = 256) -> Configs:
    """Return an empty table with room for so many."""
    return Configs(
        np.zeros((rows, clusters + 1), dtype=np.int64),
        np.full(4 * rows, -1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
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
    """Return the number of what stands in the row after the last one."""
    made = configs.size[0]
    row = configs.status[made]
    clusters = len(row) - 1
    mixed = np.uint64(1469598103934665603)
    untouched = 0
    for j in range(clusters):
        mixed = (mixed ^ np.uint64(row[j])) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
        if row[j] == 0:
            untouched |= 1 << j
    row[clusters] = untouched
    place = np.int64(mixed % np.uint64(len(configs.slot)))
    while configs.slot[place] >= 0:
        found = configs.slot[place]
        same = True
        for j in range(clusters):
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
def _changed(configs: Configs, config: int, j: int, status: int) -> int:
    """Return the number of a configuration with another status of cluster j."""
    row = configs.status[configs.size[0]]
    for column in range(len(row)):
        row[column] = configs.status[config, column]
    row[j] = status
    return _number(configs)


@step
def untouched(configs: Configs, config: int) -> int:
    """Return the clusters that nothing is placed on, as bits."""
    return configs.status[config, configs.status.shape[1] - 1]


@step
def stages_used(configs: Configs, config: int, j: int) -> int:
    """Return how many stages cluster j hosts, where that is counted."""
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
        What the stage holds, ends included; read where units are counted.
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
            # Stages are placed from the end: earlier ones may only have more.
            if lock > option[Option.TENSOR]:
                return -1
            lock = option[Option.TENSOR]
        if not costs.host[j, HostColumn.COUNTS_STAGES]:
            stages = 0
    if costs.host[j, HostColumn.COUNTS_UNITS]:
        held += units
        if held >= costs.units_ok.shape[1]:
            return -1
    status = (((held << _STAGES | stages) << _DEVICES | devices) << _LOCK) | lock
    return _changed(configs, config, j, status)


@step
def free_worth(costs: Costs, configs: Configs, config: int, price: Ints) -> int:
    """Return the price of all devices that are still to be had."""
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
    return _changed(configs, config, j, CLOSED)


@step
def is_complete(costs: Costs, configs: Configs, config: int) -> bool:
    """Whether the pins on stages and units permit this as all there is."""
    permitted = True
    for j in range(len(costs.host)):
        permitted = permitted and _is_permitted(costs, configs, config, j)
    return permitted
