"""Label setting from the end of the pipeline to its start, compiled.

A *label* is a way to place the last s stages. Its *state* is what earlier stages
depend on, apart from the quantities below: the devices used of each cluster
(``dp.configs``), the option of the stage placed last, the body units placed, and with
tied embeddings the layout of the last stage. Labels of one state
are compared by:

========  ==================================================================
FILL      sum of tau and 2 kappa
DELAY     E of MODEL.md section 4, at lambda = the search's upper end
SYNC      the largest g; with tied embeddings without the last stage's
LAST_SYNC g of the last stage of a tied model, 0 otherwise
FLAG      h-1f1b: 1 until some tau or kappa has reached lambda_0's lower end
WARMUP    min(W, q), which memory depends on
SHAPES    excluded shapes that this label may still complete, as bits
========  ==================================================================

Under gpipe DELAY and FLAG are the slowest forward and backward, boundaries included.

*Why label a may replace label b.* Every completion of b completes a as well: as E and W
of a are no larger, no E, and no memory need, of any earlier stage is larger (both grow
with E and W of the stage after it and depend on nothing else of it); the flag and the
shapes exclude no more. The completed plan of a costs no more, because ``_replaces``
counts what its larger g may add. E is raised to the least that any boundary hides
(``calm``): below that it makes no difference.

A label is also dropped if fill, the least fill of the rest, and g exceed the budget.

The next stage is on the label's cluster, or the label *crosses* to another one. The
state of a crossing has the label's cluster closed, and the layout of the next stage.
Many labels share one crossing, and few of them are worth a stage before it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from hetopt.base.compiled import kernel, step
from hetopt.solvers.arrays.costs import Fact, HostColumn, Option
from hetopt.solvers.arrays.windows import INFINITE
from hetopt.solvers.dp.bounds import Scalar
from hetopt.solvers.dp.budget import Cursor, is_worth, least_left
from hetopt.solvers.dp.configs import begin_configs, left_behind, untouched
from hetopt.solvers.dp.crossing import cross
from hetopt.solvers.dp.label_pool import (
    Bucket,
    Label,
    bucket,
    empty_buckets,
    empty_pool,
    keep,
    spare,
)
from hetopt.solvers.dp.placing import place_stages

if TYPE_CHECKING:
    from hetopt.solvers.arrays.costs import Costs, Ints
    from hetopt.solvers.dp.bounds import RangeLimits
    from hetopt.solvers.dp.label_pool import Buckets, LabelPool, Memory


class LabelPhase(IntEnum):
    """What label setting does next.

    It clears the next layer; extends labels within their cluster, and crosses to other
    clusters; then places stages before the labels that crossed.
    """

    CLEAR, EXTEND, CROSSED, DONE = range(4)


@kernel
def walk(
    costs: Costs, limits: RangeLimits, placed: int, memory: Memory, progress: Ints
) -> None:
    """Place one more stage before every label of ``now``, into ``after``.

    Returns after about ``progress[WORK]`` steps, or if there is no room for the labels
    that one label may lead to. Call it again until ``progress[PHASE]`` is ``DONE``.
    First all labels are extended with their option and taken over boundaries to other
    clusters; then those that crossed are extended.

    Parameters
    ----------
    placed
        Stages placed by the labels of ``now``; 0 in the first layer.
    progress
        Phase; the bucket and row to go on with (row 0: the bucket's first); budget
        for ``total_of``; steps left; ``most_new``.
    """
    if progress[Cursor.PHASE] == LabelPhase.CLEAR:
        progress[Cursor.PHASE] = LabelPhase.EXTEND
        progress[Cursor.BUCKET] = progress[Cursor.ROW] = 0
        empty_buckets(memory.after)
        empty_buckets(memory.crossings)
        empty_pool(memory.crossed)
        if placed == 0:
            empty_pool(memory.pool)
            empty_buckets(memory.now)
            begin_configs(memory.configs)
            _begin(costs, limits, memory.crossings, memory.crossed)
    while progress[Cursor.PHASE] != LabelPhase.DONE:
        has_crossed = progress[Cursor.PHASE] == LabelPhase.CROSSED
        source = memory.crossings if has_crossed else memory.now
        if progress[Cursor.BUCKET] == source.size[0]:
            progress[Cursor.PHASE] += 1
            progress[Cursor.BUCKET] = 0
            continue
        here = source.state[progress[Cursor.BUCKET]]
        if progress[Cursor.ROW] == 0:
            progress[Cursor.ROW] = here[Bucket.HEAD]
        while progress[Cursor.ROW] > 0:
            if progress[Cursor.WORK] <= 0 or not _has_room(
                memory, progress[Cursor.MORE]
            ):
                return
            if has_crossed:
                _place_first(costs, limits, placed, here, memory, progress)
            else:
                _go_on(costs, limits, placed, here, memory, progress)
        progress[Cursor.BUCKET] += 1
        progress[Cursor.ROW] = 0


@step
def _has_room(memory: Memory, more: int) -> bool:
    """Whether every table has room for ``more`` further rows."""
    return (
        len(memory.crossings.state) - memory.crossings.size[0] >= more
        and len(memory.crossed.label) - memory.crossed.size[0] >= more
        and len(memory.after.state) - memory.after.size[0] >= more
        and len(memory.pool.label) - memory.pool.size[0] >= more
        and len(memory.configs.status) - memory.configs.size[0] >= more
    )


@step
def _place_first(
    costs: Costs,
    limits: RangeLimits,
    placed: int,
    here: Ints,
    memory: Memory,
    progress: Ints,
) -> None:
    """Place a stage of each option of the layout that a label crossed to before it."""
    label = memory.crossed.label[progress[Cursor.ROW]]
    progress[Cursor.ROW] = label[Label.NEXT]
    for o in range(len(costs.option)):
        if costs.option[o, Option.LAYOUT] == here[Bucket.OPTION]:
            place_stages(costs, limits, placed, here, o, label, memory, progress)


@step
def _go_on(
    costs: Costs,
    limits: RangeLimits,
    placed: int,
    here: Ints,
    memory: Memory,
    progress: Ints,
) -> None:
    """Take a label to all other clusters, and place stages of its cluster before it."""
    row = progress[Cursor.ROW]
    progress[Cursor.ROW] = memory.pool.label[row, Label.NEXT]
    _change_cluster(costs, limits, placed, here, row, memory, progress)
    # The row after the last one is scratch.
    base = memory.crossed.label[memory.crossed.size[0]]
    for o in range(len(costs.option)):
        if _extend(costs, limits, here, row, o, memory.pool, base):
            place_stages(costs, limits, placed, here, o, base, memory, progress)


@step
def _begin(
    costs: Costs, limits: RangeLimits, crossings: Buckets, crossed: LabelPool
) -> None:
    """Add the empty label to the crossing to every layout that may come last."""
    for a in range(len(costs.home)):
        j = costs.home[a]
        if not costs.host[j, HostColumn.MAY_CLOSE] or costs.host[j, HostColumn.AHEAD]:
            continue
        known = costs.facts[Fact.TIED]
        number = bucket(crossings, 0, a, 0, a if known else 0)
        row = crossed.size[0]
        crossed.size[0] += 1
        label = crossed.label[row]
        for column in range(len(label)):
            label[column] = 0
        label[Label.FLAG] = 1 if limits.scalars[Scalar.FLOOR] > 0 else 0
        label[Label.WARMUP] = costs.facts[Fact.Q] if costs.facts[Fact.GPIPE] else 1
        label[Label.SHAPES] = (1 << len(costs.shapes)) - 1
        label[Label.PARENT] = label[Label.RUN_PARENT] = label[Label.NEXT] = -1
        label[Label.RUNS] = label[Label.IN_RUN] = 1
        crossings.state[number, Bucket.HEAD] = row


@step
def _extend(
    costs: Costs,
    limits: RangeLimits,
    here: Ints,
    row: int,
    o: int,
    pool: LabelPool,
    target: Ints,
) -> bool:
    """Take a label to the stage before it on the same cluster; False if it cannot."""
    own = here[Bucket.OPTION]
    if o != own and (
        costs.facts[Fact.SHARED] == 0
        or costs.option[o, Option.CLUSTER] != costs.option[own, Option.CLUSTER]
    ):
        return False
    label = pool.label[row]
    ends = 1 if o != own else 0
    a = costs.option[o, Option.LAYOUT]
    if not cross(costs, limits, here, label, a, ends, target):
        return False
    target[Label.PARENT] = row
    if o == own:
        target[Label.IN_RUN] = label[Label.IN_RUN] + 1
        target[Label.RUNS] = label[Label.RUNS]
        target[Label.RUN_PARENT] = label[Label.RUN_PARENT]
    else:
        target[Label.IN_RUN] = 1
        target[Label.RUNS] = label[Label.RUNS] + 1
        target[Label.RUN_PARENT] = row
    return True


@step
def _change_cluster(
    costs: Costs,
    limits: RangeLimits,
    placed: int,
    here: Ints,
    row: int,
    memory: Memory,
    progress: Ints,
) -> None:
    """Take a label over the boundary to every other cluster."""
    pool, crossed, configs = memory.pool, memory.crossed, memory.configs
    j = costs.option[here[Bucket.OPTION], Option.CLUSTER]
    closed = left_behind(costs, configs, here[Bucket.CONFIG], j)
    if closed < 0:
        return
    left = costs.facts[Fact.L] - here[Bucket.UNITS]
    bound = least_left(
        costs, limits, configs, closed, costs.facts[Fact.P] - placed, left
    )
    if bound >= INFINITE:
        return
    again = not costs.facts[Fact.CONSECUTIVE]
    open_to = untouched(configs, closed)
    for a in range(len(costs.home)):
        i = costs.home[a]
        if i == j or not costs.before[i, j]:
            continue
        if not again and (
            not open_to >> i & 1 or open_to & costs.host[i, HostColumn.AHEAD]
        ):
            continue
        progress[Cursor.WORK] -= 1
        label = crossed.label[spare(crossed)]
        if not cross(costs, limits, here, pool.label[row], a, 1, label):
            continue
        # The bound already counts the boundary just crossed, at its least kappa.
        known = limits.out[costs.cut[left], a]
        if not is_worth(costs, limits, label, bound - known, progress):
            continue
        label[Label.PARENT] = label[Label.RUN_PARENT] = row
        label[Label.RUNS] = pool.label[row, Label.RUNS] + 1
        label[Label.IN_RUN] = 1
        number = bucket(
            memory.crossings, closed, a, here[Bucket.UNITS], here[Bucket.LAST]
        )
        keep(
            costs,
            memory.crossings,
            number,
            crossed,
            pool,
            2 if limits.scalars[Scalar.ORDERED] else 0,
        )
