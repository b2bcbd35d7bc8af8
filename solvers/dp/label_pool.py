"""The store of labels: rows in a pool, chained by the state they belong to."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.costs import Fact, HostColumn, Option

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.dp.configs import Configs


class Label(IntEnum):
    """Columns of ``LabelPool.label``.

    First the columns that labels are compared by (under gpipe DELAY and FLAG are the
    paces of phi and beta), then the label's stage and links to other labels. TOTAL
    (``budget.total_of``) is set for complete labels only.
    """

    FILL, DELAY, SYNC, LAST_SYNC, FLAG, WARMUP, SHAPES, DEVICES, PARENT = range(9)
    OPTION, LENGTH, IN_RUN, CONFIG, RUN_PARENT, NEXT, RUNS, TOTAL = range(9, 17)


class Bucket(IntEnum):
    """Columns of ``Buckets.state``; of a crossing OPTION is the layout it leads to."""

    CONFIG, OPTION, UNITS, LAST, BOUND, HEAD = range(6)


class LabelPool(NamedTuple):
    """Labels; row 0 is the best complete one.

    Attributes
    ----------
    label
        Shape (n, 17).
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
        The state, the least fill of the rest (-1: unknown), and its first label (-1:
        none); shape (n, 6).
    slot
        Open-addressing hash table of bucket numbers.
    size
        Number of buckets.
    """

    state: Ints
    slot: Ints
    size: Ints


class Memory(NamedTuple):
    """The tables that extending one layer reads and writes.

    Attributes
    ----------
    now, after
        States of the current layer, and of the next one.
    crossings
        States of labels that crossed to another cluster and have no stage there yet.
    pool, crossed
        Labels of all layers, and those of ``crossings``.
    """

    now: Buckets
    crossings: Buckets
    after: Buckets
    pool: LabelPool
    crossed: LabelPool
    configs: Configs


def new_pool(rows: int) -> LabelPool:
    """Return a pool with room for ``rows`` labels."""
    return LabelPool(
        np.zeros((rows, len(Label)), dtype=np.int64), np.zeros(2, dtype=np.int64)
    )


@step
def empty_pool(pool: LabelPool) -> None:
    """Give all rows back."""
    pool.label[0, Label.OPTION] = -1
    pool.size[0] = 1
    pool.size[1] = -1


@step
def spare(pool: LabelPool) -> int:
    """Return a row to write a label to; only ``keep`` marks it as used."""
    if pool.size[1] >= 0:
        return pool.size[1]
    return pool.size[0]


def new_buckets(rows: int) -> Buckets:
    """Return an empty table with room for ``rows`` buckets."""
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
    """Copy buckets into a larger table."""
    for row in range(buckets.size[0]):
        state = buckets.state[row]
        number = bucket(
            larger,
            state[Bucket.CONFIG],
            state[Bucket.OPTION],
            state[Bucket.UNITS],
            state[Bucket.LAST],
        )
        larger.state[number, Bucket.BOUND] = state[Bucket.BOUND]
        larger.state[number, Bucket.HEAD] = state[Bucket.HEAD]


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
            state[Bucket.CONFIG] == config
            and state[Bucket.OPTION] == option
            and state[Bucket.UNITS] == units
            and state[Bucket.LAST] == last
        ):
            return found
        place = (place + 1) % len(buckets.slot)
    made = buckets.size[0]
    buckets.slot[place] = made
    buckets.state[made, Bucket.CONFIG] = config
    buckets.state[made, Bucket.OPTION] = option
    buckets.state[made, Bucket.UNITS] = units
    buckets.state[made, Bucket.LAST] = last
    buckets.state[made, Bucket.BOUND] = -1
    buckets.state[made, Bucket.HEAD] = -1
    buckets.size[0] = made + 1
    return made


@step
def _replaces(costs: Costs, value: Ints, a: int, b: int) -> bool:
    """Whether label a is at least as good as b for every completion.

    Both are of one state. A larger g costs at most the difference, once; under gpipe a
    slower pace costs at most q - 1 times the difference.
    """
    if value[a, Label.WARMUP] > value[b, Label.WARMUP]:
        return False
    if value[a, Label.SHAPES] & ~value[b, Label.SHAPES]:
        return False
    more = max(
        0,
        value[a, Label.SYNC] - value[b, Label.SYNC],
        value[a, Label.LAST_SYNC] - value[b, Label.LAST_SYNC],
    )
    delay = value[a, Label.DELAY] - value[b, Label.DELAY]
    flag = value[a, Label.FLAG] - value[b, Label.FLAG]
    if costs.facts[Fact.GPIPE]:
        more += (costs.facts[Fact.Q] - 1) * (max(0, delay) + max(0, flag))
    elif delay > 0 or flag > 0:
        return False
    return value[a, Label.FILL] + more <= value[b, Label.FILL]


@step
def keep(
    costs: Costs,
    buckets: Buckets,
    number: int,
    pool: LabelPool,
    history: LabelPool,
    ordered: int,
) -> bool:
    """Chain the label in the spare row to its state, unless another replaces it.

    Parameters
    ----------
    history
        The pool that parents are rows of.
    ordered
        0: ignore the tie rule. 1: a label replaces only labels that do not come before
        it by the tie rule. 2: as 1, for labels at a crossing, ranked by their parents.
    """
    new = spare(pool)
    before, row = -1, buckets.state[number, Bucket.HEAD]
    while row >= 0:
        if _replaces(costs, pool.label, row, new) and (
            ordered == 0 or _comes_first(costs, pool, history, row, new, ordered)
        ):
            return False
        row = pool.label[row, Label.NEXT]
    if pool.size[1] >= 0:
        pool.size[1] = pool.label[new, Label.NEXT]
    else:
        pool.size[0] += 1
    row = buckets.state[number, Bucket.HEAD]
    while row >= 0:
        following = pool.label[row, Label.NEXT]
        if _replaces(costs, pool.label, new, row) and (
            ordered == 0 or _comes_first(costs, pool, history, new, row, ordered)
        ):
            if before < 0:
                buckets.state[number, Bucket.HEAD] = following
            else:
                pool.label[before, Label.NEXT] = following
            pool.label[row, Label.NEXT] = pool.size[1]
            pool.size[1] = row
        else:
            before = row
        row = following
    pool.label[new, Label.NEXT] = buckets.state[number, Bucket.HEAD]
    buckets.state[number, Bucket.HEAD] = new
    return True


@step
def _comes_first(
    costs: Costs, pool: LabelPool, history: LabelPool, a: int, b: int, ordered: int
) -> bool:
    if ordered == 2:
        a, b = pool.label[a, Label.PARENT], pool.label[b, Label.PARENT]
    return ranked(costs, history, a, b) <= 0


@step
def ranked(costs: Costs, pool: LabelPool, a: int, b: int) -> int:
    """Compare two labels of one state by the tie rule: -1, 0 or 1.

    Both have the same stages before them in the pipeline, so their own parts of the
    tie rule's keys decide: devices, then clusters, strategies, stages and units in
    pipeline order. Identical clusters get their final numbers when the plan is
    complete; here each counts as its group's first.
    """
    if a == b:
        return 0
    label, option = pool.label, costs.option
    if label[a, Label.DEVICES] != label[b, Label.DEVICES]:
        return -1 if label[a, Label.DEVICES] < label[b, Label.DEVICES] else 1
    for field in range(3):
        x, y = a, b
        while x >= 0 and y >= 0:
            here, there = label[x, Label.OPTION], label[y, Label.OPTION]
            if field == 0:
                here = costs.host[option[here, Option.CLUSTER], HostColumn.LEADER]
                there = costs.host[option[there, Option.CLUSTER], HostColumn.LEADER]
            elif field == 1:
                here, there = option[here, Option.RANK], option[there, Option.RANK]
            else:
                here, there = label[x, Label.IN_RUN], label[y, Label.IN_RUN]
            if here != there:
                return -1 if here < there else 1
            x, y = label[x, Label.RUN_PARENT], label[y, Label.RUN_PARENT]
        if x >= 0 or y >= 0:
            return -1 if x < 0 else 1
    x, y = a, b
    while x >= 0 and y >= 0:
        if label[x, Label.LENGTH] != label[y, Label.LENGTH]:
            return -1 if label[x, Label.LENGTH] < label[y, Label.LENGTH] else 1
        x, y = label[x, Label.PARENT], label[y, Label.PARENT]
    return 0
