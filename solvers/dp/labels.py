"""Label setting from the end of the pipeline to its start, compiled.

A *label* is a way to place the last s stages. Its *state* says what earlier stages
can notice of it but for quantities: what is used of the clusters (``dp.configs``),
the option of the stage placed last, the body units placed, and with tied embeddings
the layout of the last stage. What is compared among labels of one state:

========  ==================================================================
FILL      sum of tau and 2 kappa
DELAY     E of MODEL.md section 4, at lambda = the search's upper end
SYNC      the largest g; with tied embeddings without the last stage's
LAST_SYNC g of the last stage of a tied model, 0 otherwise
FLAG      h-1f1b: 1 until some tau or kappa has reached lambda_0's lower end
WARMUP    W cut to q: what memory sees of the schedule; under auto the least W
SHAPES    excluded shapes whose end this label is, as bits
========  ==================================================================

Under gpipe DELAY and FLAG are the slowest forward and backward, boundaries included.
Under auto a stage warms up no more than lambda demands of it (``free_warmups``), and
once W has reached q, E does not matter: it is 0.

*Why a replaced label can go.* Whatever completes b completes a as well: as E and W of
a are no larger, no E, and no memory need, of any earlier stage is larger (both grow
with E and W of the stage after it, which is all that is inherited); the flag and the
shapes demand no more. The completed plan of a then has no larger fill, up to what its
larger g may add, which ``_replaces`` counts. E is raised to what every boundary hides
anyhow (``calm``): below that it makes no difference.

A label is dropped as well when fill, what is left at least, and g exceed the budget.

The boundary before a label is *the same option's*, or leads through a *door*: the
state of a label with its cluster left behind, and the layout of the stage to come.
Many labels arrive at one door, and few are worth passing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.compiled import kernel, step
from hetopt.solvers.arrays.program import (
    AHEAD,
    CLUSTER,
    CONSECUTIVE,
    GPIPE,
    LAYOUT,
    MAY_CLOSE,
    SHARED,
    TIED,
    L,
    P,
    Q,
)
from hetopt.solvers.dp.bounds import FLOOR, INFINITE, ORDERED
from hetopt.solvers.dp.budget import (
    BUCKET,
    MORE,
    PHASE,
    ROW,
    WORK,
    is_worth,
    least_left,
)
from hetopt.solvers.dp.configs import begin_configs, left_behind, untouched
from hetopt.solvers.dp.crossing import cross
from hetopt.solvers.dp.label_pool import (
    AT_CONFIG,
    AT_LAST,
    AT_OPTION,
    AT_UNITS,
    FLAG,
    HEAD,
    IN_RUN,
    NEXT,
    PARENT,
    RUN_PARENT,
    RUNS,
    SHAPES,
    WARMUP,
    bucket,
    empty_buckets,
    empty_pool,
    keep,
    spare,
)
from hetopt.solvers.dp.placing import place_stages

if TYPE_CHECKING:
    from hetopt.solvers.arrays.program import Costs, Ints
    from hetopt.solvers.dp.bounds import Limits
    from hetopt.solvers.dp.configs import Configs
    from hetopt.solvers.dp.label_pool import Buckets, Pool

#: Phases: to clear the next layer, to take labels on, to open doors, done.
CLEAR, TAKE_ON, OPEN, DONE = range(4)


@kernel
def walk(
    costs: Costs,
    limits: Limits,
    placed: int,
    now: Buckets,
    doors: Buckets,
    after: Buckets,
    pool: Pool,
    porch: Pool,
    configs: Configs,
    progress: Ints,
) -> None:
    """Place one more stage before every label of ``now``, into ``after``.

    Returns after about ``progress[WORK]`` steps, or when there is no room left for
    what one label may lead to, and is then to be called again until
    ``progress[PHASE]`` is ``DONE``. First all labels go on with their option and come
    to doors, then those at doors pass them.

    Parameters
    ----------
    placed
        Stages placed by the labels of ``now``; none to begin with.
    progress
        Phase; bucket and its row, where it goes on (row 0: with the first); budget
        in ns (of fill and g; under gpipe of everything); work left; ``most_new``.
    """
    if progress[PHASE] == CLEAR:
        progress[PHASE] = TAKE_ON
        progress[BUCKET] = progress[ROW] = 0
        empty_buckets(after)
        empty_buckets(doors)
        empty_pool(porch)
        if placed == 0:
            empty_pool(pool)
            empty_buckets(now)
            begin_configs(configs)
            _begin(costs, limits, doors, porch)
    while progress[PHASE] != DONE:
        passing = progress[PHASE] == OPEN
        source = doors if passing else now
        if progress[BUCKET] == source.size[0]:
            progress[PHASE] += 1
            progress[BUCKET] = 0
            continue
        here = source.state[progress[BUCKET]]
        if progress[ROW] == 0:
            progress[ROW] = here[HEAD]
        while progress[ROW] > 0:
            if progress[WORK] <= 0 or not _has_room(
                progress[MORE], doors, after, pool, porch, configs
            ):
                return
            row = progress[ROW]
            if passing:
                label = porch.label[row]
                progress[ROW] = label[NEXT]
            else:
                label = pool.label[row]
                progress[ROW] = label[NEXT]
                _knock(
                    costs,
                    limits,
                    placed,
                    here,
                    row,
                    doors,
                    pool,
                    porch,
                    configs,
                    progress,
                )
            for o in range(len(costs.option)):
                if passing:
                    if costs.option[o, LAYOUT] != here[AT_OPTION]:
                        continue
                    base = label
                else:
                    # The row past the porch's last one is scratch.
                    base = porch.label[porch.size[0]]
                    if not _go_on(costs, limits, here, row, o, pool, base):
                        continue
                place_stages(
                    costs,
                    limits,
                    placed,
                    here,
                    o,
                    base,
                    after,
                    pool,
                    configs,
                    progress,
                )
        progress[BUCKET] += 1
        progress[ROW] = 0


@step
def _has_room(
    more: int, doors: Buckets, after: Buckets, pool: Pool, porch: Pool, configs: Configs
) -> bool:
    """Whether so many more of everything can be written down."""
    return (
        len(doors.state) - doors.size[0] >= more
        and len(porch.label) - porch.size[0] >= more
        and len(after.state) - after.size[0] >= more
        and len(pool.label) - pool.size[0] >= more
        and len(configs.status) - configs.size[0] >= more
    )


@step
def _begin(costs: Costs, limits: Limits, doors: Buckets, porch: Pool) -> None:
    """Put a label that places nothing at the door of every layout."""
    for a in range(len(costs.home)):
        j = costs.home[a]
        if not costs.host[j, MAY_CLOSE] or costs.host[j, AHEAD]:
            continue
        number = bucket(doors, 0, a, 0, a if costs.facts[TIED] else 0)
        row = porch.size[0]
        porch.size[0] += 1
        label = porch.label[row]
        for column in range(len(label)):
            label[column] = 0
        label[FLAG] = 1 if limits.knobs[FLOOR] > 0 else 0
        label[WARMUP] = costs.facts[Q] if costs.facts[GPIPE] else 1
        label[SHAPES] = (1 << len(costs.shapes)) - 1
        label[PARENT] = label[RUN_PARENT] = label[NEXT] = -1
        label[RUNS] = label[IN_RUN] = 1
        doors.state[number, HEAD] = row


@step
def _go_on(
    costs: Costs, limits: Limits, here: Ints, row: int, o: int, pool: Pool, target: Ints
) -> bool:
    """Take a label to the stage before it on the same cluster; False if it cannot."""
    own = here[AT_OPTION]
    if o != own and (
        costs.facts[SHARED] == 0
        or costs.option[o, CLUSTER] != costs.option[own, CLUSTER]
    ):
        return False
    label = pool.label[row]
    ends = 1 if o != own else 0
    a = costs.option[o, LAYOUT]
    if not cross(costs, limits, here, label, a, ends, target):
        return False
    target[PARENT] = row
    if o == own:
        target[IN_RUN] = label[IN_RUN] + 1
        target[RUNS] = label[RUNS]
        target[RUN_PARENT] = label[RUN_PARENT]
    else:
        target[IN_RUN] = 1
        target[RUNS] = label[RUNS] + 1
        target[RUN_PARENT] = row
    return True


@step
def _knock(
    costs: Costs,
    limits: Limits,
    placed: int,
    here: Ints,
    row: int,
    doors: Buckets,
    pool: Pool,
    porch: Pool,
    configs: Configs,
    progress: Ints,
) -> None:
    """Take a label to the doors of all other clusters."""
    j = costs.option[here[AT_OPTION], CLUSTER]
    closed = left_behind(costs, configs, here[AT_CONFIG], j)
    if closed < 0:
        return
    left = costs.facts[L] - here[AT_UNITS]
    bound = least_left(costs, limits, configs, closed, costs.facts[P] - placed, left)
    if bound >= INFINITE:
        return
    again = not costs.facts[CONSECUTIVE]
    open_to = untouched(configs, closed)
    for a in range(len(costs.home)):
        i = costs.home[a]
        if i == j or not costs.before[i, j]:
            continue
        if not again and (not open_to >> i & 1 or open_to & costs.host[i, AHEAD]):
            continue
        progress[WORK] -= 1
        label = porch.label[spare(porch)]
        if not cross(costs, limits, here, pool.label[row], a, 1, label):
            continue
        # The boundary just crossed is in the bound as well, at its least.
        known = limits.out[costs.cut[left], a]
        if not is_worth(costs, limits, label, bound - known, progress):
            continue
        label[PARENT] = label[RUN_PARENT] = row
        label[RUNS] = pool.label[row, RUNS] + 1
        label[IN_RUN] = 1
        number = bucket(doors, closed, a, here[AT_UNITS], here[AT_LAST])
        keep(costs, doors, number, porch, pool, 2 if limits.knobs[ORDERED] else 0)
