"""Label setting from the end of the pipeline to its start, compiled.

A *label* is a way to place the last s stages. Its *state* says what earlier stages
can notice of it but for quantities: what is used of the clusters (``dp_configs``),
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

from hetopt.formulations.program import PERIOD_SCALE
from hetopt.solvers.compiled import kernel, step
from hetopt.solvers.dp_bounds import (
    ALONE,
    BOUNDARY,
    ENDED,
    FLOOR,
    HEAVY,
    INFINITE,
    LIGHT,
    ORDERED,
    PACE,
    PERIOD,
    STAGE,
    WINDOW,
)
from hetopt.solvers.dp_configs import (
    begin_configs,
    free_worth,
    is_complete,
    left_behind,
    stages_used,
    taken,
    untouched,
)
from hetopt.solvers.dp_data import (
    ACTIVE,
    AHEAD,
    AUTO,
    CLUSTER,
    CONSECUTIVE,
    COUNTS_STAGES,
    COUNTS_UNITS,
    FORWARD,
    FREE,
    GPIPE,
    KAPPA,
    LAYOUT,
    LEAD,
    LEADS,
    MAY_CLOSE,
    MAY_OPEN,
    OMEGA,
    PEAK,
    PRICED,
    ROOM,
    SHAPE_HOSTED,
    SHAPE_OPTION,
    SHARED,
    STAGE_DEVICES,
    STATE,
    SYNC_FIXED,
    TAU,
    TIED,
    TRAIL,
    TRAILS,
    L,
    P,
    Q,
)
from hetopt.solvers.dp_data import SYNC as G
from hetopt.solvers.dp_pool import (
    AT_CONFIG,
    AT_LAST,
    AT_OPTION,
    AT_UNITS,
    BOUND,
    CONFIG,
    DELAY,
    DEVICES,
    FILL,
    FLAG,
    HEAD,
    IN_RUN,
    LAST_SYNC,
    LENGTH,
    NEXT,
    OPTION,
    PARENT,
    RUN_PARENT,
    RUNS,
    SHAPES,
    SYNC,
    WARMUP,
    bucket,
    empty_buckets,
    empty_pool,
    keep,
    ranked,
    spare,
)

if TYPE_CHECKING:
    from hetopt.solvers.dp_bounds import Limits
    from hetopt.solvers.dp_configs import Configs
    from hetopt.solvers.dp_data import Costs, Ints
    from hetopt.solvers.dp_pool import Buckets, Pool

#: Positions in the array of progress.
PHASE, BUCKET, ROW, BUDGET, WORK, MORE = range(6)
#: Phases: to clear the next layer, to take labels on, to open doors, done.
CLEAR, TAKE_ON, OPEN, DONE = range(4)
#: Columns that a boundary passes on: what is compared, and the devices.
_PASSED = 8


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
                _stages(
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
    if not _cross(costs, limits, here, label, a, ends, target):
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
def _cross(
    costs: Costs,
    limits: Limits,
    here: Ints,
    source: Ints,
    a: int,
    ends: int,
    target: Ints,
) -> bool:
    """Take a label over the boundary before it; False if that is too slow.

    Parameters
    ----------
    here
        The label's state.
    a
        Layout of the stage before the boundary.
    ends
        Whether the label's run ends, or goes on.
    target
        What is written: the label as the stage before the boundary finds it.
    """
    x = costs.cut[costs.facts[L] - here[AT_UNITS]]
    b = costs.option[here[AT_OPTION], LAYOUT]
    kappa, omega = costs.edge[KAPPA, x, a, b], costs.edge[OMEGA, x, a, b]
    knobs = limits.knobs
    if omega > knobs[STAGE] or kappa > knobs[BOUNDARY]:
        return False
    for column in range(_PASSED):
        target[column] = source[column]
    target[FILL] += 2 * kappa
    if costs.facts[GPIPE]:
        target[DELAY] = max(source[DELAY], omega)
        target[FLAG] = max(source[FLAG], omega)
    elif costs.facts[AUTO]:
        if knobs[PERIOD] < INFINITE and source[WARMUP] < costs.facts[Q]:
            target[DELAY] += 2 * PERIOD_SCALE * kappa
            _warm_up(costs, limits, target)
    else:
        more = limits.delta[LIGHT, x, a, b]
        target[WARMUP] = min(costs.facts[Q], source[WARMUP] + more)
        if kappa >= knobs[FLOOR]:
            target[FLAG] = 0
        if knobs[PERIOD] < INFINITE:
            hidden = limits.delta[HEAVY, x, a, b] * knobs[PERIOD]
            hidden -= 2 * PERIOD_SCALE * kappa
            target[DELAY] = max(0, source[DELAY] - hidden)
    if source[SHAPES]:
        target[SHAPES] = _matching(
            costs, source[SHAPES], source[RUNS], source[IN_RUN], ends
        )
    return True


@step
def _warm_up(costs: Costs, limits: Limits, label: Ints) -> None:
    """Add the warm-ups without which E exceeds lambda even before the next stage."""
    period = limits.knobs[PERIOD]
    if label[DELAY] > period:
        more = (label[DELAY] - 1) // period
        label[DELAY] -= more * period
        label[WARMUP] += more
    if label[WARMUP] >= costs.facts[Q]:
        label[WARMUP] = costs.facts[Q]
        label[DELAY] = 0


@step
def _matching(costs: Costs, shapes: int, runs: int, hosted: int, ends: int) -> int:
    """Return which excluded shapes still match when a run ends, or goes on."""
    left = 0
    for i in range(len(costs.shapes)):
        wanted = costs.shapes[i, runs - 1, SHAPE_HOSTED]
        if shapes >> i & 1 and (hosted == wanted if ends else hosted < wanted):
            left |= 1 << i
    return left


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
    bound = _left(costs, limits, configs, closed, costs.facts[P] - placed, left)
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
        if not _cross(costs, limits, here, pool.label[row], a, 1, label):
            continue
        # The boundary just crossed is in the bound as well, at its least.
        known = limits.out[costs.cut[left], a]
        if not _is_worth(costs, limits, label, bound - known, progress):
            continue
        label[PARENT] = label[RUN_PARENT] = row
        label[RUNS] = pool.label[row, RUNS] + 1
        label[IN_RUN] = 1
        number = bucket(doors, closed, a, here[AT_UNITS], here[AT_LAST])
        keep(costs, doors, number, porch, pool, 2 if limits.knobs[ORDERED] else 0)


@step
def _total(costs: Costs, limits: Limits, label: Ints) -> int:
    """Return fill and g of a label; under gpipe with what its pace adds."""
    total = label[FILL] + max(label[SYNC], label[LAST_SYNC])
    if costs.facts[GPIPE]:
        pace = max(limits.knobs[PACE], label[DELAY] + label[FLAG])
        total += (costs.facts[Q] - 1) * pace
    return total


@step
def _is_worth(
    costs: Costs, limits: Limits, label: Ints, bound: int, progress: Ints
) -> bool:
    """Whether a label may end within the budget, given what is left at least."""
    return _total(costs, limits, label) + bound <= progress[BUDGET]


@step
def _left(
    costs: Costs, limits: Limits, configs: Configs, config: int, stages: int, left: int
) -> int:
    """Return the least fill of so many stages and units, if a new run begins.

    Where devices have prices the run may be of any option.
    """
    if not costs.facts[PRICED]:
        return limits.rest[costs.row[untouched(configs, config)], stages, left]
    plain, priced = limits.rest[0, stages, left], limits.rest[1, stages, left]
    if plain >= INFINITE:
        return plain
    return max(plain, priced - free_worth(costs, configs, config, limits.price))


@step
def _may_go(
    costs: Costs,
    limits: Limits,
    configs: Configs,
    label: Ints,
    placed: int,
    left: int,
    progress: Ints,
) -> bool:
    """Whether a label is worth the closer look of ``_to_go``; False is for sure.

    If its cluster were untouched, what is left would cost no more, but for the
    boundary inside the run: to go on could begin with one to another cluster.
    """
    if costs.facts[PRICED]:
        return True
    o = label[OPTION]
    j = costs.option[o, CLUSTER]
    open_to = costs.row[untouched(configs, label[CONFIG]) | 1 << j]
    if open_to == len(limits.rest) - 1 or costs.host[j, COUNTS_STAGES]:
        return True
    a = costs.option[o, LAYOUT]
    inside = limits.out[len(limits.out) - 1, a]
    known = max(0, limits.out[costs.cut[left], a] - inside)
    bound = limits.rest[open_to, costs.facts[P] - placed, left]
    return label[FILL] < known or _is_worth(
        costs, limits, label, bound - known, progress
    )


@step
def _to_go(
    costs: Costs, limits: Limits, configs: Configs, placed: int, state: Ints
) -> int:
    """Return the least fill of what is left, the last run going on or not."""
    o = state[AT_OPTION]
    left, stages = costs.facts[L] - state[AT_UNITS], costs.facts[P] - placed
    if costs.facts[PRICED]:
        return _left(costs, limits, configs, state[AT_CONFIG], stages, left)
    rest = limits.rest[costs.row[untouched(configs, state[AT_CONFIG])]]
    best = rest[stages, left]
    tau = costs.sums[TAU, o]
    inner = limits.out[len(limits.out) - 1, costs.option[o, LAYOUT]]
    j = costs.option[o, CLUSTER]
    used = stages_used(configs, state[AT_CONFIG], j)
    others = costs.row[untouched(configs, state[AT_CONFIG]) | 1 << j]
    ended = ALONE if others == len(limits.rest) - 1 else ENDED
    total = 0
    for m in range(1, min(costs.option[o, ROOM] - used, stages) + 1):
        each = limits.caps[ended, o, placed + m]
        if each < 1:
            break
        total += each
        longest = min(total, limits.caps[WINDOW, o, m], left)
        extra = m * inner + tau[left]
        if m == stages:
            if longest == left:
                best = min(best, extra + costs.option[o, LEAD + TAU] - tau[0])
            continue
        row = rest[stages - m]
        for y in range(max(left - longest, stages - m), left - m + 1):
            if row[y] < INFINITE:
                best = min(best, row[y] - tau[y] + extra)
    return best


@step
def _stages(
    costs: Costs,
    limits: Limits,
    placed: int,
    here: Ints,
    o: int,
    base: Ints,
    after: Buckets,
    pool: Pool,
    configs: Configs,
    progress: Ints,
) -> None:
    """Place a stage of option o, with every number of units.

    Parameters
    ----------
    here, base
        State and label of what follows it, the boundary between them crossed.
    """
    facts, knobs, option = costs.facts, limits.knobs, costs.option[o]
    is_first = placed + 1 == facts[P]
    j = option[CLUSTER]
    if is_first and not costs.host[j, MAY_OPEN]:
        return
    shapes = base[SHAPES]
    if shapes and base[IN_RUN] == 1:
        for i in range(len(costs.shapes)):
            if costs.shapes[i, base[RUNS] - 1, SHAPE_OPTION] != o:
                shapes &= ~(1 << i)
    counted = costs.host[j, COUNTS_UNITS] != 0
    config = -1
    if not counted:
        config = taken(costs, configs, here[AT_CONFIG], o, 0)
        if config < 0:
            return
    right = facts[L] - here[AT_UNITS]
    most = right - (facts[P] - placed - 1)
    least = right if is_first else 1
    given = costs.given[placed]
    if given >= 0:
        least, most = max(least, given), min(most, given)
    ends = 0
    tau_ends, forward_ends, sync_ends, peak = 0, 0, 0, 0
    state_ends, active_ends = 0, 0
    if is_first:
        ends += facts[LEADS]
        tau_ends += option[LEAD + TAU]
        forward_ends += option[LEAD + FORWARD]
        sync_ends += option[LEAD + G]
        state_ends += option[LEAD + STATE]
        active_ends += option[LEAD + ACTIVE]
        peak = max(peak, option[LEAD + PEAK])
    if placed == 0:
        ends += facts[TRAILS]
        tau_ends += option[TRAIL + TAU]
        forward_ends += option[TRAIL + FORWARD]
        sync_ends += option[TRAIL + G]
        state_ends += option[TRAIL + STATE]
        active_ends += option[TRAIL + ACTIVE]
        peak = max(peak, option[TRAIL + PEAK])
    gpipe, free = facts[GPIPE] != 0, facts[AUTO] != 0
    steady = knobs[PERIOD] < INFINITE
    tau, state, active = costs.sums[TAU, o], costs.sums[STATE, o], costs.sums[ACTIVE, o]
    for units in range(1, most + 1):
        left = right - units
        time = tau[right] - tau[left] + tau_ends
        if time > knobs[STAGE]:
            break
        own = PERIOD_SCALE * time
        delay, flight = base[DELAY] + own, base[WARMUP]
        if steady and free and own <= knobs[PERIOD]:
            # Before the stage E was at most lambda.
            if delay > knobs[PERIOD]:
                delay = max(own, delay - knobs[PERIOD])
                flight += 1
            if flight >= facts[Q]:
                flight, delay = facts[Q], 0
        if steady and delay > knobs[PERIOD]:
            break
        peak = max(peak, costs.temporary[o, left])
        need = state[right] - state[left] + state_ends + peak
        need += flight * (active[right] - active[left] + active_ends)
        if need > option[FREE]:
            break
        if units < least:
            continue
        progress[WORK] -= 1
        if counted:
            config = taken(costs, configs, here[AT_CONFIG], o, units + ends)
            if config < 0:
                continue
        new = spare(pool)
        label = pool.label[new]
        label[FILL] = base[FILL] + time
        label[DELAY] = delay if steady else 0
        label[FLAG] = base[FLAG]
        if gpipe:
            forward = costs.sums[FORWARD, o, right] - costs.sums[FORWARD, o, left]
            forward += forward_ends
            label[DELAY] = max(base[DELAY], forward)
            label[FLAG] = max(base[FLAG], time - forward)
        elif time >= knobs[FLOOR]:
            label[FLAG] = 0
        sync = option[SYNC_FIXED] + sync_ends
        sync += costs.sums[G, o, right] - costs.sums[G, o, left]
        label[SYNC], label[LAST_SYNC] = base[SYNC], base[LAST_SYNC]
        if facts[TIED] and placed == 0:
            label[LAST_SYNC] = sync
        elif facts[TIED] and is_first:
            tied = costs.tied[option[LAYOUT], here[AT_LAST]]
            label[SYNC] = max(base[SYNC], max(sync, base[LAST_SYNC]) + tied)
        else:
            label[SYNC] = max(base[SYNC], sync)
        label[WARMUP] = flight
        label[SHAPES] = shapes
        label[DEVICES] = base[DEVICES] + option[STAGE_DEVICES]
        label[PARENT], label[RUN_PARENT] = base[PARENT], base[RUN_PARENT]
        label[IN_RUN], label[RUNS] = base[IN_RUN], base[RUNS]
        label[OPTION], label[LENGTH], label[CONFIG] = o, units, config
        if is_first:
            _finish(costs, limits, pool, new, configs, progress)
            continue
        if not _may_go(costs, limits, configs, label, placed + 1, left, progress):
            continue
        number = bucket(after, config, o, here[AT_UNITS] + units, here[AT_LAST])
        if after.state[number, BOUND] < 0:
            after.state[number, BOUND] = _to_go(
                costs, limits, configs, placed + 1, after.state[number]
            )
        bound = after.state[number, BOUND]
        if bound >= INFINITE:
            continue
        if steady:
            calm = limits.calm[costs.cut[left], option[LAYOUT]]
            label[DELAY] = max(label[DELAY], calm)
        if _is_worth(costs, limits, label, bound, progress):
            keep(costs, after, number, pool, pool, 1 if knobs[ORDERED] else 0)


@step
def _finish(
    costs: Costs,
    limits: Limits,
    pool: Pool,
    new: int,
    configs: Configs,
    progress: Ints,
) -> None:
    """Keep a complete label in row 0 if it is the best."""
    label = pool.label[new]
    if not costs.facts[GPIPE] and label[FLAG]:
        return
    for i in range(len(costs.shapes)):
        if (
            label[SHAPES] >> i & 1
            and costs.shapes[i, label[RUNS], SHAPE_OPTION] < 0
            and costs.shapes[i, label[RUNS] - 1, SHAPE_HOSTED] == label[IN_RUN]
        ):
            return
    if not is_complete(costs, configs, label[CONFIG]):
        return
    if not _is_worth(costs, limits, label, 0, progress):
        return
    if limits.knobs[ORDERED]:
        if pool.label[0, OPTION] >= 0 and ranked(costs, pool, 0, new) <= 0:
            return
    else:
        progress[BUDGET] = _total(costs, limits, label) - 1
    for column in range(pool.label.shape[1]):
        pool.label[0, column] = label[column]
