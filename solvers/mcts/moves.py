"""The decision tree of HetAuto, Fig. 3: the choices of a node, and making them.

One tree for every p. From its root: recomputation, one level for the plan; whether all
clusters host stages; q; the clusters in pipeline order, one after the other; then for
each of them its stages, its layers (how many in all, then stage by stage) and its
strategy, after which its memory is checked. Eq. 4 bounds the devices of a cluster's
stages by those it has; the plan of appendix D uses all. So does the tree: it offers
only the numbers of stages and the strategies that leave no device of a cluster idle,
or, if there are none, the fewest.

Deviations from the paper: recomputation is part of its input, and Eq. 12 has no unused
clusters; the order of clusters is not one choice among all permutations but one choice
per place, so that sixteen clusters do not make a node with 16! children. For
``mcts-guided`` strategies are free: it has no such restrictions, and the root is q.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetopt.base.compiled import step
from hetopt.solvers.arrays.costs import HostColumn, Option
from hetopt.solvers.mcts.data import SpaceFact
from hetopt.solvers.mcts.fill import fill
from hetopt.solvers.mcts.memory import least_flight, stage_fits
from hetopt.solvers.mcts.state import END, At, Phase

if TYPE_CHECKING:
    from hetopt.solvers.mcts.data import Space
    from hetopt.solvers.mcts.state import State


@step
def choices(space: Space, state: State) -> int:
    """Write the choices of the next decision to ``state.moves``; return how many.

    Choices that leave too few stages, devices or layers for the clusters to come are
    pruned (HetAuto section 4.1, action space pruning).
    """
    phase = state.at[At.PHASE]
    if phase == Phase.LEVEL:
        return _levels(space, state)
    if phase == Phase.USE:
        return _uses(space, state)
    if phase == Phase.Q:
        return _counts(space, state)
    if phase == Phase.ORDER:
        return _clusters(space, state)
    if phase == Phase.STAGES:
        return _stages(space, state)
    if phase == Phase.TOTAL:
        return _totals(space, state)
    if phase == Phase.SPLIT:
        return _splits(space, state)
    return _strategies(space, state)


@step
def _levels(space: Space, state: State) -> int:
    found = 0
    for level in range(space.begins.shape[2] - 1):
        offered = 0
        for i in range(space.begins.shape[0]):
            for j in range(space.begins.shape[1]):
                offered += space.begins[i, j, level + 1] - space.begins[i, j, level]
        if offered:
            state.moves[found] = level
            found += 1
    return found


@step
def _uses(space: Space, state: State) -> int:
    """Offer plans that use every cluster they can (0), and all plans (1)."""
    state.moves[0] = 0
    state.moves[1] = 1
    return min(2, len(space.required))


@step
def _counts(space: Space, state: State) -> int:
    found = 0
    for i in range(len(space.counts)):
        room = 0
        for j in range(space.room.shape[1]):
            room += space.room[i, j]
        if room >= space.facts[SpaceFact.P]:
            state.moves[found] = i
            found += 1
    return found


@step
def _clusters(space: Space, state: State) -> int:
    at = state.at
    count, last = at[At.COUNT], state.order[at[At.COUNT] - 1]
    room = missing = 0
    for j in range(len(state.used)):
        if state.used[j]:
            room += space.room[at[At.Q], j]
        elif space.required[j]:
            missing += 1
    found = 0
    for j in range(len(state.used)):
        if state.used[j] or not space.room[at[At.Q], j]:
            continue
        if count + missing + 1 - space.required[j] > space.facts[SpaceFact.P]:
            continue
        if space.before[last, j] if count else space.host[j, HostColumn.MAY_OPEN]:
            state.moves[found] = j
            found += 1
    enough = count and not missing and room >= space.facts[SpaceFact.P]
    if found and not at[At.PARTIAL]:
        return found
    if enough and space.host[last, HostColumn.MAY_CLOSE]:
        state.moves[found] = END
        found += 1
    return found


@step
def _stages(space: Space, state: State) -> int:
    at = state.at
    j, left = state.order[at[At.TURN]], space.facts[SpaceFact.P] - at[At.STAGE]
    after = 0
    for turn in range(at[At.TURN] + 1, at[At.COUNT]):
        after += space.room[at[At.Q], state.order[turn]]
    most = min(space.room[at[At.Q], j], left - (at[At.COUNT] - 1 - at[At.TURN]))
    found = 0
    for wanted in range(2, -1, -1):
        for hosted in range(max(1, left - after), most + 1):
            if space.stages_ok[j, hosted]:
                state.moves[found] = hosted
                found += _in_use(space, state, hosted, left) >= wanted
        if found:
            return found
    return found


@step
def _in_use(space: Space, state: State, hosted: int, left: int) -> int:
    """Return 0 if ``hosted`` stages leave devices of the cluster idle, else 1 or 2.

    1 if one cluster is to come, and the remaining ``left - hosted`` stages leave
    devices of that one idle.
    """
    at = state.at
    turn = at[At.TURN]
    if space.facts[SpaceFact.FREE]:
        return 2
    if not space.full[at[At.Q], state.order[turn], hosted]:
        return 0
    if turn + 2 != at[At.COUNT]:
        return 2
    return 1 + int(space.full[at[At.Q], state.order[turn + 1], left - hosted])


@step
def _totals(space: Space, state: State) -> int:
    at, facts = state.at, space.facts
    turn = at[At.TURN]
    j, hosted = state.order[turn], state.hosted[turn]
    left = facts[SpaceFact.L] - at[At.UNITS]
    least, most = hosted, left - (facts[SpaceFact.P] - at[At.STAGE] - hosted)
    ends = 0
    if turn == 0:
        ends += facts[SpaceFact.LEADS]
    if turn == at[At.COUNT] - 1:
        ends += facts[SpaceFact.TRAILS]
        least = left
    if space.given[0] >= 0:
        given = 0
        for stage in range(at[At.STAGE], at[At.STAGE] + hosted):
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
    least, most = 1, at[At.LEFT] - (ends(state) - at[At.STAGE] - 1)
    if space.given[0] >= 0:
        least = most = space.given[at[At.STAGE]]
    for units in range(least, most + 1):
        state.moves[units - least] = units
    return int(most + 1 - least)


@step
def _strategies(space: Space, state: State) -> int:
    levels = space.begins.shape[2] - 1
    found = 0
    if space.facts[SpaceFact.FREE]:
        for level in range(levels):
            found = _offered(space, state, level, found)
        return found
    found = _offered(space, state, state.at[At.LEVEL], 0)
    if not found:
        # Pins, or the problem, give this cluster another level than the plan's.
        for level in range(levels):
            found = _offered(space, state, level, found)
    return found


@step
def _offered(space: Space, state: State, level: int, found: int) -> int:
    """Append the current cluster's strategies of one level; return the new count.

    Unless strategies are free, only those with the largest stages of which enough fit:
    devices stay idle only if no strategy of the level can use them.
    """
    at = state.at
    j, hosted = state.order[at[At.TURN]], state.hosted[at[At.TURN]]
    begin, end = space.begins[at[At.Q], j, level], space.begins[at[At.Q], j, level + 1]
    largest = 0
    for o in range(begin, end):
        option = space.option[o]
        if option[Option.MOST_STAGES] < hosted:
            continue
        if not space.facts[SpaceFact.FREE] and option[Option.DEVICES] < largest:
            break
        largest = option[Option.DEVICES]
        state.moves[found] = o
        found += 1
    return found


@step
def ends(state: State) -> int:
    """Return the stage after the last one of the current cluster."""
    end = 0
    for turn in range(state.at[At.TURN] + 1):
        end += state.hosted[turn]
    return end


@step
def take(space: Space, state: State, move: int) -> None:
    """Make the decision ``move``, and set the next phase."""
    at = state.at
    phase = at[At.PHASE]
    if phase == Phase.LEVEL:
        at[At.LEVEL], at[At.PHASE] = move, Phase.USE
    elif phase == Phase.USE:
        at[At.PARTIAL], at[At.PHASE] = move, Phase.Q
    elif phase == Phase.Q:
        at[At.Q], at[At.PHASE] = move, Phase.ORDER
    elif phase == Phase.ORDER:
        if move == END:
            at[At.PHASE] = Phase.STAGES
        else:
            state.order[at[At.COUNT]] = move
            state.used[move] = 1
            at[At.COUNT] += 1
    elif phase == Phase.STAGES:
        state.hosted[at[At.TURN]] = move
        at[At.PHASE] = Phase.TOTAL
        if space.facts[SpaceFact.FILLED]:
            at[At.STAGE] += move
            at[At.PHASE] = Phase.STRATEGY
    elif phase == Phase.TOTAL:
        at[At.LEFT] = move
        at[At.PHASE] = Phase.SPLIT
        _close(state)
    elif phase == Phase.SPLIT:
        _place(state, move)
        _close(state)
    else:
        state.chosen[at[At.TURN]] = move
        filled = space.facts[SpaceFact.FILLED]
        if not filled and not _fits(space, state):
            at[At.PHASE] = Phase.DEAD
            return
        at[At.TURN] += 1
        if at[At.TURN] < at[At.COUNT]:
            at[At.PHASE] = Phase.STAGES
        elif filled and not fill(space, state):
            at[At.PHASE] = Phase.DEAD
        else:
            at[At.PHASE] = Phase.LEAF


@step
def _place(state: State, units: int) -> None:
    at = state.at
    state.units[at[At.STAGE]] = units
    at[At.STAGE] += 1
    at[At.UNITS] += units
    at[At.LEFT] -= units


@step
def _close(state: State) -> None:
    """Give the cluster's remaining units to its last stage, if only that is left."""
    if ends(state) - state.at[At.STAGE] == 1:
        _place(state, state.at[At.LEFT])
        state.at[At.PHASE] = Phase.STRATEGY


@step
def _fits(space: Space, state: State) -> bool:
    """Whether the stages of the current cluster fit into memory."""
    at = state.at
    turn, end = at[At.TURN], at[At.STAGE]
    left = 0
    for stage in range(end - state.hosted[turn]):
        left += state.units[stage]
    for stage in range(end - state.hosted[turn], end):
        flight = least_flight(space, state, turn, stage)
        right = left + state.units[stage]
        if not stage_fits(space, state.chosen[turn], stage, left, right, flight):
            return False
        left = right
    return True
