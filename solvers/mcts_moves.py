"""The decision tree of HetAuto, Fig. 3: what may be decided next, and deciding it.

One tree for every p. From its root: q; the clusters in pipeline order, one after the
other; then for each of them its stages, its layers (how many in all, then stage by
stage) and its strategy, after which its memory is checked. Deviations from the paper:
clusters may be left out, and their order is no single choice among all permutations
but one choice per place, so that sixteen clusters do not make a node with 16! children.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from hetopt.solvers.compiled import step
from hetopt.solvers.dp_data import (
    ACTIVE,
    FREE,
    LEAD,
    MAY_CLOSE,
    MAY_OPEN,
    PEAK,
    ROOM,
    STATE,
    TRAIL,
)
from hetopt.solvers.mcts_data import (
    ACROSS,
    GPIPE,
    INSIDE,
    LEADS,
    TRAILS,
    L,
    P,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from hetopt.solvers.mcts_data import Space

    Ints = NDArray[np.int64]

#: Positions in ``State.at``: what is decided next, the q as an index, clusters in the
#: order, the one whose turn it is, stages and units decided, units it has left.
PHASE, Q, COUNT, TURN, STAGE, UNITS, LEFT = range(7)
#: Phases; in DEAD ends there is no plan.
AT_Q, AT_ORDER, AT_STAGES, AT_TOTAL, AT_SPLIT, AT_STRATEGY, LEAF, DEAD = range(8)
#: No more clusters.
END = -1

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(32)


class State(NamedTuple):
    """A prefix of decisions.

    Attributes
    ----------
    at
        The positions above.
    order, used
        Clusters along the pipeline, and whether each is among them; length J.
    hosted, chosen
        Stages and option of each in the order; length J.
    units
        Body units of each stage; length p.
    moves
        What may be decided next; as long as there can be choices.
    times
        Room to price a plan: tau, kappa and delta of each stage; shape (3, p).
    seed
        State of the random numbers; length 1, unsigned.
    """

    at: Ints
    order: Ints
    used: Ints
    hosted: Ints
    chosen: Ints
    units: Ints
    moves: Ints
    times: Ints
    seed: NDArray[np.uint64]


def new_state(space: Space, seed: int) -> State:
    """Make room for a prefix; ``seed`` of 64 bits."""
    stages, clusters = len(space.given), len(space.required)
    most = max(
        len(space.counts),
        clusters + 1,
        stages,
        int(space.facts[L]),
        int(np.diff(space.begins, axis=1).max(initial=0)),
    )
    return State(
        at=np.zeros(LEFT + 1, dtype=np.int64),
        order=np.zeros(clusters, dtype=np.int64),
        used=np.zeros(clusters, dtype=np.int64),
        hosted=np.zeros(clusters, dtype=np.int64),
        chosen=np.zeros(clusters, dtype=np.int64),
        units=np.zeros(stages, dtype=np.int64),
        moves=np.zeros(most, dtype=np.int64),
        times=np.zeros((3, stages), dtype=np.int64),
        seed=np.array([seed], dtype=np.uint64),
    )


@step
def draw(seed: NDArray[np.uint64], count: int) -> int:
    """Draw a whole number below ``count``: SplitMix64 (Steele et al., 2014)."""
    seed[0] += _GOLDEN
    mixed = seed[0]
    mixed = (mixed ^ (mixed >> _30)) * _FIRST
    mixed = (mixed ^ (mixed >> _27)) * _SECOND
    mixed ^= mixed >> _31
    return int(np.int64(((mixed >> _32) * np.uint64(count)) >> _32))


@step
def restart(state: State) -> None:
    """Go back to the root."""
    state.at[:] = 0
    state.used[:] = 0


@step
def choices(space: Space, state: State) -> int:
    """Write what may be decided next into ``state.moves``; return how many.

    Only what leaves stages, devices and layers for the clusters to come (HetAuto
    section 4.1, action space pruning).
    """
    phase = state.at[PHASE]
    if phase == AT_Q:
        return _counts(space, state)
    if phase == AT_ORDER:
        return _clusters(space, state)
    if phase == AT_STAGES:
        return _stages(space, state)
    if phase == AT_TOTAL:
        return _totals(space, state)
    if phase == AT_SPLIT:
        return _splits(space, state)
    return _strategies(space, state)


@step
def _counts(space: Space, state: State) -> int:
    found = 0
    for i in range(len(space.counts)):
        room = 0
        for j in range(space.room.shape[1]):
            room += space.room[i, j]
        if room >= space.facts[P]:
            state.moves[found] = i
            found += 1
    return found


@step
def _clusters(space: Space, state: State) -> int:
    at = state.at
    count, last = at[COUNT], state.order[at[COUNT] - 1]
    room = missing = 0
    for j in range(len(state.used)):
        if state.used[j]:
            room += space.room[at[Q], j]
        elif space.required[j]:
            missing += 1
    found = 0
    for j in range(len(state.used)):
        if state.used[j] or not space.room[at[Q], j]:
            continue
        if count + missing + 1 - space.required[j] > space.facts[P]:
            continue
        if space.before[last, j] if count else space.host[j, MAY_OPEN]:
            state.moves[found] = j
            found += 1
    enough = count and not missing and room >= space.facts[P]
    if enough and space.host[last, MAY_CLOSE]:
        state.moves[found] = END
        found += 1
    return found


@step
def _stages(space: Space, state: State) -> int:
    at = state.at
    j, left = state.order[at[TURN]], space.facts[P] - at[STAGE]
    after = 0
    for turn in range(at[TURN] + 1, at[COUNT]):
        after += space.room[at[Q], state.order[turn]]
    most = min(space.room[at[Q], j], left - (at[COUNT] - 1 - at[TURN]))
    found = 0
    for hosted in range(max(1, left - after), most + 1):
        if space.stages_ok[j, hosted]:
            state.moves[found] = hosted
            found += 1
    return found


@step
def _totals(space: Space, state: State) -> int:
    at, facts = state.at, space.facts
    turn = at[TURN]
    j, hosted = state.order[turn], state.hosted[turn]
    left = facts[L] - at[UNITS]
    least, most = hosted, left - (facts[P] - at[STAGE] - hosted)
    ends = 0
    if turn == 0:
        ends += facts[LEADS]
    if turn == at[COUNT] - 1:
        ends += facts[TRAILS]
        least = left
    if space.given[0] >= 0:
        given = 0
        for stage in range(at[STAGE], at[STAGE] + hosted):
            given += space.given[stage]
        least, most = max(least, given), min(most, given)
    found = 0
    for units in range(least, most + 1):
        if space.units_ok[j, units + ends]:
            state.moves[found] = units
            found += 1
    return found


@step
def _splits(space: Space, state: State) -> int:
    at = state.at
    least, most = 1, at[LEFT] - (_ends(state) - at[STAGE] - 1)
    if space.given[0] >= 0:
        least = most = space.given[at[STAGE]]
    for units in range(least, most + 1):
        state.moves[units - least] = units
    return int(most + 1 - least)


@step
def _strategies(space: Space, state: State) -> int:
    at = state.at
    j, hosted = state.order[at[TURN]], state.hosted[at[TURN]]
    found = 0
    for o in range(space.begins[at[Q], j], space.begins[at[Q], j + 1]):
        if space.option[o, ROOM] >= hosted:
            state.moves[found] = o
            found += 1
    return found


@step
def _ends(state: State) -> int:
    """Return the stage after the last one of the cluster whose turn it is."""
    end = 0
    for turn in range(state.at[TURN] + 1):
        end += state.hosted[turn]
    return end


@step
def take(space: Space, state: State, move: int) -> None:
    """Decide."""
    at = state.at
    phase = at[PHASE]
    if phase == AT_Q:
        at[Q], at[PHASE] = move, AT_ORDER
    elif phase == AT_ORDER:
        if move == END:
            at[PHASE] = AT_STAGES
        else:
            state.order[at[COUNT]] = move
            state.used[move] = 1
            at[COUNT] += 1
    elif phase == AT_STAGES:
        state.hosted[at[TURN]] = move
        at[PHASE] = AT_TOTAL
    elif phase == AT_TOTAL:
        at[LEFT] = move
        at[PHASE] = AT_SPLIT
        _close(state)
    elif phase == AT_SPLIT:
        _place(state, move)
        _close(state)
    else:
        state.chosen[at[TURN]] = move
        if not fits(space, state, at[TURN], at[STAGE] - state.hosted[at[TURN]]):
            at[PHASE] = DEAD
            return
        at[TURN] += 1
        at[PHASE] = LEAF if at[TURN] == at[COUNT] else AT_STAGES


@step
def _place(state: State, units: int) -> None:
    at = state.at
    state.units[at[STAGE]] = units
    at[STAGE] += 1
    at[UNITS] += units
    at[LEFT] -= units


@step
def _close(state: State) -> None:
    """Give the cluster's last stage what is left."""
    if _ends(state) - state.at[STAGE] == 1:
        _place(state, state.at[LEFT])
        state.at[PHASE] = AT_STRATEGY


@step
def spread(space: Space, state: State) -> None:
    """Split the units that the cluster has left over its stages, at random.

    Evenly, with the remainder on random stages; then, as long as a coin says so, one
    unit goes from some stage to another: every split may come, and even ones most
    often. (Of all splits alike most give some stage several times its share.)
    """
    at = state.at
    first = at[STAGE]
    count = _ends(state) - first
    extra = at[LEFT] % count
    share = at[LEFT] // count
    for stage in range(first, first + count):
        units = share
        if draw(state.seed, first + count - stage) < extra:
            units += 1
            extra -= 1
        state.units[stage] = units
    while draw(state.seed, 2):
        source = first + draw(state.seed, count)
        target = first + draw(state.seed, count)
        if state.units[source] > 1:
            state.units[source] -= 1
            state.units[target] += 1
    if space.given[0] >= 0:
        for stage in range(first, first + count):
            state.units[stage] = space.given[stage]
    at[STAGE] += count
    at[UNITS] += at[LEFT]
    at[LEFT] = 0
    at[PHASE] = AT_STRATEGY


@step
def roll_out(space: Space, state: State) -> None:
    """Decide all that is left at random."""
    while state.at[PHASE] < LEAF:
        if state.at[PHASE] == AT_SPLIT:
            spread(space, state)
            continue
        count = choices(space, state)
        if not count:
            state.at[PHASE] = DEAD
            return
        take(space, state, state.moves[draw(state.seed, count)])


@step
def fits(space: Space, state: State, turn: int, first: int) -> bool:
    """Whether the stages of one cluster, ``first`` on, fit into memory.

    Under h-1f1b with the fewest warm-ups there can be; ``price`` knows how many.
    """
    at, facts = state.at, space.facts
    left = 0
    for stage in range(first):
        left += state.units[stage]
    crossings = at[COUNT] - 1 - turn
    for stage in range(first, first + state.hosted[turn]):
        flight = 1 + facts[INSIDE] * (facts[P] - 1 - stage)
        flight += (facts[ACROSS] - facts[INSIDE]) * crossings
        q = space.counts[at[Q]]
        if facts[GPIPE] or flight > q:
            flight = q
        if not stage_fits(space, state, state.chosen[turn], stage, left, flight):
            return False
        left += state.units[stage]
    return True


@step
def stage_fits(
    space: Space, state: State, o: int, stage: int, left: int, flight: int
) -> bool:
    """Whether a stage with option ``o`` fits into memory.

    Parameters
    ----------
    left
        Body units before the stage.
    flight
        Micro-batches in flight.
    """
    option, right = space.option[o], left + state.units[stage]
    peak = 0
    for u in range(left, right):
        peak = max(peak, space.temporary[o, u])
    held = space.sums[STATE, o, right] - space.sums[STATE, o, left]
    active = space.sums[ACTIVE, o, right] - space.sums[ACTIVE, o, left]
    if stage == 0:
        held += option[LEAD + STATE]
        active += option[LEAD + ACTIVE]
        peak = max(peak, option[LEAD + PEAK])
    if stage == space.facts[P] - 1:
        held += option[TRAIL + STATE]
        active += option[TRAIL + ACTIVE]
        peak = max(peak, option[TRAIL + PEAK])
    return bool(held + peak + flight * active <= option[FREE])
