"""Where labels are kept: rows in a pool, chained by the state they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.compiled import kernel, step
from hetopt.solvers.arrays.program import AUTO, CLUSTER, GPIPE, LEADER, RANK, Q

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs, Ints

#: Columns of ``Pool.label``: what is compared (under gpipe DELAY and FLAG are the
#: paces of phi and beta), then what the label stands for and its neighbours.
FILL, DELAY, SYNC, LAST_SYNC, FLAG, WARMUP, SHAPES, DEVICES = range(8)
PARENT, OPTION, LENGTH, IN_RUN, CONFIG, RUN_PARENT, NEXT, RUNS = range(8, 16)
_COLUMNS = 16
#: Columns of ``Buckets.state``: an option, or a door's layout, stands at AT_OPTION.
AT_CONFIG, AT_OPTION, AT_UNITS, AT_LAST, BOUND, HEAD = range(6)


class Pool(NamedTuple):
    """Labels; row 0 is the best complete one.

    Attributes
    ----------
    label
        Shape (n, 16).
    size
        Rows in use, and the first of the rows given back (-1: none).
    """

    label: Ints
    size: Ints


class Buckets(NamedTuple):
    """States of one layer, each with a chain of labels.

    Attributes
    ----------
    state
        What the state is, the least fill of what is left, and its first label (-1:
        none); shape (n, 6).
    slot
        Open-addressing hash table of bucket numbers.
    size
        How many there are.
    """

    state: Ints
    slot: Ints
    size: Ints


def new_pool(rows: int) -> Pool:
    """Return a pool with room for so many labels."""
    return Pool(np.zeros((rows, _COLUMNS), dtype=np.int64), np.zeros(2, dtype=np.int64))


@step
def empty_pool(pool: Pool) -> None:
    """Give all rows back."""
    pool.label[0, OPTION] = -1
    pool.size[0] = 1
    pool.size[1] = -1


@step
def spare(pool: Pool) -> int:
    """Return a row to write a label to; it is taken by ``keep`` only."""
    if pool.size[1] >= 0:
        return pool.size[1]
    return pool.size[0]


def new_buckets(rows: int) -> Buckets:
    """Return no buckets, with room for so many."""
    return Buckets(
        np.zeros((rows, 6), dtype=np.int64),
        np.full(4 * rows, -1, dtype=np.int64),
        np.zeros(1, dtype=np.int64),
    )


@step
def empty_buckets(buckets: Buckets) -> None:
    """Forget all buckets."""
    if buckets.size[0]:
        for place in range(len(buckets.slot)):
            buckets.slot[place] = -1
    buckets.size[0] = 0


@kernel
def copy_buckets(buckets: Buckets, larger: Buckets) -> None:
    """Copy buckets to where more have room."""
    for row in range(buckets.size[0]):
        state = buckets.state[row]
        number = bucket(
            larger,
            state[AT_CONFIG],
            state[AT_OPTION],
            state[AT_UNITS],
            state[AT_LAST],
        )
        larger.state[number, BOUND] = state[BOUND]
        larger.state[number, HEAD] = state[HEAD]


@step
def bucket(buckets: Buckets, config: int, option: int, units: int, last: int) -> int:
    """Return the bucket of a state; a new one has the bound -1."""
    mixed = np.uint64(config) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= np.uint64(option) * np.uint64(0xC2B2AE3D27D4EB4F)
    mixed ^= np.uint64(units * 65536 + last) * np.uint64(0x165667B19E3779F9)
    mixed ^= mixed >> np.uint64(31)
    place = np.int64(mixed % np.uint64(len(buckets.slot)))
    while buckets.slot[place] >= 0:
        found = buckets.slot[place]
        state = buckets.state[found]
        if (
            state[AT_CONFIG] == config
            and state[AT_OPTION] == option
            and state[AT_UNITS] == units
            and state[AT_LAST] == last
        ):
            return found
        place = (place + 1) % len(buckets.slot)
    made = buckets.size[0]
    buckets.slot[place] = made
    buckets.state[made, AT_CONFIG] = config
    buckets.state[made, AT_OPTION] = option
    buckets.state[made, AT_UNITS] = units
    buckets.state[made, AT_LAST] = last
    buckets.state[made, BOUND] = -1
    buckets.state[made, HEAD] = -1
    buckets.size[0] = made + 1
    return made


@step
def _replaces(costs: Costs, value: Ints, a: int, b: int) -> bool:
    """Whether label a is as good as b whatever both are completed with.

    Both are of one state. More g costs at most the difference, once; under gpipe so
    does a slower pace, q - 1 times. Where warm-ups are free, one more at the next
    boundary makes up for any DELAY (``free_warmups``).
    """
    if value[a, WARMUP] > value[b, WARMUP]:
        return False
    if value[a, SHAPES] & ~value[b, SHAPES]:
        return False
    more = max(
        0,
        value[a, SYNC] - value[b, SYNC],
        value[a, LAST_SYNC] - value[b, LAST_SYNC],
    )
    delay = value[a, DELAY] - value[b, DELAY]
    if costs.facts[AUTO] and value[a, WARMUP] < value[b, WARMUP]:
        delay = 0
    flag = value[a, FLAG] - value[b, FLAG]
    if costs.facts[GPIPE]:
        more += (costs.facts[Q] - 1) * (max(0, delay) + max(0, flag))
    elif delay > 0 or flag > 0:
        return False
    return value[a, FILL] + more <= value[b, FILL]


@step
def keep(
    costs: Costs, buckets: Buckets, number: int, pool: Pool, history: Pool, ordered: int
) -> bool:
    """Chain the label in the spare row to its state, unless another replaces it.

    Parameters
    ----------
    history
        The pool that parents are rows of.
    ordered
        0: the tie rule does not matter. 1: a label replaces those only that do not
        come before it; 2: likewise, for labels at a door, known by their parents.
    """
    new = spare(pool)
    before, row = -1, buckets.state[number, HEAD]
    while row >= 0:
        if _replaces(costs, pool.label, row, new) and (
            ordered == 0 or _comes_first(costs, pool, history, row, new, ordered)
        ):
            return False
        row = pool.label[row, NEXT]
    if pool.size[1] >= 0:
        pool.size[1] = pool.label[new, NEXT]
    else:
        pool.size[0] += 1
    row = buckets.state[number, HEAD]
    while row >= 0:
        following = pool.label[row, NEXT]
        if _replaces(costs, pool.label, new, row) and (
            ordered == 0 or _comes_first(costs, pool, history, new, row, ordered)
        ):
            if before < 0:
                buckets.state[number, HEAD] = following
            else:
                pool.label[before, NEXT] = following
            pool.label[row, NEXT] = pool.size[1]
            pool.size[1] = row
        else:
            before = row
        row = following
    pool.label[new, NEXT] = buckets.state[number, HEAD]
    buckets.state[number, HEAD] = new
    return True


@step
def _comes_first(
    costs: Costs, pool: Pool, history: Pool, a: int, b: int, ordered: int
) -> bool:
    if ordered == 2:
        a, b = pool.label[a, PARENT], pool.label[b, PARENT]
    return ranked(costs, history, a, b) <= 0


@step
def ranked(costs: Costs, pool: Pool, a: int, b: int) -> int:
    """Compare two labels of one state by the tie rule: -1, 0 or 1.

    What precedes them in the pipeline is the same for both, so their own parts of
    the tie rule's keys decide: devices, then clusters, strategies, stages and units
    as they follow each other in the pipeline. Identical clusters are named when the
    plan is complete: here they go by their group's.
    """
    if a == b:
        return 0
    if pool.label[a, DEVICES] != pool.label[b, DEVICES]:
        return -1 if pool.label[a, DEVICES] < pool.label[b, DEVICES] else 1
    for field in range(3):
        x, y = a, b
        while x >= 0 and y >= 0:
            here, there = pool.label[x, OPTION], pool.label[y, OPTION]
            if field == 0:
                here = costs.host[costs.option[here, CLUSTER], LEADER]
                there = costs.host[costs.option[there, CLUSTER], LEADER]
            elif field == 1:
                here, there = costs.option[here, RANK], costs.option[there, RANK]
            else:
                here, there = pool.label[x, IN_RUN], pool.label[y, IN_RUN]
            if here != there:
                return -1 if here < there else 1
            x, y = pool.label[x, RUN_PARENT], pool.label[y, RUN_PARENT]
        if x >= 0 or y >= 0:
            return -1 if x < 0 else 1
    x, y = a, b
    while x >= 0 and y >= 0:
        if pool.label[x, LENGTH] != pool.label[y, LENGTH]:
            return -1 if pool.label[x, LENGTH] < pool.label[y, LENGTH] else 1
        x, y = pool.label[x, PARENT], pool.label[y, PARENT]
    return 0
